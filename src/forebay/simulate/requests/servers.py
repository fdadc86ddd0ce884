"""How long a data server takes for a request: models of servers, and how to bring your own.

A model is a kernel and the numbers it is given. The kernel is asked when a request begins to be served and
answers in nanoseconds, before noise:

    time(numbers, memory, now, node, file, offset, size, write, present) -> float

`numbers` are the model's (floats), `memory` the server's own MEMORY whole numbers to remember things in (all -1
at first), `now` in nanoseconds, `node` the I/O node that asks, `offset` and `size` in bytes at this server,
`write` 0 or 1, and `present` the number of I/O nodes that have requests at the server, this one included. Your
own model is a `ServerModel` with a kernel of that shape; it is compiled once a process, built-in ones once a machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from forebay.model.errors import BadInput
from forebay.model.kernels import Array, hot_kernel

_NODE, _FILE, _END = range(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerModel:
    """`time` with its `numbers`, for `lanes` requests at a time; `noise` is the sigma of a lognormal factor."""

    time: Array
    numbers: tuple[float, ...]
    lanes: int = 1
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.lanes < 1:
            raise BadInput("lanes", f"must be 1 or more, not {self.lanes}")
        if not 0 <= self.noise <= 3:
            raise BadInput("noise", f"must be from 0 to 3, not {self.noise:g}")

    def model(self) -> ServerModel:
        return self


class Server(Protocol):
    """Anything that describes a data server."""

    def model(self) -> ServerModel: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contended:
    """Servers whose time depends on who asks and in which order; its numbers are fitted to the paper's figures.

    Times are seconds: `base` for any request, `other_node` more if another I/O node was served last (`written` of
    it for writes), `other_file` more for another file, else `gap` more if it does not continue where the last one
    ended. All is `crowd` longer for each further I/O node that has requests there, for reads.
    """

    base: float = 60e-6
    bandwidth: float = 600e6
    other_node: float = 40e-6
    written: float = 0.3
    gap: float = 30e-6
    other_file: float = 500e-6
    crowd: float = 0.02
    crowd_writing: float = 0.0
    noise: float = 0.3

    def model(self) -> ServerModel:
        times = (self.base, self.other_node, self.other_node * self.written, self.gap, self.other_file)
        numbers = (0.0, 1e9 / self.bandwidth, *(1e9 * t for t in times), self.crowd, self.crowd_writing)
        return ServerModel(time=built_in, numbers=numbers, noise=self.noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A hard disk: seeks by distance, half a turn, then transfer; nothing of both if it goes on where it was.

    A seek takes from `shortest` to `longest` seconds with the square root of the distance over `capacity`; files
    begin `apart` bytes from each other.
    """

    base: float = 50e-6
    bandwidth: float = 180e6
    shortest: float = 0.5e-3
    longest: float = 16e-3
    turns: float = 120.0  # a second
    capacity: float = 558e9
    apart: float = 1e9
    noise: float = 0.1

    def model(self) -> ServerModel:
        times = (self.base, self.shortest, self.longest, 0.5 / self.turns)
        numbers = (1.0, 1e9 / self.bandwidth, *(1e9 * t for t in times), self.capacity, self.apart)
        return ServerModel(time=built_in, numbers=numbers, noise=self.noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """An SSD: `channels` requests at a time, each at `bandwidth`, all together at no more than `bus` bytes a second."""

    reading: float = 80e-6
    writing: float = 30e-6
    bandwidth: float = 400e6
    bus: float = 3.2e9
    channels: int = 8
    noise: float = 0.1

    def model(self) -> ServerModel:
        numbers = (2.0, 1e9 / self.bandwidth, 1e9 * self.reading, 1e9 * self.writing, 1e9 / self.bus)
        return ServerModel(time=built_in, numbers=numbers, lanes=self.channels, noise=self.noise)


@hot_kernel
def built_in(
    numbers: Array, memory: Array, now: int, node: int, file: int, offset: int, size: int, write: int, present: int
) -> float:
    """The models above; the first number tells which."""
    if numbers[0] == 0.0:
        return _contended_time(numbers, memory, node, file, offset, size, write, present)
    if numbers[0] == 1.0:
        return _disk_time(numbers, memory, file, offset, size)
    return _flash_time(numbers, memory, now, size, write)


@hot_kernel
def _contended_time(
    numbers: Array, memory: Array, node: int, file: int, offset: int, size: int, write: int, present: int
) -> float:
    time = numbers[2] + size * numbers[1]
    if node != memory[_NODE]:
        time += numbers[3 + write]
    if file != memory[_FILE]:
        time += numbers[6]
    elif offset != memory[_END]:
        time += numbers[5]
    memory[_NODE], memory[_FILE], memory[_END] = node, file, offset + size
    return time * (1.0 + numbers[7 + write] * (present - 1))  # type: ignore[no-any-return]


@hot_kernel
def _disk_time(numbers: Array, memory: Array, file: int, offset: int, size: int) -> float:
    time = numbers[2] + size * numbers[1]
    place = int(file * numbers[7] + offset)
    if place != memory[_END]:
        share = min(abs(place - max(memory[_END], 0)) / numbers[6], 1.0)
        time += numbers[3] + (numbers[4] - numbers[3]) * share**0.5 + numbers[5]
    memory[_END] = place + size
    return time  # type: ignore[no-any-return]


@hot_kernel
def _flash_time(numbers: Array, memory: Array, now: int, size: int, write: int) -> float:
    bus_free = max(now, memory[0]) + size * numbers[4]
    memory[0] = int(bus_free)
    return max(numbers[2 + write] + size * numbers[1], bus_free - now)  # type: ignore[no-any-return]
