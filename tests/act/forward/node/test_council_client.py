import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from forebay.act.forward.council.parameters import check_parameter
from forebay.act.forward.net.admission import Listener
from forebay.act.forward.net.auth import Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.wire import Flag, Kind, Message, answer_header, pack, unpack_as
from forebay.act.forward.node.council_client import CouncilClient
from forebay.act.forward.node.io_node import IoNode
from forebay.act.forward.node.process import node_metrics
from forebay.decide.order.queue_layout import AGGREGATE, WINDOW
from forebay.model.errors import UserError
from support.forward import KEY, unix
from support.forward_nodes import STRIPE, NodeThread, node_thread
from support.metrics import values_of


class PretendCouncil:
    """Hears announcements, and says what a test wants."""

    def __init__(self, thread: NodeThread) -> None:
        self._thread = thread.thread
        self.heard: list[tuple[int, Any]] = []
        self.answers = True
        self.nodes: list[Connection] = []
        me = Peer(role="council", name="council")
        self.address = unix(thread.folder, "council")

        def make() -> Listener:
            return Listener(self.address, Credentials(KEY, me, ("node",)), self._entered, buffers=Buffers())

        self.door = self._thread.call(make)

    def _entered(self, connection: Connection) -> None:
        self.nodes.append(connection)
        connection.redirect(self._received, lambda lost, _: self.nodes.remove(lost))

    def _received(self, connection: Connection, message: Message) -> None:
        self.heard.append((message.kind, unpack_as(object, message.payload)))
        message.release()
        if message.kind == Kind.JOB and self.answers:
            connection.send([answer_header(message)])

    def say(self, words: Any, kind: Kind = Kind.DECIDE, flags: int = 0) -> None:
        payload = pack(words) if not isinstance(words, bytes) else words
        message = Message(kind, flags, payload=payload)

        def send() -> None:
            for node in self.nodes:
                node.send([message.header(), payload])

        self._thread.call(send)

    def of(self, kind: Kind) -> list[Any]:
        return [words for heard, words in self.heard if heard == kind]

    def close(self) -> None:
        def do() -> None:
            self.door.close()
            for node in tuple(self.nodes):
                node.close()

        self._thread.call(do)


@contextmanager
def announcing(thread: NodeThread, node: IoNode, council: PretendCouncil) -> Iterator[CouncilClient]:
    async def start() -> tuple[CouncilClient, asyncio.Task[None]]:
        made = CouncilClient(node, council.address, every=0.01)
        return made, asyncio.get_running_loop().create_task(made.run())

    announcer, task = thread.thread.run(start())
    node.record = announcer.record
    try:
        thread.soon(lambda: announcer.connection is not None)
        yield announcer
    finally:
        thread.thread.call(task.cancel)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("window", 1), ("window", -1), ("window", 2**62), ("window", 1.5), ("window", True), ("window", "1ms"),
        ("window", None), ("aggregate", -1), ("aggregate", 1 << 40), ("scheduler", "twin"), ("scheduler", 5),
        ("scheduler", "fifo:aggregate=1099511627776"), ("scheduler", "twins:window=1"),
        ("nothing", 1), (None, None), (["window"], 5),
    ],
)  # fmt: skip
def test_nonsense_is_not_a_decision(parameter: object, value: object) -> None:
    with pytest.raises(UserError):
        check_parameter(parameter, value)


def test_a_decision_is_followed_and_nonsense_is_counted(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1), scheduler="twins")
        council = PretendCouncil(thread)
        with announcing(thread, node, council):
            council.say({"parameter": "window", "value": 250_000})
            thread.soon(lambda: int(node.dispatch.q[WINDOW]) == 250_000)
            too_low = {"parameter": "window", "value": -5}
            nonsense: tuple[object, ...] = (too_low, {"value": 1}, [], 7, None, b"\xc1", {})
            for words in nonsense:
                council.say(words)
            council.say({}, Kind.READ)
            thread.soon(lambda: node.counts["nonsense"] == 8)
            assert int(node.dispatch.q[WINDOW]) == 250_000
            council.say({"parameter": "window", "value": 500_000, "ignore": True})
            thread.soon(lambda: node.counts["decisions"] == 2)
            assert int(node.dispatch.q[WINDOW]) == 250_000
            council.say({"parameter": "scheduler", "value": "hbrr"})
            thread.soon(lambda: node.dispatch.scheduler == "hbrr")
        council.close()


def has_announced(council: PretendCouncil, value: object) -> bool:
    return any(words["value"] == value for words in council.of(Kind.ANNOUNCE))


def test_a_period_begins_with_each_decision_that_changes_something(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1), scheduler="twins")
        council = PretendCouncil(thread)
        with announcing(thread, node, council):
            for value in (250_000, 500_000, 0):
                council.say({"parameter": "window", "value": value})
                thread.soon(partial(has_announced, council, value))
        assert all(words["held"] >= words["observed"]["seconds"] for words in council.of(Kind.ANNOUNCE))
        council.close()


def test_a_decision_about_one_setting_keeps_all_others(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        queue = {"aggregate": 1 << 20, "window": 4_000_000}
        node = thread.node(thread.serve(1), scheduler="twins", queue=queue)
        council = PretendCouncil(thread)

        def decide(parameter: str, value: object) -> tuple[str, int, int]:
            before = node.counts["decisions"]
            council.say({"parameter": parameter, "value": value})
            thread.soon(lambda: node.counts["decisions"] > before)
            return node.dispatch.scheduler, int(node.dispatch.q[WINDOW]), int(node.dispatch.q[AGGREGATE])

        with announcing(thread, node, council):
            for parameter, value, wanted in (
                ("window", 500_000, ("twins", 500_000, 1 << 20)),
                ("aggregate", 1 << 19, ("twins", 500_000, 1 << 19)),
                ("scheduler", "twins-work-conserving", ("twins-work-conserving", 500_000, 1 << 19)),
                ("scheduler", "twins:window=250000", ("twins:window=250000", 250_000, 1 << 19)),
                ("quantum", 3, ("twins:window=250000", 250_000, 1 << 19)),
                ("scheduler", "fifo", ("fifo", 500_000, 1 << 19)),
            ):
                assert decide(parameter, value) == wanted
            council.heard.clear()
            council.say({"parameter": "aggregate", "value": 1 << 20, "ignore": True})
            thread.soon(lambda: any(words["parameter"] == "aggregate" for words in council.of(Kind.ANNOUNCE)))
            assert council.of(Kind.ANNOUNCE)[-1]["value"] == 1 << 19  # as it is, whoever set it
        council.close()


def test_without_a_council_the_last_window_stays(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1), scheduler="twins")
        council = PretendCouncil(thread)
        with announcing(thread, node, council) as announcer:
            council.say({"parameter": "window", "value": 250_000})
            thread.soon(lambda: int(node.dispatch.q[WINDOW]) == 250_000)
            council.close()
            thread.soon(lambda: not announcer.connection is not None)
            with thread.client(node) as client:
                client.write(client.open(b"f"), 0, bytes(STRIPE))
            assert int(node.dispatch.q[WINDOW]) == 250_000
            again = PretendCouncil(thread)
            thread.soon(lambda: announcer.connection is not None)
            thread.soon(lambda: bool(again.of(Kind.ANNOUNCE)))
            assert again.of(Kind.ANNOUNCE)[-1]["value"] == 250_000
            again.close()


def test_announcements_say_what_passed(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2), scheduler="twins-work-conserving")
        council = PretendCouncil(thread)
        with announcing(thread, node, council) as announcer, thread.client(node, processes=8, job="5") as client:
            file = client.open(b"f")
            for i in range(5):
                client.write(file, i * 1000, bytes(1000))
            client.read(file, 0, 3000)
            thread.soon(lambda: sum(w["observed"]["reads"] for w in council.of(Kind.ANNOUNCE)) == 1)
            seen = [words["observed"] for words in council.of(Kind.ANNOUNCE)]
            assert sum(s["writes"] for s in seen) == 5
            assert sum(s["bytes_written"] for s in seen) == 5000
            assert max(s["processes"] for s in seen) == 8
            assert {words["servers"] for words in council.of(Kind.ANNOUNCE)} == {2}
            found = values_of(thread.thread.call(lambda: list(node_metrics(node, announcer))))
            assert found["forebay_ion_bytes_written",] == 5000
            assert found["forebay_ion_clients",] in (0, 1)
        council.close()


def test_a_job_is_told_until_the_council_has_it(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1))
        council = PretendCouncil(thread)
        council.answers = False
        with announcing(thread, node, council) as announcer:
            with thread.client(node, job="11", application="app") as client:
                client.write(client.open(b"f"), 0, bytes(1000))
            thread.soon(lambda: len(council.of(Kind.JOB)) == 1)
            council.close()
            thread.soon(lambda: not announcer.connection is not None)
            again = PretendCouncil(thread)
            thread.soon(lambda: len(again.of(Kind.JOB)) == 1)
            (part,) = again.of(Kind.JOB)[0]["parts"]
            assert (part["app"], part["job"], part["bytes_written"]) == ("app", 11, 1000)
            assert council.of(Kind.JOB) == again.of(Kind.JOB)
            thread.thread.run(announcer.flush(60.0))
            again.say({}, Kind.JOB, Flag.REPLY)  # to nothing: harmless
            again.close()
