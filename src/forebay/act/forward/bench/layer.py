"""A layer of its own for the benchmark: data servers, I/O nodes and a council, each a process, gone when it is over."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select

from forebay.act.command import Child
from forebay.act.forward.net.address import Address, parse_address
from forebay.act.forward.net.key import read_key, write_key
from forebay.model.errors import UserError
from forebay.model.layout import Layout

_PATIENCE = 60.0
"""Seconds within which a part has to be there: it may have to compile kernels first."""
_GRACE = 0.1
"""Seconds that a part has to end by itself: nothing of it is to be kept."""
_LAYOUT = Layout(count=4, size=64 << 10)


class CantStart(UserError):
    """A part of the layer did not come up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`servers` data servers and `nodes` I/O nodes; `dilation` makes the servers emulate slower ones, 0 does not."""

    servers: int = 4
    nodes: int = 1
    layout: Layout = _LAYOUT
    dilation: float = 0.0


class Started:
    """What runs, under `folder`. All of it starts at once; it can be used when `ready` has returned."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.folder, self.shape = folder, shape
        self.key_file = folder / "key"
        write_key(self.key_file)
        self.key = read_key(self.key_file)
        self._children: list[Child] = []
        self._waiting: list[tuple[Child, str]] = []
        self._servers = [f"unix:{folder / f's{index}'}" for index in range(shape.servers)]
        self._begin([self._server(index) for index in range(shape.servers)])

    def nodes(self, name: str, *options: str, council: tuple[str, ...] | None = None) -> tuple[Address, ...]:
        """Add as many I/O nodes as there are to be, with these options; a group's name is its own.

        With `council`, which are its options, the group gets one.
        """
        texts = [f"unix:{self.folder / f'{name}-{index}'}" for index in range(self.shape.nodes)]
        servers = [word for server in self._servers for word in ("--server", server)]
        parts = []
        if council is not None:
            address = f"unix:{self.folder / f'{name}-council'}"
            parts.append(("council", "--listen", address, *council))
            options = (*options, "--council", address)
        for index, text in enumerate(texts):
            parts.append(
                ("ion", "--listen", text, "--name", f"{name}-{index}", "--index", str(index), *servers, *options)
            )
        self._begin(parts)
        return tuple(parse_address(text) for text in texts)

    def ready(self) -> None:
        """Wait for all that was started: each says in one line that it is ready."""
        while self._waiting:
            _wait(*self._waiting.pop())

    def stop(self) -> None:
        for child in reversed(self._children):
            child.stop(_GRACE)

    def _server(self, index: int) -> tuple[str, ...]:
        shape = self.shape
        emulate = ("--emulate", f"{shape.dilation:g}") if shape.dilation else ()
        return (
            "server", "--folder", str(self.folder / f"data{index}"), "--listen", self._servers[index],
            "--index", str(index), "--of", str(shape.servers), "--stripes", str(shape.layout.count),
            "--stripe-size", str(shape.layout.size), *emulate,
        )  # fmt: skip

    def _begin(self, parts: Sequence[tuple[str, ...]]) -> None:
        for part in parts:
            child = Child((sys.executable, "-m", "forebay", "forward", *part, "--key", str(self.key_file)))
            self._children.append(child)
            self._waiting.append((child, part[0]))


def _wait(child: Child, what: str) -> None:
    said = b""
    while b"ready" not in said:
        if not select([child.out], [], [], _PATIENCE)[0]:
            raise CantStart(f"a {what} was not ready within {_PATIENCE:g} s")
        more = os.read(child.out, 4096)
        if not more:
            raise CantStart(f"a {what} ended before it was ready; its own words are above")
        said += more


@contextmanager
def started(shape: Shape) -> Iterator[Started]:
    """Data servers in a temporary folder, to which I/O nodes can be added; all of it is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="forebay-bench-") as folder:
        layer = None
        try:
            layer = Started(Path(folder), shape)
            yield layer
        finally:
            if layer is not None:
                layer.stop()
