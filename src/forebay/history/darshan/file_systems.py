"""To which file system each file of a run belongs: by the mounts in its log, and by the files' names."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

UNKNOWN = ""
"""The mount point of an unknown file system."""
Names = Callable[[], Iterable[tuple[int, bytes]]]


def mounts_of(text: bytes) -> dict[str, str]:
    """The kind of file system at each mount point, from the text of a log's job section.

    >>> mounts_of(b"./ior -w\\nlustre\\t/scratch\\nnfs\\t/home/\\n")
    {'/scratch': 'lustre', '/home': 'nfs'}
    """
    lines = (line.decode("utf-8", "replace").partition("\t") for line in text.split(b"\n")[1:])
    return {point.rstrip("/") or "/": kind for kind, _, point in lines if point.startswith("/")}


def find_links(points: Sequence[str]) -> dict[bytes, int]:
    """The index of the mount point that a folder below / probably leads to: sites that mount /lus/grand often have a
    link to it at /grand."""
    last = [point.rpartition("/")[2].encode() for point in points]
    return {name: number for number, name in enumerate(last) if last.count(name) == 1 and name}


class FileSystems:
    """Finds the file system of each file. `known` is `UNKNOWN` and the mount points of Lustre. File names are only read
    if several are mounted."""

    def __init__(self, mounts: Mapping[str, str], names: Names) -> None:
        lustre = sorted(point for point, kind in mounts.items() if kind.startswith("lustre"))
        self.known = [UNKNOWN, *lustre]
        self._files, self._places = array("Q"), array("q")
        if len(lustre) > 1:
            self._assign(names, mounts)

    def _assign(self, names: Names, mounts: Mapping[str, str]) -> None:
        numbers = {point: self.known.index(point) if point in self.known else 0 for point in mounts}
        deepest = [(f"{p.rstrip('/')}/".encode(), numbers[p]) for p in sorted(mounts, key=len, reverse=True)]
        links = find_links(self.known)
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
