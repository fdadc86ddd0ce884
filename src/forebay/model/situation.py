"""The situation of an I/O node; the council has one bandit for each situation."""

from dataclasses import dataclass

from forebay.model.observation import Observation

PATTERNS = ("file-per-process", "shared-contiguous", "shared-strided")
OPERATIONS = ("read", "write")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Situation:
    """The conditions that the best window depends on (Bez et al. 2019, section 4.1).

    `pattern` is one of PATTERNS. Numbers are rounded to powers of two, so that 127 and 128 processes are the same
    situation and share one bandit.
    """

    operation: str
    pattern: str
    servers: int
    io_nodes: int
    clients: int
    processes: int


def situation(observed: Observation, pattern: str, *, servers: int, io_nodes: int) -> Situation:
    """The situation of a period at an I/O node with the detected `pattern`.

    >>> observed = Observation(seconds=1.0, bytes_read=4096, clients=30, processes=127)
    >>> situation(observed, "shared-strided", servers=4, io_nodes=2).processes
    128
    """
    return Situation(
        operation=observed.operation,
        pattern=pattern,
        servers=bucket(servers),
        io_nodes=bucket(io_nodes),
        clients=bucket(observed.clients),
        processes=bucket(observed.processes),
    )


def bucket(count: int) -> int:
    """The nearest power of two, by ratio; 0 stays 0.

    >>> [bucket(n) for n in (0, 1, 3, 90, 91, 127, 128, 181)]
    [0, 1, 4, 64, 128, 128, 128, 128]
    """
    if count <= 0:
        return 0
    # Whether count / 2**k exceeds the square root of 2, in whole numbers.
    low = 1 << (count.bit_length() - 1)
    return 2 * low if count * count > 2 * low * low else low


def distance(a: Situation, b: Situation) -> int:
    """The number of doublings between two situations; a different operation or pattern counts as eight.

    >>> x = Situation(operation="read", pattern="shared-strided", servers=4, io_nodes=2, clients=32, processes=128)
    >>> y = Situation(operation="read", pattern="shared-strided", servers=4, io_nodes=8, clients=32, processes=64)
    >>> distance(x, y)
    3
    """
    pairs = ((a.servers, b.servers), (a.io_nodes, b.io_nodes), (a.clients, b.clients), (a.processes, b.processes))
    doublings = sum(abs(m.bit_length() - n.bit_length()) for m, n in pairs)
    return doublings + 8 * (a.operation != b.operation) + 8 * (a.pattern != b.pattern)
