"""Who holds how much of which disk, and when: the ledger of a machine whose disks come and go."""

import math
from typing import NamedTuple

import numpy as np

from forebay.model.ledger import DISK, NODE, SERVER, Ledger, book, has_room, peak, unbook, widen
from forebay.model.timeline import events, paths

ALWAYS, FOREVER = -math.inf, math.inf
_ROOM = 1024
_has_room = getattr(has_room, "py_func", has_room)  # to hand over its arguments takes longer than to compute it


class Hold(NamedTuple):
    """`size` bytes of a disk over [start, end).

    What exists on a disk holds its space from ALWAYS on, so that no clock that goes back can find it free; what is
    being removed holds it FOREVER, which ends when it is gone.
    """

    disk: str
    start: float
    end: float
    size: int


class Space:
    """A ledger by names. Disks are numbered as they come; one that goes keeps its number."""

    def __init__(self) -> None:
        self.ledger = Ledger(
            np.zeros(0, DISK), np.zeros(0, NODE), np.zeros(0, SERVER), events(2 * _ROOM), paths(),
            np.array([ALWAYS]), np.zeros(3, np.int64),
        )  # fmt: skip
        self.numbers: dict[str, int] = {}
        self.holds: dict[str, Hold] = {}
        self._serials: dict[str, int] = {}

    def set_disk(self, key: str, capacity: int, write_bandwidth: float, read_bandwidth: float) -> None:
        if key not in self.numbers:
            self.numbers[key] = self.ledger.disks.size
            more = np.zeros(1, DISK)
            more["latest"], more["next"] = ALWAYS, FOREVER
            self.ledger = self.ledger._replace(disks=np.concatenate([self.ledger.disks, more]))
        record = self.ledger.disks[self.numbers[key]]
        record["capacity"] = capacity
        record["write_bandwidth"], record["read_bandwidth"] = write_bandwidth, read_bandwidth

    def set_hold(self, name: str, hold: Hold | None) -> None:
        """What `name` holds from now on, or that it holds nothing."""
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
        """Be ready for that many more bookings."""
        while not _has_room(self.ledger, bookings):
            self.ledger = widen(self.ledger)

    def free(self, disk: str, start: float = ALWAYS, end: float = FOREVER) -> int:
        """The bytes that are free over all of [start, end); negative where more is held than there is."""
        number = self.numbers[disk]
        most, _ = peak(self.ledger, number, start, end)
        return int(self.ledger.disks[number]["capacity"]) - int(most)
