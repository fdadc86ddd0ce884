"""Which I/O node each process of a program uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from forebay.model.errors import UnknownName

if TYPE_CHECKING:  # every command imports this module, and numpy takes most of the time that a command needs
    import numpy as np
    from numpy.typing import NDArray

BLOCK, ROUND_ROBIN = MAPPINGS = ("block", "round-robin")
Number = TypeVar("Number", "int", "NDArray[np.int64]")


def check_mapping(name: str) -> None:
    """Raise UnknownName unless there is a mapping with this name."""
    if name not in MAPPINGS:
        raise UnknownName("mapping", name, MAPPINGS)


def node_of(mapping: str, process: Number, processes: int, nodes: int) -> Number:
    """Return the I/O node of a process: in blocks, each node has neighbours; otherwise, neighbours use different nodes.

    >>> [node_of("block", p, 5, 2) for p in range(5)], [node_of("round-robin", p, 5, 2) for p in range(5)]
    ([0, 0, 0, 1, 1], [0, 1, 0, 1, 0])
    """
    return process * nodes // processes if mapping == BLOCK else process % nodes
