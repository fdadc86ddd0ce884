"""Which server of a mounted parallel file system holds which bytes of a file.

The file system says so, or a layout is given. The scheduler needs only the server; the bytes go through the mount. Ceph
places objects on OSDs by a hash of their names; here they go round the servers, which keeps neighbours apart.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from forebay.act.command import run
from forebay.act.filesystems.filesystem import path_argument
from forebay.act.filesystems.lustre.layouts import TO_THE_END, Component, parse_stripe
from forebay.act.forward.striping import Piece
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import DEFAULT_SIZE, Layout

How = Literal["given", "lustre", "ceph"]
_END = (1 << 63) - 1
_TIMEOUT = 10.0


class FilePlaces(Protocol):
    """Where the bytes of one file are."""

    @property
    def layout(self) -> Layout:
        """The closest description by count, size and first server."""

    def pieces(self, offset: int, length: int) -> list[Piece]:
        """Cut these bytes at the ends of stripes, in file order.

        The offset of a piece is the one in the server's object, so that contiguous pieces can be merged.
        """


def _cut(size: int, offset: int, length: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut a request at stripes of `size` bytes: number, offset in the stripe, length, offset in the request."""
    done = 0
    while done < length:
        stripe, within = divmod(offset + done, size)
        part = min(size - within, length - done)
        yield stripe, within, part, done
        done += part


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Stripes of `size` bytes that go round `servers`, in which a server may occur more than once."""

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
        return [
            Piece(servers[stripe % len(servers)], stripe // len(servers) * size + within, part, at)
            for stripe, within, part, at in _cut(size, offset, length)
        ]


@dataclass(frozen=True, slots=True)
class CephObjects:
    """Stripes of `unit` bytes go round `count` objects; when each has `whole` bytes, round the next `count`."""

    unit: int
    count: int
    whole: int
    servers: int

    @property
    def layout(self) -> Layout:
        return Layout(count=min(self.count, self.servers), size=self.unit, start=0)

    def pieces(self, offset: int, length: int) -> list[Piece]:
        """
        >>> CephObjects(unit=65536, count=2, whole=65536, servers=4).pieces(2 * 65536, 10)
        [Piece(server=2, offset=0, length=10, at=0, cuts=())]
        """
        pieces: list[Piece] = []
        for stripe, within, part, at in _cut(self.unit, offset, length):
            turn, which = divmod(stripe, self.count)
            group, row = divmod(turn, self.whole // self.unit)
            turn, server = divmod(group * self.count + which, self.servers)
            # No object is longer than `whole`, so offsets in different objects of one server stay apart.
            pieces.append(Piece(server, turn * self.whole + row * self.unit + within, part, at))
        return pieces


@dataclass(frozen=True, slots=True)
class Components:
    """A progressive file layout of Lustre: each layout of `parts` applies up to its end in the file."""

    ends: tuple[int, ...]
    parts: tuple[RoundRobin, ...]

    @property
    def layout(self) -> Layout:
        return self.parts[-1].layout

    def pieces(self, offset: int, length: int) -> list[Piece]:
        pieces: list[Piece] = []
        done = 0
        for end, part in zip(self.ends, self.parts, strict=True):
            here = min(length - done, end - offset - done)
            if here > 0:
                pieces += [piece._replace(at=done + piece.at) for piece in part.pieces(offset + done, here)]
                done += here
        return pieces


def fixed_places(layout: Layout, servers: int) -> RoundRobin:
    """
    >>> fixed_places(Layout(count=2, size=65536, start=3), servers=4).servers
    (3, 0)
    """
    first = max(layout.start, 0)
    return RoundRobin(layout.size, tuple((first + i) % servers for i in range(layout.count)))


def places_finder(how: How, servers: int, layout: Layout) -> Callable[[Path], FilePlaces]:
    """Build a function that finds the places of a file or folder; `layout` applies if the file system has none."""
    if how == "lustre":

        def find(path: Path) -> FilePlaces:
            folder = ("-d",) if path.is_dir() else ()
            text = run(("lfs", "getstripe", *folder, "-y", path_argument(path)), timeout=_TIMEOUT)
            return lustre_places(text, servers, str(path))

        return find
    if how == "ceph":
        return lambda path: _ceph(path, servers) or fixed_places(layout, servers)
    same = fixed_places(layout, servers)
    return lambda _path: same


def lustre_places(text: str, servers: int, where: str) -> FilePlaces:
    """Read the output of `lfs getstripe -y` (with -d for a folder); OST n is server n modulo `servers`."""
    components = parse_stripe(text, where).components
    if not components[0].end:
        return _lustre_part(components[0], servers)
    ends: list[int] = []
    parts: list[RoundRobin] = []
    for component in components:
        # In a self-extending layout, the component before an extension grows into it.
        parts.append(parts[-1] if component.extension and parts else _lustre_part(component, servers))
        ends.append(_END if component.end == TO_THE_END else int(component.end))
    return Components(tuple(ends), tuple(parts))


def _lustre_part(part: Component, servers: int) -> RoundRobin:
    # A folder, or a file without data, has no OSTs yet: assume consecutive ones from the first on.
    osts = part.osts or range(max(part.start, 0), max(part.start, 0) + (part.count if part.count > 0 else servers))
    return RoundRobin(part.size or DEFAULT_SIZE, tuple(ost % servers for ost in osts))


def _ceph(path: Path, servers: int) -> FilePlaces | None:
    is_folder = path.is_dir()
    name = "ceph.dir.layout" if is_folder else "ceph.file.layout"
    for place in (path, *path.parents) if is_folder else (path,):
        with suppress(OSError):  # a folder without a layout inherits that of the folder above it
            return ceph_places(os.getxattr(place, name).decode(), servers, f"{place}: {name}")
    return None


def ceph_places(text: str, servers: int, where: str) -> CephObjects:
    """
    >>> ceph_places("stripe_unit=65536 stripe_count=4 object_size=4194304 pool=data", 4, "x")
    CephObjects(unit=65536, count=4, whole=4194304, servers=4)
    """
    values = dict(word.partition("=")[::2] for word in text.split())
    try:
        unit, count, whole = (int(values[key]) for key in ("stripe_unit", "stripe_count", "object_size"))
    except (KeyError, ValueError):
        raise BadInput(where, f"is not a Ceph layout: {text!r}") from None
    if unit < 1 or count < 1 or whole < unit or whole % unit:
        raise UserError(f"{where}: the object size ({whole}) must be a multiple of the stripe unit ({unit})")
    return CephObjects(unit, count, whole, servers)
