"""The ledger of space on disks that come and go: who holds how much of a disk, and when; and selections of disks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from forebay.decide.grants.machine import DiskSpec, LiveDisk, LiveNode
from forebay.decide.storage.policy_memory import Turn, turn
from forebay.model.ledger import DISK, NODE, SERVER, Ledger, book, has_room, peak, unbook, widen
from forebay.model.system import Node, Platform, Server
from forebay.model.timeline import events, paths

ALWAYS, FOREVER = -math.inf, math.inf
_ROOM = 1024
_CHANGING = ["root", "level", "live", "latest", "next", "ahead"]  # columns of a ledger's disks
_has_room = getattr(has_room, "py_func", has_room)  # passing the arguments takes longer than computing the result


class Hold(NamedTuple):
    """`size` bytes of a disk over [start, end).

    A volume that exists holds its space from ALWAYS on, so that a clock that is set back does not find the space free.
    A volume that is being removed holds its space FOREVER, until it is gone.
    """

    disk: str
    start: float
    end: float
    size: int


class Space:
    """A ledger by names. Disks are numbered in order of arrival; a disk that is gone keeps its number."""

    def __init__(self) -> None:
        self.ledger = Ledger(
            np.zeros(0, DISK), np.zeros(0, NODE), np.zeros(0, SERVER), events(2 * _ROOM), paths(),
            np.array([ALWAYS]), np.zeros(3, np.int64),
        )  # fmt: skip
        self.numbers: dict[str, int] = {}
        self.holds: dict[str, Hold] = {}
        self._serials: dict[str, int] = {}

    def set_disk(self, key: str, spec: DiskSpec) -> None:
        if key not in self.numbers:
            self.numbers[key] = self.ledger.disks.size
            more = np.zeros(1, DISK)
            more["latest"], more["next"] = ALWAYS, FOREVER
            self.ledger = self.ledger._replace(disks=np.concatenate([self.ledger.disks, more]))
        record = self.ledger.disks[self.numbers[key]]
        for name in ("capacity", "write_bandwidth", "read_bandwidth"):
            record[name] = getattr(spec, name)

    def set_hold(self, name: str, hold: Hold | None) -> None:
        """Replace what `name` holds; None if it holds nothing."""
        old = self.holds.get(name)
        if old == hold:
            return
        if old is not None:
            del self.holds[name]
            unbook(self.ledger, self.numbers[old.disk], old.start, old.end, self._serials.pop(name))
        if hold is not None:
            self.make_room(1)
            number = self.numbers[hold.disk]
            self._serials[name] = book(self.ledger, number, hold.start, hold.end, hold.size)
            self.holds[name] = hold

    def make_room(self, bookings: int) -> None:
        """Make room in the ledger for that many more bookings."""
        while not _has_room(self.ledger, bookings):
            self.ledger = widen(self.ledger)

    def free(self, disk: str, start: float = ALWAYS, end: float = FOREVER) -> int:
        """The bytes that are free throughout [start, end); negative if more is held than the disk has."""
        number = self.numbers[disk]
        most, _ = peak(self.ledger, number, start, end)
        return int(self.ledger.disks[number]["capacity"]) - int(most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """The storage policy's memory between two decisions: whose turn it is."""

    server: int = 0
    node: int = -1
    failed: int = 0
    current: str = ""  # a disk's key; "" for the first
    chance: int = 0
    probed: tuple[tuple[str, int], ...] = ()  # the nodes whose count of probes has changed


@dataclass(frozen=True, slots=True)
class Selection:
    """The disks that a request may use, grouped by node. A policy sees only these."""

    keys: tuple[str, ...]
    names: tuple[str, ...]  # of their nodes
    orders: tuple[tuple[int, int], ...]  # of node and disk, ascending
    numbers: Any
    is_all: bool  # whether these were all disks, in their order
    nodes: Any
    servers: Any
    of_node: Any
    platform: Platform
    scratch: Turn

    def ledger(self, space: Space, *, ours: bool) -> Ledger:
        """A ledger of these disks alone, until `put_back`. If these are all disks, our policies get the original."""
        disks = space.ledger.disks
        if not (ours and self.is_all and disks.size == self.numbers.size):
            disks = disks.take(self.numbers)  # a tenth of the time that `copy` or an index takes
        disks["node"] = self.of_node
        return space.ledger._replace(disks=disks, nodes=self.nodes, servers=self.servers)

    def put_back(self, space: Space, ledger: Ledger) -> None:
        """Copy changes of the disks back into the space's ledger."""
        if ledger.disks is not space.ledger.disks:
            for column in _CHANGING:
                space.ledger.disks[column][self.numbers] = ledger.disks[column]


def select(disks: Sequence[LiveDisk], nodes: dict[str, LiveNode], space: Space) -> Selection | None:
    if not disks:
        return None
    ordered = sorted(disks, key=lambda disk: (nodes[disk.node].order, disk.order))
    members = tuple(
        Node(
            name=name,
            network_bandwidth=nodes[name].network_bandwidth,
            disks=tuple(disk.spec.as_disk() for disk in disks),
            fields=nodes[name].fields,
        )
        for name, disks in groupby(ordered, key=lambda disk: disk.node)
    )
    records = np.zeros(len(members), dtype=NODE)
    records["network_bandwidth"] = [node.network_bandwidth for node in members]
    records["capacity"] = [sum(disk.capacity for disk in node.disks) for node in members]
    counts = np.array([len(node.disks) for node in members], dtype=np.int32)
    records["disks"], records["first"] = counts, np.cumsum(counts) - counts
    server = np.zeros(1, dtype=SERVER)
    server["nodes"] = records.size
    numbers = np.array([space.numbers[disk.key] for disk in ordered])
    return Selection(
        keys=tuple(disk.key for disk in ordered),
        names=tuple(node.name for node in members),
        orders=tuple((nodes[disk.node].order, disk.order) for disk in ordered),
        numbers=numbers,
        is_all=np.array_equal(numbers, np.arange(space.ledger.disks.size)),
        nodes=records,
        servers=server,
        of_node=np.repeat(np.arange(records.size), records["disks"]),
        platform=Platform(name="live", servers=(Server(name="live", nodes=members),)),
        scratch=turn(space.ledger._replace(disks=space.ledger.disks[numbers], nodes=records), seed=0),
    )
