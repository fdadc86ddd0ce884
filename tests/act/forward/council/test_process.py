import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from forebay.act.forward.council.process import CouncilProcess, CouncilSettings, load_state, save_state
from forebay.act.forward.net.auth import Asker, Peer
from forebay.act.forward.net.wire import Kind, pack, unpack_as
from forebay.decide.tune.council import Council, as_json, decide, new_council
from forebay.history.store import open_store
from forebay.history.store.listing import list_runs
from forebay.model.errors import BadInput
from forebay.model.observation import Observation
from support.forward import KEY, LoopThread, Speaker, loop_thread, unix

VALUES = (125_000, 1_000_000, 8_000_000)
SEEN = Observation(
    seconds=1.0, files=1, reads=10, bytes_read=10_000, smallest=1000, mean=1000.0, largest=1000, clients=2, processes=4
)


def settings(folder: Path, **changes: Any) -> CouncilSettings:
    made = CouncilSettings(
        address=unix(folder, "council"),
        key=KEY,
        council=new_council("window", VALUES, tuner="epsilon-greedy"),
        every=0.01,
    )
    return replace(made, **changes)


@contextmanager
def council(made: CouncilSettings, store: Any = None) -> Iterator[tuple[LoopThread, CouncilProcess]]:
    with loop_thread() as thread:

        async def start() -> tuple[CouncilProcess, asyncio.Task[None]]:
            process = CouncilProcess(made, store, lambda seen: "shared-contiguous" if seen.requests else None)
            return process, asyncio.get_running_loop().create_task(process.run())

        process, task = thread.run(start())
        try:
            yield thread, process
        finally:
            thread.call(task.cancel)
            thread.run(process.close())


class Node(Speaker):
    """An I/O node as the council sees it."""

    def __init__(self, folder: Path, name: str = "ion0") -> None:
        self._accepts = "council"
        super().__init__(unix(folder, "council"), name=name)

    def announce(self, seen: Observation = SEEN, value: object = 1_000_000, **changes: Any) -> None:
        words = {"observed": asdict(seen), "parameter": "window", "value": value, "held": 5.0, "servers": 4}
        self.tell(Kind.ANNOUNCE, words=words | changes)

    def decision(self) -> Any:
        message = self.receive()
        assert message.kind == Kind.DECIDE
        return unpack_as(object, message.payload)


@pytest.fixture(autouse=True)
def _talk_to_councils(monkeypatch: pytest.MonkeyPatch) -> None:
    def asker(key: bytes, me: Peer, _accepts: object) -> Asker:
        return Asker(key, me, ("council",))

    monkeypatch.setattr("support.forward.Asker", asker)


def test_all_nodes_hear_the_same_value(tmp_path: Path) -> None:
    with council(settings(tmp_path)), Node(tmp_path) as one, Node(tmp_path, "ion1") as other:
        one.announce()
        other.announce()
        first = one.decision()
        assert first["parameter"] == "window"
        assert first["value"] in VALUES
        assert first["ignore"] is False
        assert other.decision()["value"] in VALUES


def test_with_ignore_it_says_so(tmp_path: Path) -> None:
    with council(settings(tmp_path, ignore=True)), Node(tmp_path) as node:
        node.announce()
        assert node.decision()["ignore"] is True


def test_a_node_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    often = council(settings(tmp_path, every=0.0001))
    with often as (thread, process), Node(tmp_path) as deaf, Node(tmp_path, "ion1") as node:
        deaf.announce()
        while "stalled" not in thread.call(lambda: process.counts):
            node.announce()
            node.decision()
        assert thread.call(lambda: sorted(process.nodes)) == ["ion1"]


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1", pack([]), pack({}), pack({"observed": {}}),
        pack({"observed": asdict(SEEN) | {"reads": -1}, "parameter": "window", "value": 1, "held": 1, "servers": 1}),
        pack({"observed": asdict(SEEN) | {"seconds": 0}, "parameter": "window", "value": 1, "held": 1, "servers": 1}),
        pack({"observed": asdict(SEEN), "parameter": "window", "value": 1, "held": "long", "servers": 1}),
    ],
)  # fmt: skip
def test_a_node_that_makes_no_sense_is_dropped_and_counted(tmp_path: Path, payload: bytes) -> None:
    with council(settings(tmp_path)) as (thread, process), Node(tmp_path) as bad, Node(tmp_path, "ion1") as good:
        bad.tell(Kind.ANNOUNCE, payload=payload)
        assert bad.is_gone()
        good.announce()
        assert good.decision()["value"] in VALUES
        assert thread.call(lambda: process.counts["malformed"]) == 1


def test_what_it_learned_survives_its_end(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with council(settings(tmp_path, state=state)) as (_, process), Node(tmp_path) as node:
        for _ in range(5):
            node.announce()
            node.decision()
    learned = as_json(process.council)  # as it was when it ended
    assert learned["situations"]
    assert as_json(load_state(settings(tmp_path).council, state)) == learned
    assert not list(tmp_path.glob("*.new"))


def test_a_state_that_is_half_written_never_takes_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, made = tmp_path / "state.json", new_council("window", VALUES)
    save_state(made, state)
    before = state.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("forebay.act.files.os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        save_state(made, state)
    assert state.read_bytes() == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}'])
def test_a_state_that_can_not_be_read_is_one_line(tmp_path: Path, text: str) -> None:
    state = tmp_path / "state.json"
    state.write_text(text)
    with pytest.raises(BadInput, match=r"state\.json"):
        load_state(new_council("window", VALUES), state)


def test_no_state_is_a_beginning(tmp_path: Path) -> None:
    made: Council = new_council("window", VALUES)
    assert load_state(made, tmp_path / "none.json") is made
    assert load_state(made, None) is made


def test_jobs_go_into_the_history_and_are_acknowledged(tmp_path: Path) -> None:
    part = {
        "app": "a", "exe": "a", "user": None, "uid": 1, "job": 3, "process": "p", "processes": 2, "token": "n/1",
        "begin": 1.0, "end": 2.0, "busy": 0.5, "read_time": 0.5, "write_time": 0.0, "meta_time": 0.0, "reads": 1,
        "writes": 0, "bytes_read": 100, "bytes_written": 0, "seq": 0, "consec": 0, "strided": 0, "unaligned": 0,
        "common_size": 100, "read_sizes": [1] + [0] * 9, "write_sizes": [0] * 10,
        "files": [[5, [1, 65536, 0], 100, 100]],
    }  # fmt: skip
    with open_store(str(tmp_path / "h.db")) as store:
        with council(settings(tmp_path, every=60.0), store) as (_, process), Node(tmp_path) as node:
            for parts in ([part], [part], [{"app": 5}]):
                assert node.ask(Kind.JOB, words={"parts": parts}).status == 0
            assert (process.counts["jobs"], process.counts["jobs_refused"]) == (2, 1)
        with store.open_reader() as connection:
            assert [run["total_bytes"] for run in list_runs(connection)] == [100]


def test_every_decision_can_be_looked_up(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with council(settings(tmp_path, log=log)), Node(tmp_path) as node:
        node.announce()
        node.decision()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    decided = [row for row in rows if row["value"] is not None]
    assert decided[0]["patterns"] == ["shared-contiguous"]
    assert decided[0]["bandwidth"] == 10_000.0


def test_an_announcement_comes_through_as_it_was() -> None:
    assert unpack_as(Observation, pack(asdict(SEEN))) == SEEN


def test_it_decides_as_the_pure_council_does() -> None:
    from forebay.model.random_numbers import seed_state

    made, decided = decide(new_council("window", VALUES), [], seed_state(0))
    assert decided.value is None
    assert made.sent is None
