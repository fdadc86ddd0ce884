"""What requests cost on a file system: the defaults for one that is not calibrated, and what a calibration fits."""

from dataclasses import dataclass, field

Pair = tuple[float, float]
"""For reads and for writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """Seconds, and bytes per second of one process. The defaults are those of a Lustre with fast servers, and rest on
    no measurement of this machine."""

    call: Pair = (5e-6, 5e-6)
    """A request that the client's cache takes or serves."""
    latency: Pair = (4e-4, 4e-4)
    """A request that waits for a server."""
    lock: float = 4e-4
    """Taking a lock back from another client."""
    neighbours: float = 1.0
    """Processes of a client, which take one lock for requests next to each other."""
    name: float = 1e-3
    """Opening, creating or looking up a file."""
    bandwidth: Pair = (1e9, 1e9)
    total: Pair = (1e12, 1e12)
    """Bytes per second of all processes of a run together."""
    ost: float = 4e9
    """Bytes per second of one OST, such as those of Polaris' Eagle: 650 GB/s of 160 OSTs."""
    serve: float = 1e-4
    """What an OST needs for a request, however small."""
    rpc: int = 4 << 20
    """Bytes that travel together."""
    exchange: float = 2e-4
    """A collective call, in which processes exchange data before they write or after they read."""


DEFAULT = FileSystem()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How long runs wait whose requests are unknown: `seconds` for 1 GB of 100 processes, and more by a power of the
    volume and of the processes. A power of the volume below 1 means that larger runs make larger requests."""

    seconds: Pair = (20.0, 20.0)
    volume: Pair = (0.75, 0.75)
    processes: Pair = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Everything that a calibration fits."""

    fs: FileSystem = DEFAULT
    waiting: Waiting = field(default_factory=Waiting)
