"""Every kind of process is killed while programs write, and every byte that was acknowledged is found."""

import os
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from support.fio import needs_fuse
from support.forward_processes import Layer, Part, layer, start, unmount
from support.processes import wait_until

BLOCK = 200_000
"""Bytes: no multiple of a stripe, so that most blocks lie on several servers."""
BLOCKS = 8
WRITERS = 3


def content(writer: int, block: int, generation: int) -> bytes:
    """A block's bytes; every 16 of them tell whose they are."""
    return b"%3d %3d %7d\n" % (writer, block, generation) * (BLOCK // 16)


class Writer(threading.Thread):
    """Writes its blocks over and over, each time the next generation, until it is told to stop.

    `acknowledged` is, for each block, the generation of the last write that succeeded; `attempted` that of the last
    one that was tried. What fails is tried again with the next generation.
    """

    def __init__(self, layer: Layer, number: int) -> None:
        super().__init__(daemon=True)
        self._layer, self.number = layer, number
        self.path = f"/writer{number}"
        self.acknowledged = [0] * BLOCKS
        self.attempted = [0] * BLOCKS
        self.errors: list[OSError] = []
        self.done = threading.Event()
        self.trouble: Exception | None = None

    def run(self) -> None:
        try:
            self._write()
        except Exception as error:
            self.trouble = error

    def _write(self) -> None:
        chance = random.Random(self.number)
        with (
            self._layer.client(patience=60, connections=1) as client,
            client.open(self.path, os.O_RDWR | os.O_CREAT) as file,
        ):
            while not self.done.is_set():
                block = chance.randrange(BLOCKS)
                self.attempted[block] += 1
                try:
                    file.pwrite(content(self.number, block, self.attempted[block]), block * BLOCK)
                    if chance.random() < 0.1:
                        file.fsync()
                except OSError as error:
                    self.errors.append(error)
                else:
                    self.acknowledged[block] = self.attempted[block]

    @property
    def writes(self) -> int:
        return sum(self.acknowledged)


def check(layer: Layer, writer: Writer) -> None:
    """Each block is of the last acknowledged generation, or (piece by piece) of one tried after it."""
    with layer.client() as client, client.open(writer.path) as file:
        for block in range(BLOCKS):
            found = file.pread(BLOCK, block * BLOCK)
            if not writer.acknowledged[block]:
                continue
            assert len(found) == BLOCK
            for line in set(found.splitlines()):
                number, place, generation = map(int, line.split())
                assert (number, place) == (writer.number, block)
                assert writer.acknowledged[block] <= generation <= writer.attempted[block]


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Layer, Part]]:
    with layer() as made:
        made.add_servers(3)
        council, address = made.add_council()
        made.add_nodes(2, "--council", address, "--scheduler", "twins-work-conserving")
        start(*made.servers, *made.nodes, council)
        yield made, council


def test_nothing_acknowledged_is_lost_whatever_is_killed(running: tuple[Layer, Part]) -> None:
    made, council = running
    writers = [Writer(made, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for victim in (made.servers[1], made.nodes[0], council, made.servers[0], made.nodes[1], made.nodes[0]):
        _wait_for_progress(writers)
        victim.kill()
        victim.start()
    _wait_for_progress(writers)
    for writer in writers:
        writer.done.set()
    for writer in writers:
        writer.join(120)
        assert not writer.is_alive()
        assert writer.trouble is None
        check(made, writer)


def _wait_for_progress(writers: list[Writer]) -> None:
    """Each of them has got further: all parts take part again."""

    def is_further(writer: Writer, before: int) -> bool:
        return writer.writes >= before + 10 or not writer.is_alive()

    for writer in writers:
        otherwise = f"writer {writer.number} does not get any further: {writer.errors[-1:]}"
        wait_until(partial(is_further, writer, writer.writes), otherwise)


def test_a_program_goes_on_through_the_mount_while_its_io_node_is_killed(running: tuple[Layer, Part]) -> None:
    needs_fuse()
    made, _ = running
    part, point = made.add_mount()
    part.start()
    with (point / "node").open("wb", buffering=0) as file:
        for number in range(60):
            if number == 20:
                made.nodes[0].kill()
            if number == 40:
                made.nodes[0].start()
                made.nodes[1].kill()
            assert file.write(content(0, 0, number)) == len(content(0, 0, number))
        os.fsync(file.fileno())
    made.nodes[1].start()
    part.stop()
    _check_log(made, "/node", 60)


def test_a_killed_mount_loses_nothing_that_it_said_was_written(running: tuple[Layer, Part]) -> None:
    needs_fuse()
    made, _ = running
    part, point = made.add_mount()
    part.start()
    written = _written_until_it_fails(point / "mount", part)
    unmount(point)
    assert written >= 20
    _check_log(made, "/mount", written)
    part.start()  # it can be mounted again, and all is there
    assert (point / "mount").read_bytes()[: len(content(0, 0, 0))] == content(0, 0, 0)
    part.stop()


def _written_until_it_fails(path: Path, part: Part) -> int:
    """Writes whole records while the mount is killed; how many were acknowledged."""
    acknowledged = 0

    def kill() -> None:
        wait_until(lambda: acknowledged >= 20, "no writes")
        part.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(file, content(0, 0, acknowledged))
            acknowledged += 1
    except OSError:
        killer.join(120)
    with suppress(OSError):  # there is nobody any more to tell
        os.close(file)
    return acknowledged


def _check_log(made: Layer, path: str, records: int) -> None:
    size = len(content(0, 0, 0))
    with made.client() as client, client.open(path) as file:
        for number in range(records):
            assert file.pread(size, number * size) == content(0, 0, number)
