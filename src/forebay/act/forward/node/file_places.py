"""Which server of a mounted parallel file system has which bytes of a file: asked of the file system, or given.

The server is all that ordering needs; the bytes themselves go through the mount. With Ceph, CRUSH spreads objects
over OSDs by a hash of their names; objects are counted round the servers instead, which tells neighbours apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from forebay.act.command import run
from forebay.act.filesystems.filesystem import path_argument
from forebay.act.filesystems.lustre.output import TO_THE_END, Component, parse_stripe
from forebay.act.forward.striping import Piece
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import DEFAULT_SIZE, Layout

How = Literal["given", "lustre", "ceph"]
_END = (1 << 63) - 1
_TIMEOUT = 10.0


class Places(Protocol):
    """Where the bytes of one file are."""

    @property
    def layout(self) -> Layout:
        """Its nearest description by count, size and first server."""

    def pieces(self, offset: int, length: int) -> list[Piece]:
        """These bytes, cut where they go to another server or stripe, in the file's order.

        A piece's offset is that in the server's object, as far as is known: neighbours there are neighbours.
        """


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Stripes of `size` bytes on one server after the other; a server may come more than once."""

    size: int
    servers: tuple[int, ...]

    @property
    def layout(self) -> Layout:
        return Layout(count=len(self.servers), size=self.size, start=self.servers[0])

    def pieces(self, offset: int, length: int) -> list[Piece]:
        """
        >>> RoundRobin(65536, (2, 0)).pieces(65000, 1000)[1]
        Piece(server=0, offset=0, length=464, at=536, cuts=())
        """
        size, servers = self.size, self.servers
        found: list[Piece] = []
        done = 0
        while done < length:
            stripe, within = divmod(offset + done, size)
            turn, which = divmod(stripe, len(servers))
            part = min(size - within, length - done)
            found.append(Piece(servers[which], turn * size + within, part, done))
            done += part
        return found


@dataclass(frozen=True, slots=True)
class Objects:
    """Ceph's way: stripes go round `count` objects, and once these are `whole` bytes long, to the next so many."""

    unit: int
    count: int
    whole: int
    servers: int

    @property
    def layout(self) -> Layout:
        return Layout(count=min(self.count, self.servers), size=self.unit, start=0)

    def pieces(self, offset: int, length: int) -> list[Piece]:
        """
        >>> Objects(unit=65536, count=2, whole=65536, servers=4).pieces(2 * 65536, 10)
        [Piece(server=2, offset=0, length=10, at=0, cuts=())]
        """
        found: list[Piece] = []
        done = 0
        while done < length:
            stripe, within = divmod(offset + done, self.unit)
            turn, which = divmod(stripe, self.count)
            group, row = divmod(turn, self.whole // self.unit)
            turn, server = divmod(group * self.count + which, self.servers)
            part = min(self.unit - within, length - done)
            # An object is no longer than `whole`: so offsets in different objects of one server stay apart.
            found.append(Piece(server, turn * self.whole + row * self.unit + within, part, done))
            done += part
        return found


@dataclass(frozen=True, slots=True)
class Parts:
    """Several layouts one after the other (Lustre's PFL); each holds up to its end in the file."""

    ends: tuple[int, ...]
    parts: tuple[RoundRobin, ...]

    @property
    def layout(self) -> Layout:
        return self.parts[-1].layout

    def pieces(self, offset: int, length: int) -> list[Piece]:
        found: list[Piece] = []
        done = 0
        for end, part in zip(self.ends, self.parts, strict=True):
            here = min(length - done, end - offset - done)
            if here > 0:
                found += [piece._replace(at=done + piece.at) for piece in part.pieces(offset + done, here)]
                done += here
        return found


def given(layout: Layout, servers: int) -> RoundRobin:
    """
    >>> given(Layout(count=2, size=65536, start=3), servers=4).servers
    (3, 0)
    """
    first = max(layout.start, 0)
    return RoundRobin(layout.size, tuple((first + i) % servers for i in range(layout.count)))


def finder(how: How, servers: int, layout: Layout) -> Callable[[Path], Places]:
    """What tells the places of a file or folder; `layout` where the file system does not tell."""
    if how == "lustre":
        return lambda path: lustre_places(_getstripe(path), servers, str(path))
    if how == "ceph":
        return lambda path: _ceph(path, servers) or given(layout, servers)
    same = given(layout, servers)
    return lambda _path: same


def _getstripe(path: Path) -> str:
    folder = ("-d",) if path.is_dir() else ()
    return run(("lfs", "getstripe", *folder, "-y", path_argument(path)), timeout=_TIMEOUT)


def lustre_places(text: str, servers: int, where: str) -> Places:
    """Of what `lfs getstripe -y` prints of a file, or with -d of a folder; OSTs are counted round `servers`."""
    components = parse_stripe(text, where).components
    if not components[0].end:
        return _lustre_part(components[0], servers)
    ends: list[int] = []
    parts: list[RoundRobin] = []
    for component in components:
        # Into the extension of a self-extending layout grows the part before it.
        parts.append(parts[-1] if component.extension and parts else _lustre_part(component, servers))
        ends.append(_END if component.end == TO_THE_END else int(component.end))
    return Parts(tuple(ends), tuple(parts))


def _lustre_part(part: Component, servers: int) -> RoundRobin:
    # A folder, or nothing written yet: as many as are asked for, from the first on.
    osts = part.osts or range(max(part.start, 0), max(part.start, 0) + (part.count if part.count > 0 else servers))
    return RoundRobin(part.size or DEFAULT_SIZE, tuple(ost % servers for ost in osts))


def _ceph(path: Path, servers: int) -> Places | None:
    name = "ceph.dir.layout" if path.is_dir() else "ceph.file.layout"
    folder = path
    while True:
        try:
            return ceph_places(os.getxattr(folder, name).decode(), servers, f"{folder}: {name}")
        except OSError:  # a folder without a layout of its own has that of the one above it
            if name == "ceph.file.layout" or folder == folder.parent:
                return None
            folder = folder.parent


def ceph_places(text: str, servers: int, where: str) -> Objects:
    """
    >>> ceph_places("stripe_unit=65536 stripe_count=4 object_size=4194304 pool=data", 4, "x")
    Objects(unit=65536, count=4, whole=4194304, servers=4)
    """
    values = dict(word.partition("=")[::2] for word in text.split())
    try:
        unit, count, whole = (int(values[key]) for key in ("stripe_unit", "stripe_count", "object_size"))
    except (KeyError, ValueError):
        raise BadInput(where, f"is no layout of Ceph's: {text!r}") from None
    if unit < 1 or count < 1 or whole < unit or whole % unit:
        raise UserError(f"{where}: objects must be whole stripes, not {whole} bytes of {unit}")
    return Objects(unit, count, whole, servers)
