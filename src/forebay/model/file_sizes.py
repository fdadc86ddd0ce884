"""How many files of which sizes a run wrote or read."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SizeClass:
    """Files of at least half of `below` bytes and fewer than `below`: how many, and their sizes together.

    Several processes used each of these files if it is `shared`, else one.
    """

    below: int
    shared: bool
    files: int
    bytes: int

    @property
    def size(self) -> float:
        """Return the mean size of a file in bytes."""
        return self.bytes / self.files


def format_sizes(classes: Iterable[SizeClass]) -> str:
    """Format the classes as text for the database: the binary logarithm of `below`, 1 if shared, files and bytes.

    >>> format_sizes([SizeClass(below=1 << 20, shared=False, files=3, bytes=2_000_000)])
    '20:0:3:2000000'
    """
    return ",".join(f"{c.below.bit_length() - 1}:{int(c.shared)}:{c.files}:{c.bytes}" for c in sorted(classes))


def parse_sizes(text: str | None) -> tuple[SizeClass, ...]:
    """
    >>> parse_sizes("20:0:3:2000000")
    (SizeClass(below=1048576, shared=False, files=3, bytes=2000000),)
    """
    rows = ([int(number) for number in entry.split(":")] for entry in (text or "").split(",") if entry)
    return tuple(SizeClass(below=1 << d, shared=bool(s), files=files, bytes=total) for d, s, files, total in rows)


def add_sizes(*histograms: Iterable[SizeClass]) -> tuple[SizeClass, ...]:
    """Add up classes of equal sizes.

    >>> [(c.files, c.bytes) for c in add_sizes(parse_sizes("3:0:1:5"), parse_sizes("3:0:2:12,4:1:1:9"))]
    [(3, 17), (1, 9)]
    """
    sums: dict[tuple[int, bool], tuple[int, int]] = {}
    for c in (c for histogram in histograms for c in histogram):
        files, total = sums.get((c.below, c.shared), (0, 0))
        sums[c.below, c.shared] = files + c.files, total + c.bytes
    return tuple(
        SizeClass(below=below, shared=shared, files=files, bytes=total)
        for (below, shared), (files, total) in sorted(sums.items())
    )
