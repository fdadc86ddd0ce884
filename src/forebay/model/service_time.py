"""The time that a data server takes for one request, given the request before it.

The simulator and the live servers that emulate it share this formula. Its constants are fitted to published results
of request schedulers, so a simulation with them does not validate those results.
"""

import math
from dataclasses import dataclass

import numpy as np

from forebay.model.arrays import Floats, Ints
from forebay.model.kernels import hot_kernel

LAST_NODE, LAST_FILE, LAST_END = 0, 1, 2
"""The indices of a server's state: the I/O node, the file and the end offset of its last request."""
_NANO = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTime:
    """The parameters of a data server; times in seconds, bandwidth in bytes per second.

    Every request costs `start`. A change of the I/O node adds `switch` (times `write_switch` for writes). A change of
    the file adds `file`; in the same file a request that does not begin where the last one ended adds `gap`. Each
    additional I/O node with requests at the server increases the sum by the share `crowd` (`write_crowd` for writes).
    The result varies by a lognormal factor of median 1 and the given `sigma`.
    """

    start: float = 60e-6
    bandwidth: float = 600e6
    switch: float = 40e-6
    write_switch: float = 0.3
    gap: float = 30e-6
    file: float = 500e-6
    crowd: float = 0.02
    write_crowd: float = 0.0
    sigma: float = 0.3

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0) or (name == "bandwidth" and value == 0):
                raise ValueError(f"{name} must be finite and not negative, not {value:g}")

    def pack(self) -> Floats:
        """The parameters for the kernel: times in nanoseconds, each value for writes after that for reads."""
        times = (self.start, self.switch, self.switch * self.write_switch, self.gap, self.file)
        packed = (_NANO / self.bandwidth, *(_NANO * t for t in times), self.crowd, self.write_crowd, self.sigma)
        return np.array(packed, np.float64)


FITTED = ServiceTime()
HDD = ServiceTime(bandwidth=160e6, gap=4e-3, file=8e-3)
SSD = ServiceTime(start=40e-6, bandwidth=1.5e9, switch=2e-6, gap=5e-6, file=10e-6, crowd=0.0, sigma=0.1)
MODELS = {"fitted": FITTED, "hdd": HDD, "ssd": SSD}


def new_state() -> Ints:
    """The state of a new server, whose first request counts as a change of node and file."""
    return np.full(3, -1, np.int64)


@hot_kernel
def service_time(
    packed: Floats, state: Ints, node: int, file: int, offset: int, size: int, write: int, nodes: int
) -> float:
    """The nanoseconds (float) that a request takes without noise; updates `state`.

    `nodes` is the number of I/O nodes that have requests at the server now, this one included. For noise, multiply
    by exp(sigma * z) with z from a standard normal distribution; `packed[8]` is sigma.
    """
    time = packed[1] + size * packed[0]
    if state[LAST_NODE] != node:
        time += packed[2 + write]
    if state[LAST_FILE] != file:
        time += packed[5]
    elif state[LAST_END] != offset:
        time += packed[4]
    state[LAST_NODE], state[LAST_FILE], state[LAST_END] = node, file, offset + size
    return float(time * (1.0 + packed[6 + write] * (nodes - 1)))
