"""A layer with two mounts, of which one has a folder alone, while processes of the layer are stopped and killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from forebay.act.forward.net.payloads import LEASE
from support.forward_processes import Layer, Part, start

NAMES = [f"file{number}" for number in range(12)]


class World:
    """Three servers, and two mounts, each at an I/O node of its own, that know both."""

    def __init__(self, made: Layer) -> None:
        self.layer = made
        made.add_servers(3)
        made.add_nodes(2)
        self.mounts: list[Part] = []
        self.points: list[Path] = []
        for name in ("mount0", "mount1"):
            part, point = made.add_mount(name)
            self.mounts.append(part)
            self.points.append(point)
            made.addresses.reverse()
        start(*made.servers, *made.nodes)
        start(*self.mounts)

    def hold(self, name: str) -> tuple[Path, Path]:
        """A folder with files that the first mount has alone, as both mounts see it, well before a lease ends."""
        for attempt in range(20):
            began = monotonic()
            mine, theirs = (point / f"{name}{attempt}" for point in self.points)
            self._fill(mine)
            if monotonic() - began < LEASE / 4:
                return mine, theirs
        raise AssertionError("the machine is too slow for leases")

    def _fill(self, mine: Path) -> None:
        mine.mkdir()
        for each in ("first", "second"):
            (mine / each).touch()
            (mine / each).unlink()
        for each in NAMES:
            (mine / each).write_text(each)
        for each in NAMES:
            assert (mine / each).stat().st_size == len(each)
        sync_folder(mine)

    def remove_without(self, parts: list[Part], folder: Path, names: list[str]) -> None:
        """Remove files while these parts of the layer do nothing: the mount must do it in advance."""
        self._stop(parts)
        for name in names:
            (folder / name).unlink()

    def create_without(self, parts: list[Part], folder: Path, names: list[str]) -> None:
        """Create files, with their names as content, while these parts of the layer do nothing."""
        self._stop(parts)
        for name in names:
            (folder / name).write_text(name)

    def _stop(self, parts: list[Part]) -> None:
        for part in parts:
            part.signal(signal.SIGSTOP)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def listed(folder: Path) -> set[str]:
    return set(os.listdir(folder))  # noqa: PTH208


KILLED: dict[str, Callable[[Layer], list[Part]]] = {
    "I/O node": lambda made: made.nodes[:1],
    "servers": lambda made: made.servers,
    "everything": lambda made: [*made.nodes, *made.servers],
}
