"""A temporary layer for the benchmark: data servers, I/O nodes and councils, each a process."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import Child
from forebay.act.forward.layer import CantStart
from forebay.act.forward.layer_file import arguments
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.key import read_key, write_key
from forebay.model.layout import Layout

_PATIENCE = 60.0
"""Seconds within which a process must be ready: it may have to compile kernels first."""
_GRACE = 0.1
"""Seconds that a process has to end: nothing of it is kept."""
_LAYOUT = Layout(count=4, size=64 << 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Numbers of data servers and I/O nodes; a `dilation` above 0 makes the servers emulate slower ones."""

    servers: int = 4
    nodes: int = 1
    layout: Layout = _LAYOUT
    dilation: float = 0.0


class BenchLayer:
    """The processes, with their files under `folder`. They start at once; use them after `ready`."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.folder, self.shape = folder, shape
        self.key_file = folder / "key"
        write_key(self.key_file)
        self.key = read_key(self.key_file)
        self._children: list[Child] = []
        self._waiting: list[tuple[Child, str]] = []
        self._servers = [f"unix:{folder / f's{index}'}" for index in range(shape.servers)]
        layout, emulate = shape.layout, shape.dilation or None
        shared = {"of": shape.servers, "stripes": layout.count, "stripe_size": layout.size, "emulate": emulate}
        for index, listen in enumerate(self._servers):
            self._start("server", folder=folder / f"data{index}", listen=listen, index=index, **shared)

    def nodes(self, name: str, *options: str, council: tuple[str, ...] | None = None) -> tuple[Address, ...]:
        """Add a group of I/O nodes with these options; `council` has the options of its council, if any."""
        listen = [f"unix:{self.folder / f'{name}-{index}'}" for index in range(self.shape.nodes)]
        address = f"unix:{self.folder / f'{name}-council'}" if council is not None else None
        if council is not None:
            self._start("council", *council, listen=address)
        for index, text in enumerate(listen):
            shared = {"index": index, "server": self._servers, "council": address}
            self._start("ion", *options, listen=text, name=f"{name}-{index}", **shared)
        return tuple(parse_address(text) for text in listen)

    def ready(self) -> None:
        """Wait until each process has printed that it is ready."""
        while self._waiting:
            child, command = self._waiting.pop()
            match child.await_ready(_PATIENCE):
                case "late":
                    raise CantStart(f"{command}: not ready within {_PATIENCE:g} s")
                case "ended":
                    raise CantStart(f"{command}: ended before it was ready; see its message above")

    def stop(self) -> None:
        for child in reversed(self._children):
            child.stop(_GRACE)

    def _start(self, command: str, *more: str, **options: object) -> None:
        argv = (*arguments(command, **options, key=self.key_file), *more)
        child = Child((sys.executable, "-m", "forebay", "forward", *argv))
        self._children.append(child)
        self._waiting.append((child, command))


@contextmanager
def temporary_layer(shape: Shape) -> Iterator[BenchLayer]:
    """Data servers in a temporary folder, to which I/O nodes can be added; everything is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:
        layer = None
        try:
            layer = BenchLayer(Path(folder), shape)
            yield layer
        finally:
            if layer is not None:
                layer.stop()
