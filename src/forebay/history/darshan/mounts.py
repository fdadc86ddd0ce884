"""The Lustre file system of each file in a log, by the file's name and the mounts.

Each file system numbers its own OSTs, so an OST is only known together with its file system.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

UNKNOWN = ""
"""The file system of files for which it is not known."""
_LUSTRE = "lustre"
Names = Callable[[], Iterable[tuple[int, bytes]]]


def mounts_of(text: bytes) -> dict[str, str]:
    """The kind of file system at each mount point, from the text of a log's job section.

    >>> mounts_of(b"./ior -w\\nlustre\\t/scratch\\nnfs\\t/home/\\n")
    {'/scratch': 'lustre', '/home': 'nfs'}
    """
    lines = (line.decode("utf-8", "replace").partition("\t") for line in text.split(b"\n")[1:])
    return {point.rstrip("/") or "/": kind for kind, _, point in lines if point.startswith("/")}


class FileSystems:
    """`known` are `UNKNOWN` and the mount points of a log's Lustre file systems. Names of files are read only if
    several are mounted."""

    def __init__(self, mounts: Mapping[str, str], names: Names) -> None:
        lustre = sorted(point for point, kind in mounts.items() if kind.startswith(_LUSTRE))
        self.known = [UNKNOWN, *lustre]
        self._files, self._places = array("Q"), array("q")
        if len(lustre) > 1:
            self._assign(names, mounts)

    def _assign(self, names: Names, mounts: Mapping[str, str]) -> None:
        numbers = {point: self.known.index(point) if point in self.known else 0 for point in mounts}
        deepest = [(f"{p.rstrip('/')}/".encode(), numbers[p]) for p in sorted(mounts, key=len, reverse=True)]
        # A site that mounts /lus/grand often has a link to it at /grand.
        last = [point.rpartition("/")[2].encode() for point in self.known]
        links = {name: number for number, name in enumerate(last) if last.count(name) == 1 and name}
        for file, name in names():
            number = next((number for point, number in deepest if name.startswith(point)), 0)
            number = number or links.get(name[1:].partition(b"/")[0], 0)
            if number:
                self._files.append(file)
                self._places.append(number)

    def of(self, files: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The index in `known` of each file's file system."""
        if len(self.known) == 2:  # only one is mounted
            return np.ones(files.size, dtype=np.int64)
        systems = np.zeros(files.size, dtype=np.int64)
        if self._files and files.size:
            order = np.argsort(np.frombuffer(self._files, dtype=np.uint64), kind="stable")
            ordered = np.frombuffer(self._files, dtype=np.uint64)[order]
            place = np.minimum(np.searchsorted(ordered, files), ordered.size - 1)
            named = ordered[place] == files
            systems[named] = np.frombuffer(self._places, dtype=np.int64)[order][place[named]]
        return systems


NONE = FileSystems({}, lambda: ())
