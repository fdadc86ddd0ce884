"""Server models: how long a data server takes for a request.

A model is a kernel and its numbers. The simulator calls the kernel when the service of a request begins. The kernel
returns nanoseconds, before noise:

    time(numbers, memory, now, node, file, offset, size, write, present) -> float

`numbers` are floats of the model. `memory` has MEMORY whole numbers that the server can use (initially -1). `now` is in
nanoseconds, `node` is the I/O node, `offset` and `size` are bytes at this server, and `write` is 0 or 1. `present` is
the number of I/O nodes with requests at the server, including this one. To add a model, make a `ServerModel` with such
a kernel. It is compiled once per process; built-in models are compiled once per machine.
"""

from dataclasses import dataclass

from forebay.model.errors import BadInput
from forebay.model.kernels import Array, hot_kernel
from forebay.model.service_time import FITTED, LAST_END, ServiceTime, service_time


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerModel:
    """A kernel `time` and its `numbers`, for `lanes` requests at a time; `noise` is the sigma of a lognormal factor."""

    time: Array
    numbers: tuple[float, ...]
    lanes: int = 1
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.lanes < 1:
            raise BadInput("lanes", f"must be 1 or more, not {self.lanes}")
        if not 0 <= self.noise <= 3:
            raise BadInput("noise", f"must be from 0 to 3, not {self.noise:g}")


def contended_servers(times: ServiceTime = FITTED) -> ServerModel:
    """Return servers whose time depends on the I/O nodes and the order of requests."""
    return ServerModel(time=built_in, numbers=(*times.pack().tolist(), 0.0), noise=times.sigma)


def disk(*, apart: float = 1e9) -> ServerModel:
    """Return a hard disk of 558 GB: seek, half a turn, transfer. A sequential request needs only the transfer.

    A seek takes 0.5 to 16 ms, by the square root of its distance. Files begin `apart` bytes from each other.
    """
    times = (50e-6, 0.5e-3, 16e-3, 0.5 / 120.0)  # per request, shortest and longest seek, half a turn
    numbers = (1e9 / 180e6, *(1e9 * t for t in times), 558e9, apart, 1.0)
    return ServerModel(time=built_in, numbers=numbers, noise=0.1)


def flash(
    *,
    reading: float = 80e-6,
    writing: float = 30e-6,
    bandwidth: float = 400e6,
    bus: float = 3.2e9,
    channels: int = 8,
    noise: float = 0.1,
) -> ServerModel:
    """Return an SSD: `channels` requests at a time, each at `bandwidth`, together at most `bus` bytes per second."""
    numbers = (1e9 / bandwidth, 1e9 * reading, 1e9 * writing, 1e9 / bus, 2.0)
    return ServerModel(time=built_in, numbers=numbers, lanes=channels, noise=noise)


@hot_kernel
def built_in(
    numbers: Array, memory: Array, now: int, node: int, file: int, offset: int, size: int, write: int, present: int
) -> float:
    """Compute the time of a built-in model; the last number selects it."""
    which = numbers[numbers.size - 1]
    if which == 0.0:
        return service_time(numbers, memory, node, file, offset, size, write, present)
    if which == 1.0:
        return _disk_time(numbers, memory, file, offset, size)
    return _flash_time(numbers, memory, now, size, write)


@hot_kernel
def _disk_time(numbers: Array, memory: Array, file: int, offset: int, size: int) -> float:
    time = numbers[1] + size * numbers[0]
    place = int(file * numbers[6] + offset)
    if place != memory[LAST_END]:
        share = min(abs(place - max(memory[LAST_END], 0)) / numbers[5], 1.0)
        time += numbers[2] + (numbers[3] - numbers[2]) * share**0.5 + numbers[4]
    memory[LAST_END] = place + size
    return time  # type: ignore[no-any-return]


@hot_kernel
def _flash_time(numbers: Array, memory: Array, now: int, size: int, write: int) -> float:
    bus_free = max(now, memory[0]) + size * numbers[3]
    memory[0] = int(bus_free)
    return max(numbers[1 + write] + size * numbers[0], bus_free - now)  # type: ignore[no-any-return]
