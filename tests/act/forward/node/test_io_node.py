import errno
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from forebay.act.forward.net.auth import Denied
from forebay.act.forward.net.payloads import Space
from forebay.act.forward.net.wire import AGAIN, HEADER, LONGEST, MAGIC, VERSION, Flag, Kind, Message
from forebay.act.forward.node.data_servers import DataServers
from forebay.act.forward.node.io_node import IoNode
from forebay.decide.order.queue import IN_FLIGHT_EACH
from forebay.model.errors import UserError
from support.forward import Speaker, unix
from support.forward_nodes import STRIPE, Client, NodeThread, PretendServer, node_thread, raw
from support.processes import wait_until

SCHEDULERS = ("fifo", "sjf", "hbrr", "to-agg", "mlf", "wfq", "twins:window=200000", "twins-work-conserving")


def test_what_was_written_is_read_whatever_the_scheduler(tmp_path: Path) -> None:
    for number, scheduler in enumerate(SCHEDULERS):
        with node_thread(tmp_path / str(number)) as thread:
            thread.folder.mkdir()
            node = thread.node(thread.serve(3), scheduler=scheduler, queue={"aggregate": 1 << 20})
            with thread.client(node) as client:
                check_against_a_plain_file(client, random.Random(number), 40)


def check_against_a_plain_file(client: Client, chance: random.Random, steps: int) -> None:
    file, plain = client.open(b"f"), bytearray()
    for _ in range(steps):
        offset, length = chance.randrange(8 * STRIPE), chance.choice((1, 100, STRIPE, 3 * STRIPE, 5 * STRIPE + 7))
        if chance.random() < 0.5:
            data = chance.randbytes(length)
            assert client.write(file, offset, data).size == length
            plain.extend(bytes(max(0, offset - len(plain))))
            plain[offset : offset + length] = data
        else:
            assert client.read(file, offset, length).payload == plain[offset : offset + length]
    assert client.size(file) == len(plain)


def test_holes_are_zeros_and_the_end_is_the_end(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(4))
        with thread.client(node) as client:
            file = client.open(b"f")
            client.write(file, 10 * STRIPE, b"x")
            assert client.read(file, 0, STRIPE).payload == bytes(STRIPE)
            assert client.read(file, 10 * STRIPE - 2, 100).payload == b"\0\0x"
            assert client.read(file, 11 * STRIPE, 100).payload == b""
            client.ask(Kind.TRUNCATE, file=file, offset=3 * STRIPE + 5)
            assert client.size(file) == 3 * STRIPE + 5
            assert client.read(file, 3 * STRIPE, 100).payload == bytes(5)


def test_a_file_that_outgrows_its_first_stripe_has_its_size_at_every_node(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        servers = thread.serve(3)
        first, second = (thread.client(thread.node(servers, name)) for name in ("ion0", "ion1"))
        with first, second:
            file = first.open(b"f")
            assert second.open(b"f") == file
            first.write(file, 0, b"x")
            assert first.size(file) == second.size(file) == 1
            for offset in (STRIPE - 1, 7 * STRIPE, 2 * STRIPE):
                second.write(file, offset, b"abc")
                assert first.size(file) == second.size(file)
                assert first.read(file, offset, 10).payload[:3] == b"abc"
            assert first.size(file) == 7 * STRIPE + 3
            first.ask(Kind.TRUNCATE, file=file, offset=1)
            assert first.read(file, 0, 10).payload == b"x"
            second.ask(Kind.TRUNCATE, file=file, offset=9 * STRIPE)
            assert first.size(file) == 9 * STRIPE
            assert first.read(file, 9 * STRIPE - 2, 10).payload == b"\0\0"


def test_many_first_writes_beyond_the_first_stripe_arrive_all(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread, thread.client(thread.node(thread.serve(2))) as client:
        file = client.open(b"f")
        for number in range(1, 100):
            client.tell(Kind.WRITE, file=file, offset=number * STRIPE, payload=bytes([number]), session=client.session)
        assert {client.receive().status for _ in range(1, 100)} == {0}
        for number in range(1, 100):
            assert client.read(file, number * STRIPE, 1).payload == bytes([number])


def test_a_file_stays_spread_when_all_servers_restart(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread, thread.client(thread.node(thread.serve(2))) as client:
        file = client.open(b"f")
        client.write(file, STRIPE, b"abc")
        for index in (0, 1):
            thread.stop_server(index)
            thread.start_server(index)
        wait_until(lambda: client.ask(Kind.STAT, file=file).status == 0, "the servers are not back")
        assert client.size(file) == STRIPE + 3


def test_several_requests_under_way_are_each_answered_once(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2), queue={"slots": 4, "in_flight": 2})
        with thread.client(node) as client:
            file = client.open(b"f")
            blocks = [(i * STRIPE, bytes([i]) * STRIPE) for i in range(40)]
            tags = {client.tell(Kind.WRITE, file=file, offset=offset, payload=data) for offset, data in blocks}
            answers = [client.receive() for _ in range(40)]
            assert {answer.tag for answer in answers} == tags
            assert [client.read(file, i * STRIPE, 1).payload for i in range(40)] == [bytes([i]) for i in range(40)]


def test_neighbours_of_several_clients_go_together_and_stay_apart(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")], queue={"in_flight": 1, "aggregate": 1 << 20})
        one, other = thread.client(node), Client(node.addresses[0], session=8)
        file = one.open(b"f")
        assert other.open(b"f") == file
        one.tell(Kind.WRITE, file=file, offset=0, payload=b"a" * 2000, session=7)
        thread.soon(lambda: len(server.waiting) == 1)
        for client, offset in ((one, 2000), (other, 4000), (one, 6000)):
            client.tell(Kind.WRITE, file=file, offset=offset, payload=b"b" * 2000, session=client.session)
        thread.soon(lambda: node.dispatch.open == 4)
        server.answer()
        thread.soon(lambda: len(server.waiting) == 1)  # one message, which names both sessions
        [(_, message)] = server.waiting
        assert (message.offset, server.sessions[message.tag]) == (2000, (7, 8))
        assert bytes(message.payload) == b"b" * 6000
        server.answer(status=errno.ESTALE)  # one of them is fenced: each for itself
        thread.soon(lambda: len(server.waiting) == 3)
        assert [(m.offset, m.session) for _, m in server.waiting] == [(2000, 7), (4000, 8), (6000, 7)]
        assert [server.sessions[m.tag] for _, m in server.waiting] == [(7,), (8,), (7,)]
        server.answer(3)
        assert [one.receive().size for _ in range(3)] == [2000] * 3
        assert other.receive().size == 2000
        one.close()
        other.close()
        thread.soon(lambda: not node.sessions)
        server.close()


def has_open(node: IoNode, requests: int) -> bool:
    return node.dispatch.open == requests


def test_requests_of_one_clients_connections_go_together(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        queue = {"in_flight": None, "aggregate": 1 << 20}
        node = thread.node([unix(tmp_path, "server0")], queue=queue)
        connections = [Client(node.addresses[0], session=100 + number) for number in range(24)]
        files = {client.open(b"f") for client in connections}
        for kind in (Kind.WRITE, Kind.READ):
            for number, client in enumerate(connections):
                data = {"payload": bytes(4096)} if kind == Kind.WRITE else {"size": 4096}
                client.tell(kind, file=min(files), offset=4096 * number, session=client.session, **data)
                thread.soon(partial(has_open, node, number + 1))
            assert len(server.waiting) == IN_FLIGHT_EACH
            server.answer()
            thread.soon(lambda: len(server.waiting) == IN_FLIGHT_EACH)  # all that waited are one message
            last = server.waiting[-1][1]
            requested = len(last.payload) if kind == Kind.WRITE else last.size
            assert (last.offset, requested) == (IN_FLIGHT_EACH * 4096, (24 - IN_FLIGHT_EACH) * 4096)
            server.answer(IN_FLIGHT_EACH)
            statuses = [client.receive().status for client in connections]
            assert kind == Kind.READ or statuses == [0] * 24  # this server has no bytes to read
        for client in connections:
            client.close()
        thread.soon(lambda: not node.sessions)
        server.close()


def test_a_short_answer_for_neighbours_is_cut_where_it_ends(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1), queue={"in_flight": 1, "aggregate": 1 << 20})
        with thread.client(node) as client:
            file = client.open(b"f")
            client.write(file, 0, b"z" * 5000)
            tags = [client.tell(Kind.READ, file=file, offset=i * 2000, size=2000) for i in range(4)]
            found = {answer.tag: answer.payload for answer in (client.receive() for _ in tags)}
            assert [len(found[tag]) for tag in tags] == [2000, 2000, 1000, 0]


def test_a_checksum_comes_back_where_one_was_asked_for(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2))
        with thread.client(node) as client:
            file = client.open(b"f")
            data = bytes(range(256)) * 1024
            assert client.write(file, 3, data, flags=Flag.CHECKED).status == 0
            answer = client.read(file, 0, len(data) + 3, flags=Flag.CHECKED)  # the receiver checks it
            assert answer.flags & Flag.CHECKED
            assert answer.payload == bytes(3) + data


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"file": 99, "size": 10}, errno.ESTALE),
        ({"file": 0, "size": LONGEST + 1}, errno.EINVAL),
        ({"file": 0, "size": 10, "offset": (1 << 63) - 5}, errno.EFBIG),
    ],
)
def test_what_can_not_be_read_is_an_error_with_words(tmp_path: Path, fields: dict[str, int], status: int) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1))
        with thread.client(node) as client:
            file = client.open(b"f")
            answer = client.ask(Kind.READ, **{**fields, "file": fields["file"] or file})
            assert answer.status == status
            assert bytes(answer.payload).decode()
            assert client.write(file, 0, b"still here").status == 0


@pytest.mark.parametrize("scheduler", ["fifo", "to-agg", "twins:window=200000"])
def test_requests_alone_and_together_are_answered_and_counted_equally(tmp_path: Path, scheduler: str) -> None:
    results = []
    for number, together in enumerate((1, 7, 1000)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with node_thread(folder) as thread:
            node = thread.node(thread.serve(3), scheduler=scheduler)
            with thread.client(node) as client:
                file = client.open(b"f", [3, STRIPE, 0])
                client.write(file, 200 * STRIPE, b"end")  # from here on, writes reach all stripes
                thread.soon(lambda node=node: node.admitted == 0)  # type: ignore[misc]
                thread.thread.call(node.end_period)
                writes, reads = random_requests(file, random.Random(5))
                answers = [*ask_together(client, writes, together), *ask_together(client, reads, together)]
                thread.soon(lambda node=node: not (node.admitted or node.dispatch.open))  # type: ignore[misc]
                (session,) = node.sessions
                observed = replace(thread.thread.call(node.end_period), seconds=0, load=0, busy=0)
                part = thread.thread.call(session.process.summary)
                assert part is not None
                counted = part.reads, part.writes, part.seq, part.consec, part.read_sizes, part.files[0][2:]
                results.append((answers, observed, counted))
                assert not (session._held or session._requests)
        assert node.buffers.out == 0
    assert results[0] == results[1] == results[2]
    assert {status for status, _, _ in results[0][0]} == {0, errno.ESTALE, errno.EFBIG, errno.EINVAL}


def random_requests(file: int, chance: random.Random) -> tuple[list[Message], list[Message]]:
    """Writes and reads in and across stripes, of which some fail."""
    writes, reads = [], []
    for number in range(60):
        offset, length = (
            2 * STRIPE * number + chance.randrange(999),
            chance.choice((0, 1, 1000, 1000, 5000, 2 * STRIPE - 999)),
        )
        if number % 20 == 7:
            offset, length = (1 << 63) - 5, 10
        asked = Message(
            Kind.WRITE, chance.choice((0, 0, Flag.CHECKED)), file=99 if number % 20 == 9 else file, session=7
        )
        asked.offset, asked.size = offset, number % 2
        writes.append(msgspec.structs.replace(asked, payload=bytes([number]) * length))
        wanted = LONGEST + 1 if number % 20 == 8 else length
        reads.append(msgspec.structs.replace(asked, kind=Kind.READ, size=wanted))
    return writes, reads


def ask_together(client: Client, requests: list[Message], count: int) -> list[tuple[int, int, bytes]]:
    """Status, size and bytes of the answers, in the order of the requests, of which so many are sent at once."""
    found: dict[int, tuple[int, int, bytes]] = {}
    for tag, request in enumerate(requests):
        request.tag = tag
    for first in range(0, len(requests), count):
        part = requests[first : first + count]
        raw = b"".join(request.header() + bytes(request.payload) for request in part)
        sending = Thread(target=client.socket.sendall, args=(raw,))
        sending.start()
        for _ in part:
            answer = client.receive()
            payload = b"" if requests[answer.tag].kind == Kind.WRITE else bytes(answer.payload)  # else, a time
            found[answer.tag] = answer.status, answer.size, payload
        sending.join(60)
        assert not sending.is_alive()
    return [found[tag] for tag in range(len(requests))]


def test_no_such_file_is_the_names_servers_answer(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2))
        with thread.client(node) as client:
            assert client.ask(Kind.STAT, words={"path": b"none"}).status == errno.ENOENT
            assert client.ask(Kind.OPEN, words={"path": b"../x", "create": True}).status == errno.EINVAL


def test_an_unlinked_file_leaves_no_object(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2))
        with thread.client(node) as client:
            file = client.open(b"f")
            client.write(file, 0, bytes(4 * STRIPE))
            assert objects(thread) == 2
            assert client.ask(Kind.CLOSE, words={"nodes": [file]}).status == 0
            assert client.ask(Kind.UNLINK, words={"path": b"f", "key": 1, "again": False}).status == 0
            thread.soon(lambda: objects(thread) == 0)
            wait_until(lambda: client.ask(Kind.STAT, words={"at": file}).status == errno.ESTALE, "the file is known")


def test_an_unlinked_file_that_is_open_is_there_until_it_is_closed(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        servers = thread.serve(2)
        node, other = thread.node(servers), thread.node(servers, "ion1")
        with thread.client(node) as client, thread.client(other) as remover:
            file = client.open(b"f")
            client.write(file, 0, bytes(4 * STRIPE))
            assert remover.ask(Kind.UNLINK, words={"path": b"f", "key": 1, "again": False}).status == 0
            assert client.read(file, 0, 4 * STRIPE).payload == bytes(4 * STRIPE)
            assert client.words(Kind.STAT, words={"at": file})["links"] == 0
            assert client.ask(Kind.CLOSE, words={"nodes": [file]}).status == 0
            thread.soon(lambda: objects(thread) == 0)


def test_a_full_server_gets_no_new_files_while_another_has_space(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(3))
        backend = node.backend
        assert isinstance(backend, DataServers)
        with thread.client(node) as client:
            backend.space.note([space_of(0), space_of(1 << 30), space_of(0)])
            for number in range(9):
                words = {"path": b"%d" % number, "create": True}
                assert client.words(Kind.OPEN, words=words)["layout"] == [1, STRIPE, 1]
            backend.space.note([space_of(0)] * 3)
            assert client.words(Kind.OPEN, words={"path": b"f", "create": True})["layout"][0] == 3


def space_of(available: int) -> Space:
    return Space(total=1 << 40, free=available, available=available, files=1 << 20, free_files=1 << 20)


def objects(thread: NodeThread) -> int:
    return sum(1 for path in thread.folder.glob("data*/objects/*/*"))


def test_strangers_are_sent_away_and_counted(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1))
        with pytest.raises((Denied, ConnectionError)):
            Speaker(node.addresses[0], role="client", key=b"another key that is long enough")
        with pytest.raises((Denied, ConnectionError)):
            Speaker(node.addresses[0], role="server")
        with raw(node.addresses[0]) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n" + bytes(100))
            assert sock.recv(1) == b""
        thread.soon(lambda: node.counts["denied"] == 2 and node.counts["malformed"] == 1)


@pytest.mark.parametrize(
    "message",
    [
        bytes(HEADER.size),
        HEADER.pack(MAGIC, VERSION + 1, Kind.READ, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        HEADER.pack(MAGIC, VERSION, Kind.READ, 0, 0, LONGEST + 1, 0, 0, 0, 0, 0, 0),
        HEADER.pack(MAGIC, VERSION, Kind.READ, 0, 0, 0, 0, 0, 0, 0, 1 << 63, 0),
        HEADER.pack(MAGIC, VERSION, Kind.SIZE, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        HEADER.pack(MAGIC, VERSION, Kind.OPEN, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"\xc1",
    ],
)
def test_a_client_that_does_not_keep_to_the_protocol_is_dropped_alone(tmp_path: Path, message: bytes) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1))
        with thread.client(node) as good, thread.client(node) as bad:
            file = good.open(b"f")
            bad.socket.sendall(message)
            assert bad.is_gone()
            assert good.write(file, 0, b"x").status == 0
            thread.soon(lambda: node.counts["malformed"] == 1)


def test_words_that_make_no_sense_are_an_error_and_nothing_else(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1))
        with thread.client(node) as client:
            assert client.ask(Kind.SETATTR, words={"path": 5, "mtime": "x"}).status != 0
            assert client.ask(Kind.STATFS).status == 0


def test_what_was_under_way_at_a_lost_server_is_to_be_asked_again(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")])
        with thread.client(node) as client:
            file = client.open(b"f")
            client.tell(Kind.WRITE, file=file, payload=b"x" * 3000)
            thread.soon(lambda: len(server.waiting) == 1)
            server.hang_up()
            answer = client.receive()
            assert answer.status == AGAIN
            assert "server 0" in bytes(answer.payload).decode()
            # The node comes back by itself, and does not send what failed again.
            client.tell(Kind.WRITE, file=file, offset=7, payload=b"y" * 3000)
            thread.soon(lambda: len(server.waiting) == 1)
            assert server.waiting[0][1].offset == 7
            server.answer()
            assert client.receive().status == 0
        server.close()


def test_requests_wait_for_a_server_that_comes_back(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2))
        with thread.client(node) as client:
            file = client.open(b"f")
            client.write(file, 0, bytes(2 * STRIPE))
            thread.stop_server(1)
            thread.soon(lambda: not node.backend.up[1])
            tag = client.tell(Kind.WRITE, file=file, payload=b"w" * (2 * STRIPE))
            thread.soon(lambda: sum(node.dispatch.depths()) == 1)
            thread.start_server(1)
            answer = client.receive()
            assert (answer.tag, answer.status, answer.size) == (tag, 0, 2 * STRIPE)
            assert client.read(file, 0, 2 * STRIPE).payload == b"w" * (2 * STRIPE)


def test_after_its_patience_a_request_is_given_up_with_the_servers_name(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2), patience=0.05)
        thread.soon(lambda: all(node.backend.up))
        with thread.client(node) as client:
            file = client.open(b"f", [2, STRIPE, 0])
            thread.stop_server(1)
            thread.soon(lambda: not node.backend.up[1])
            answer = client.write(file, STRIPE, b"x" * 2000)
            assert answer.status == errno.EIO
            assert "server 1" in bytes(answer.payload).decode()
            assert client.write(file, 0, b"x" * 2000).status == 0  # the other one is there
            assert client.ask(Kind.FENCE, file=1).status == errno.EIO  # which only all of them can promise


def test_a_server_that_does_not_answer_in_time_is_hung_up_on(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")])
        with thread.client(node) as client:
            file = client.open(b"f")
            node.settings = replace(node.settings, timeout=0.01)
            answer = client.write(file, 0, b"x" * 2000)
            assert answer.status == AGAIN
            assert "no answer" in bytes(answer.payload).decode()
        server.close()


def test_another_server_at_the_address_is_not_talked_to(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"), index=1, of=4)
        node = thread.node([unix(tmp_path, "server0")], patience=0.05)
        thread.soon(lambda: "not connected yet" not in node.backend.absence(0))
        with thread.client(node) as client:
            answer = client.ask(Kind.OPEN, words={"path": b"f", "create": True})
            assert answer.status == errno.EIO
            assert "server 1 of 4" in bytes(answer.payload).decode()
        server.close()


def test_what_a_client_that_left_had_waiting_is_dropped_and_what_was_sent_is_waited_for(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")], queue={"in_flight": 1})
        client = thread.client(node)
        file = client.open(b"f")
        for i in range(5):
            client.tell(Kind.WRITE, file=file, offset=i * STRIPE, payload=bytes(STRIPE))
        thread.soon(lambda: node.dispatch.open == 5 and len(server.waiting) == 1)
        client.close()
        thread.soon(lambda: node.dispatch.open == 1 and not node.sessions)
        assert node.admitted == STRIPE
        server.answer()
        thread.soon(lambda: node.dispatch.open == 0)
        assert (len(server.waiting), node.admitted, node.buffers.out) == (0, 0, 0)
        server.close()


def test_fences_reach_every_server_before_they_are_answered(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        addresses = [unix(tmp_path, f"server{i}") for i in range(3)]
        servers = [PretendServer(thread.thread, address, i, 3) for i, address in enumerate(addresses)]
        node = thread.node(addresses)
        with thread.client(node) as client:
            assert client.ask(Kind.FENCE, file=4711).status == 0
            assert [server.fenced for server in servers] == [[4711]] * 3
        for server in servers:
            server.close()


def test_a_fenced_session_writes_nothing_through_any_node(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        addresses = thread.serve(2)
        one, other = thread.node(addresses), thread.node(addresses, "ion1")
        with thread.client(one) as late, Client(other.addresses[0], session=9) as new:
            file = late.open(b"f")
            assert new.open(b"f") == file
            assert new.ask(Kind.FENCE, file=late.session, session=9).status == 0
            assert new.write(file, 0, b"new" * 1000).status == 0
            assert late.write(file, 0, b"old" * 1000).status == errno.ESTALE
            assert new.read(file, 0, 3000).payload == b"new" * 1000


def test_the_end_waits_for_what_is_under_way(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")], grace=60.0)
        client = thread.client(node)
        file = client.open(b"f")
        tag = client.tell(Kind.WRITE, file=file, payload=b"x" * 3000)
        thread.soon(lambda: len(server.waiting) == 1)
        closing = thread.thread.call(lambda: thread.thread.loop.create_task(node.close()))
        thread.nodes.remove(node)
        assert not closing.done()
        server.answer()
        answer = client.receive()
        assert (answer.tag, answer.status) == (tag, 0)
        assert client.is_gone()
        client.close()
        thread.soon(closing.done)
        server.close()


def test_more_than_fits_is_not_read_until_there_is_room(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")], memory=4 * STRIPE)
        with thread.client(node) as client:
            file = client.open(b"f")
            telling = Thread(target=tell_many, args=(client, file, 12))
            telling.start()
            for _ in range(12):
                thread.soon(lambda: bool(server.waiting))
                assert node.buffers.out <= 5 * (STRIPE + 4096)
                server.answer()
            telling.join(60)
            assert [client.receive().status for _ in range(12)] == [0] * 12
            thread.soon(lambda: node.admitted == 0)
        server.close()


def tell_many(client: Client, file: int, count: int) -> None:
    for i in range(count):
        client.tell(Kind.WRITE, file=file, offset=i * STRIPE, payload=bytes(STRIPE))


def test_a_full_disk_reaches_the_program(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")])
        with thread.client(node) as client:
            file = client.open(b"f")
            client.tell(Kind.WRITE, file=file, payload=b"x" * 3000)
            thread.soon(lambda: len(server.waiting) == 1)
            server.answer(status=errno.ENOSPC)
            answer = client.receive()
            assert answer.status == errno.ENOSPC
            assert "no space left" in bytes(answer.payload).decode()
        server.close()


def test_an_unknown_scheduler_is_said_at_once(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread, pytest.raises(UserError, match="did you mean 'twins'"):
        thread.node([unix(tmp_path, "server0")], scheduler="twin")


def test_windows_are_measured_where_there_are_any(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(4), scheduler="twins:window=125000")
        with thread.client(node) as client:
            file = client.open(b"f")
            for _ in range(30):
                client.write(file, 0, bytes(4 * STRIPE))
            counted = thread.thread.call(lambda: sum(node.dispatch.windows.counts))
            assert counted > 0
            assert node.dispatch.windows.sum > 0


def test_bytes_that_came_while_a_file_grew_are_never_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(2))
        with thread.client(node) as client:
            file = client.open(b"f", [2, STRIPE, 0])
            client.write(file, 0, b"a" * 100)
            asked = node.backend.file_size

            async def grown(opened: Any, session: int) -> int:  # a writer was faster than the question for the size
                for server in thread.servers.values():
                    server._objects.write(file, 0, b"a" * STRIPE)
                return await asked(opened, session)

            monkeypatch.setattr(node.backend, "file_size", grown)
            assert client.read(file, 0, 3 * STRIPE).payload == b"a" * (2 * STRIPE)


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), OSError(errno.EIO, "no size")])
def test_a_read_that_can_not_be_ended_is_no_read_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1))
        with thread.client(node) as client, thread.client(node) as other:
            file = client.open(b"f")
            assert other.open(b"f") == file

            async def mistaken(*_: object) -> int:
                raise error

            monkeypatch.setattr(node.backend, "file_size", mistaken)
            client.tell(Kind.READ, file=file, size=10)
            if isinstance(error, OSError):
                assert client.receive().status == errno.EIO
            else:
                assert client.is_gone()
                thread.soon(lambda: node.counts["internal"] == 1)
            assert other.write(file, 0, b"x" * 10).size == 10
        thread.soon(lambda: node.admitted == 0)


def test_a_client_that_stops_within_a_message_does_not_keep_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forebay.act.forward.node.io_node._STALL", 0.25)
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(1))
        with thread.client(node) as client:
            file = client.open(b"f")
            half = Message(Kind.WRITE, tag=9, file=file, payload=bytes(1 << 20))
            client.socket.sendall(half.header() + bytes(1 << 19))
            assert client.is_gone()
        thread.soon(lambda: node.counts["stalled"] == 1)
        thread.soon(lambda: not node.buffers.out)


def test_neighbours_are_checked_if_one_of_them_is(tmp_path: Path) -> None:
    with node_thread(tmp_path) as thread:
        server = PretendServer(thread.thread, unix(tmp_path, "server0"))
        node = thread.node([unix(tmp_path, "server0")], queue={"in_flight": 1, "aggregate": 1 << 20})
        with thread.client(node) as client:
            file = client.open(b"f")
            for offset, flags in ((0, 0), (2000, 0), (4000, Flag.CHECKED)):
                client.tell(Kind.WRITE, file=file, offset=offset, payload=b"b" * 2000, flags=flags)
            thread.soon(lambda: node.dispatch.open == 3)
            server.answer()
            thread.soon(lambda: len(server.waiting) == 1)
            assert (server.waiting[0][1].flags, len(server.waiting[0][1].payload)) == (Flag.CHECKED, 4000)
            server.answer()
            assert [client.receive().status for _ in range(3)] == [0] * 3
        server.close()
