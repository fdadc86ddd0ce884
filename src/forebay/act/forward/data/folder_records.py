"""What servers tell I/O nodes, and through them each other, about folders whose names move between servers."""

from forebay.act.forward.data.name_database import Node
from forebay.act.forward.net.payloads import Payload

Lease = tuple[int, int, float]
"""The holder, the node, and for how many more seconds."""


class EmptyFolder(Payload, kw_only=True):
    """An empty folder for a server that does not have it yet."""

    node: Node
    attributes: list[tuple[bytes, bytes]]
    leases: list[Lease]


class Detour(Payload, kw_only=True, omit_defaults=True):
    """Where an I/O node finds what a request is about.

    If there are folders to `pull`, server 0 must take over each of them from the server beside it, and then gets the
    request; `only_empty` refuses that with ENOTEMPTY for a folder with names. Otherwise, `server` has the folder
    `folder`, in which the request's path is `path`, and its second one `to`. If that server does not know the folder,
    it gets the `empty` folder first. `leased` belongs to the answer. Without a folder, the server that answers does not
    know what the request is about.
    """

    pull: tuple[tuple[int, int], ...] = ()
    only_empty: bool = False
    folder: int = 0
    server: int = 0
    path: bytes = b""
    to: bytes = b""
    leased: int = 0
    empty: EmptyFolder | None = None


class Elsewhere(Exception):
    """Another server has what a request is about. Nothing has changed."""

    def __init__(self, detour: Detour) -> None:
        super().__init__("another server has these names")
        self.detour = detour


class ImportRoom(Payload, kw_only=True):
    """How much a server can take over."""

    bytes: int


class ExportRequest(Payload, kw_only=True):
    """Takes a folder out of use, and asks for its names after `after`; if `only_empty`, refuses if it has any.

    It also refuses if server 0 has too little `room` for the folder, which then would be nowhere in use. The mount
    `holder` is the one that wants to remove an empty folder.
    """

    folder: int
    after: bytes = b""
    only_empty: bool = False
    room: int | None = None
    holder: int = 0


class PageEnd(Payload, kw_only=True):
    """What an I/O node needs to know of a page: whether more follow, and after which name."""

    folder: int
    more: bool = False
    last: bytes = b""
    is_first: bool = False


class FolderPage(PageEnd, kw_only=True):
    """Names of a folder that comes from the server `source`: with their nodes, after that of the folder itself.

    `leases` are those on these nodes, and `open` are the files that I/O nodes have open.
    """

    source: int
    names: list[tuple[bytes, int]]
    nodes: list[Node]
    attributes: list[tuple[int, bytes, bytes]]
    leases: list[Lease]
    open: list[int]
