"""Every byte that comes through I/O nodes is the one of a plain file, whatever is under way at once."""

import asyncio
import random
from pathlib import Path

import pytest

from forebay.act.forward.clients.aio import AsyncClient, AsyncFile
from forebay.act.forward.net.connection import CloseReason
from forebay.act.forward.node.io_node import IoNode
from forebay.model.layout import Layout
from support.forward import KEY
from support.forward_nodes import STRIPE, NodeThread, node_thread

WAYS: tuple[tuple[str, dict[str, int]], ...] = (
    ("fifo", {}),
    ("fifo", {"aggregate": 300_000, "in_flight": 2}),
    ("to-agg", {"aggregate": 1 << 20, "slots": 8, "in_flight": 3}),
    ("hbrr", {"aggregate": 100_000, "in_flight": 1}),
    ("sjf", {"slots": 5, "in_flight": 2}),
    ("twins:window=125000", {"aggregate": 1 << 20}),
    ("twins-work-conserving:window=125000", {"slots": 3}),
    ("wfq", {"in_flight": 2}),
)
LENGTHS = (1, 7, 1000, 4097, STRIPE - 1, STRIPE, STRIPE + 1, 3 * STRIPE + 5, 600_001)


class Plain:
    """The same file as bytes, of which parts are written at once by many who keep apart."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.content = chance, bytearray()

    def writes(self) -> list[tuple[int, bytes]]:
        """Some to be written together: they do not overlap, many are neighbours, and some leave holes."""
        at, found = self.chance.randrange(600_000), []
        for _ in range(self.chance.randrange(1, 12)):
            data = self.chance.randbytes(self.chance.choice(LENGTHS))
            found.append((at, data))
            at += len(data) + (self.chance.randrange(200_000) if self.chance.random() < 0.3 else 0)
        for offset, data in found:
            self.content.extend(bytes(max(0, offset - len(self.content))))
            self.content[offset : offset + len(data)] = data
        return found

    def reads(self) -> list[tuple[int, int]]:
        end = len(self.content) + 100_000
        return [(self.chance.randrange(end), self.chance.choice(LENGTHS)) for _ in range(self.chance.randrange(1, 12))]

    def truncates(self) -> int:
        size = self.chance.randrange(len(self.content) + 200_000)
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))
        return size


async def one_step(files: list[AsyncFile], plain: Plain) -> None:
    chance = plain.chance
    do = chance.random()
    if do < 0.5:
        writes = plain.writes()
        await asyncio.gather(*(chance.choice(files).pwrite(data, at) for at, data in writes))
    elif do < 0.9:
        reads = plain.reads()
        found = await asyncio.gather(*(chance.choice(files).pread(size, at) for at, size in reads))
        for (at, size), data in zip(reads, found, strict=True):
            assert data == plain.content[at : at + size], (at, size)
    else:
        await files[0].truncate(plain.truncates())
    assert (await files[-1].stat()).size == len(plain.content)


async def compare(nodes: list[IoNode], chance: random.Random, steps: int, mishap: list[IoNode]) -> None:
    """Through clients with and without checksums; an I/O node of `mishap` ends at some step of it."""
    addresses = [node.addresses[0] for node in nodes]
    layout = Layout(count=chance.randrange(1, 5), size=STRIPE * chance.choice((1, 1, 2, 5)), start=chance.randrange(4))
    clients = [AsyncClient(addresses, KEY, checked=checked) for checked in (False, True)]
    plain = Plain(chance)
    try:
        await clients[0].mkdir("/d", layout=layout)
        files = [await client.open("/d/f", 0o102) for client in clients]
        for step in range(steps):
            gone = [asyncio.ensure_future(ends(node)) for node in mishap if step == steps // 2]
            await one_step(files, plain)
            await asyncio.gather(*gone)
    finally:
        for client in clients:
            await client.close()


async def ends(node: IoNode) -> None:
    """For its clients, as if it were killed: in the middle of things, without a word."""
    await asyncio.sleep(0.002)
    for session in tuple(node.sessions):
        session.close(CloseReason.CLOSED, "killed")


@pytest.mark.parametrize("seed", range(len(WAYS)))
def test_every_byte_is_that_of_a_plain_file(tmp_path: Path, seed: int) -> None:
    scheduler, queue = WAYS[seed]
    with node_thread(tmp_path) as thread:
        node = thread.node(thread.serve(4), scheduler=scheduler, queue=queue)
        thread.thread.run(compare([node], random.Random(seed), 40, []))
        everything_is_given_back(thread, node)


@pytest.mark.parametrize("seed", range(4))
def test_every_byte_is_there_when_the_io_node_goes_in_the_middle(tmp_path: Path, seed: int) -> None:
    with node_thread(tmp_path) as thread:
        addresses = thread.serve(4)
        queue = {"aggregate": 1 << 20, "in_flight": 2}
        nodes = [thread.node(addresses, f"ion{i}", queue=queue, scheduler="to-agg") for i in range(2)]
        thread.thread.run(compare(nodes, random.Random(seed), 30, nodes[:1]))
        for node in nodes:
            everything_is_given_back(thread, node)


def everything_is_given_back(thread: NodeThread, node: IoNode) -> None:
    thread.soon(lambda: not (node.sessions or node.dispatch.open or node.admitted or node.buffers.out))
