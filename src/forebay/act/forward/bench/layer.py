"""Starts the processes of a temporary layer for the benchmark, and reads the decisions of its councils."""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import Child
from forebay.act.forward.bench.client_processes import LayerAccess
from forebay.act.forward.council.parameters import DEFAULT_WINDOWS
from forebay.act.forward.layer import CantStart
from forebay.act.forward.layer_settings import build_arguments
from forebay.act.forward.net.address import parse_address
from forebay.act.forward.net.key import write_key
from forebay.model.layout import Layout
from forebay.model.process_mapping import ROUND_ROBIN, check_mapping
from forebay.model.units import parse_duration

_PATIENCE = 60.0
"""Seconds that a process has to become ready; it may have to compile kernels first."""
_GRACE = 0.1
"""Seconds that a process has to end; none of its data is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Numbers of data servers and I/O nodes; a `dilation` above 0 makes the servers emulate slower ones.

    `mapping` says which I/O node each client process uses.
    """

    servers: int = 4
    nodes: int = 1
    layout: Layout
    dilation: float = 0.0
    mapping: str = ROUND_ROBIN

    def __post_init__(self) -> None:
        check_mapping(self.mapping)


class BenchLayer:
    """Starts the servers, with files in `folder`; use it after `wait_until_ready`. `stack` ends the processes."""

    def __init__(self, folder: Path, shape: Shape, stack: ExitStack) -> None:
        self.folder, self.shape, self._stack = folder, shape, stack
        self.key_file = folder / "key"
        self.key = write_key(self.key_file)
        self._waiting: list[tuple[Child, str]] = []
        self._servers = [f"unix:{folder / f's{index}'}" for index in range(shape.servers)]
        layout, emulate = shape.layout, shape.dilation or None
        shared = {"of": shape.servers, "stripes": layout.count, "stripe_size": layout.size, "emulate": emulate}
        for index, listen in enumerate(self._servers):
            self._start("server", folder=folder / f"data{index}", listen=listen, index=index, **shared)

    def add_nodes(
        self, name: str, scheduler: str, *, db: str | None = None, council: tuple[str, ...] | None = None
    ) -> LayerAccess:
        """Add a group of I/O nodes; `council` has the options of its council, if any."""
        listen = [f"unix:{self.folder / f'{name}-{index}'}" for index in range(self.shape.nodes)]
        address = f"unix:{self.folder / f'{name}-council'}" if council is not None else None
        if council is not None:
            windows = format_windows(self.shape.dilation)
            self._start("council", *council, listen=address, log=self.decision_log(name), values=windows)
        shared = {"server": self._servers, "council": address, "scheduler": scheduler, "db": db}
        for index, text in enumerate(listen):
            self._start("ion", listen=text, name=f"{name}-{index}", index=index, **shared)
        return LayerAccess(tuple(parse_address(text) for text in listen), self.key, mapping=self.shape.mapping)

    def decision_log(self, name: str) -> Path:
        """Where the council of these I/O nodes logs its decisions."""
        return self.folder / f"{name}.log"

    def wait_until_ready(self) -> None:
        """Wait until each process has printed that it is ready."""
        while self._waiting:
            child, command = self._waiting.pop()
            match child.await_ready(_PATIENCE):
                case "late":
                    raise CantStart(f"{command}: not ready within {_PATIENCE:g} s; see its messages above")
                case "ended":
                    raise CantStart(f"{command}: ended before it was ready; see its message above")

    def _start(self, command: str, *more: str, **options: object) -> None:
        argv = (*build_arguments(command, **options, key=self.key_file), *more)
        child = Child((sys.executable, "-m", "forebay", "forward", *argv))
        self._stack.callback(child.stop, _GRACE)
        self._waiting.append((child, command))


@contextmanager
def temporary_layer(shape: Shape) -> Iterator[BenchLayer]:
    """Run data servers in a temporary folder, which is removed at the end; the caller adds I/O nodes."""
    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder, ExitStack() as stack:
        yield BenchLayer(Path(folder), shape, stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision, `seconds` after the first; `window` in seconds, `bandwidth` of the last period in bytes/s."""

    seconds: float
    window: float | None
    because: str
    bandwidth: float
    patterns: tuple[str, ...]


def format_windows(dilation: float) -> str:
    """Format the windows to choose from as an option; a dilation makes them longer.

    >>> format_windows(10)
    '0ms,1.25ms,2.5ms,5ms,10ms,20ms,40ms,80ms'
    """
    return ",".join(f"{1000 * parse_duration(window) * (dilation or 1):g}ms" for window in DEFAULT_WINDOWS)


def read_decisions(log: Path) -> list[Decision]:
    """Read the decisions in a council's log, oldest first; ignore an incomplete last line."""
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else ()
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [
        Decision(
            seconds=row["time"] - rows[0]["time"],
            window=row["value"] / 1e9 if isinstance(row["value"], int | float) else None,
            because=row["because"],
            bandwidth=row["bandwidth"],
            patterns=tuple(row["patterns"]),
        )
        for row in rows
    ]


def busy_decisions(all_decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions for periods with I/O."""
    return [decision for decision in all_decisions if decision.bandwidth > 0]
