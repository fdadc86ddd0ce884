"""The structured payloads of messages: one class for each, whose fields are checked while it is decoded.

Paths are bytes without a leading slash; the root is b"". A layout is (count, size, start). Requests that must not be
carried out twice have a random `key`. The server of the names recognises a repeated key and repeats its first answer.
If it has restarted since, `again` says that the request may have been carried out before.

A request finds its file by the folder `at` and a path from there. The empty path stands for `at` itself, which then can
be any file. Names that a program sees through a mount need no longer path than one name, and still lead to the right
file if somebody renames a folder above it.
"""

import os
import stat
from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec

from forebay.act.forward.net.wire import BadMessage, Message, unpack_as
from forebay.model.file_times import clamp_time
from forebay.model.layout import Layout

LEASE = 10.0
"""Seconds for which a mount may keep what it has a lease for."""
LEASED_STATUS, LEASED_NAMES, LEASED_ALONE = 1, 2, 4
ENDED, STILL = 1, 2
"""The offsets of WATCH: a mount has ended; or it watches, and may have leases of this server already."""
READ_ACCESS = 4
ROOT = 1
"""The id of the layer's root folder."""
MOST_SERVERS, SERVER_BITS = 4096, 32
"""The id of a file holds the number of the server that has created it, from this bit on; that of a folder has 0."""
LayoutFields: TypeAlias = tuple[int, int, int]
UserId: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=(1 << 32) - 1)]
_MOST_LAYOUTS = 1024
"""Layouts to keep: most files share theirs with many others."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Payload(msgspec.Struct, kw_only=True):
    """Encoded as a map from names to values; a reader ignores names that it does not know."""


class Caller(msgspec.Struct, frozen=True, array_like=True):
    """The user who makes a request: uid, gid, and supplementary groups.

    `mounter` is the user whom the I/O node knows the client by. Files without a recorded owner belong to that user.
    `holder` is the mount that can hold leases; 0 for other clients.
    """

    uid: UserId
    gid: UserId
    groups: tuple[UserId, ...] = ()
    mounter: UserId = 0
    holder: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)] = 0


class PathRequest(Payload, kw_only=True):
    """With neither `at` nor a path, the header names the file. Only I/O nodes may omit the caller."""

    at: int = ROOT
    path: bytes = b""
    caller: Caller | None = None


class StatusRequest(PathRequest, kw_only=True):
    """Asks also for the bytes of a file with at most `content` bytes, if the caller may read and keep them."""

    content: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0


class OnceRequest(PathRequest, kw_only=True):
    """A request that changes names, and must not be carried out twice."""

    key: int = 0
    again: bool = False


class CreateRequest(OnceRequest, kw_only=True):
    mode: int = 0o644
    layout: LayoutFields | None = None
    full: list[int] = []
    """Servers without space; only from I/O nodes."""
    missing: list[int] = []
    """Servers that cannot be reached; only from I/O nodes."""


class OpenRequest(CreateRequest, kw_only=True):
    """Opens a file to read (4), to write (2), or both."""

    create: bool = False
    exclusive: bool = False
    truncate: bool = False
    access: Annotated[int, msgspec.Meta(ge=0, le=7)] = 0


class MkdirRequest(CreateRequest, kw_only=True):
    mode: int = 0o755


class MakeRequest(CreateRequest, kw_only=True):
    """Creates what is neither opened nor a folder. `mode` includes the type; a symbolic link has a `target`."""

    device: Count = 0
    target: bytes | None = None


class TwoNamesRequest(OnceRequest, kw_only=True):
    to_at: int = ROOT
    to: bytes = b""


class RenameRequest(TwoNamesRequest, kw_only=True):
    """`exchange` swaps two names; `keep` refuses to replace one."""

    exchange: bool = False
    keep: bool = False


class LinkRequest(TwoNamesRequest, kw_only=True):
    """Gives the file another name."""


class PlacedFile(msgspec.Struct, frozen=True, array_like=True):
    """A new file with a reserved id, whose bytes are in one object already; the stamps are those of the object."""

    name: bytes
    file: int
    layout: LayoutFields
    mode: int
    mtime: int
    atime: int
    stamp: int
    read_stamp: int


class PlaceRequest(OnceRequest, kw_only=True):
    """Gives files their names in a folder, all or none; each replaces what has its name."""

    files: list[PlacedFile]


class ListRequest(PathRequest, kw_only=True):
    after: bytes = b""


class LayoutRequest(PathRequest, kw_only=True):
    """Asks for the layout of a file or folder; if `layout` is given, sets the layout of a folder's new files."""

    layout: LayoutFields | None = None


class AttributesRequest(PathRequest, kw_only=True):
    """Sets the attributes that are not None; `stamp` and `read_stamp` are the latest times of the file's objects.

    With `mtime_now` or `atime_now`, the server of the names chooses the time. `clear` removes the set-id bits, as a
    write or a truncation does: the caller needs no permission for that.
    """

    mode: int | None = None
    mtime: int | None = None
    atime: int | None = None
    mtime_now: bool = False
    atime_now: bool = False
    stamp: int = 0
    read_stamp: int = 0
    uid: UserId | None = None
    gid: UserId | None = None
    clear: bool = False

    def __post_init__(self) -> None:
        if self.mtime is not None:
            self.mtime = clamp_time(self.mtime)
        if self.atime is not None:
            self.atime = clamp_time(self.atime)


class AttributeRequest(PathRequest, kw_only=True):
    """Asks for an extended attribute, or for the names of all."""

    name: bytes | None = None


class SetAttributeRequest(OnceRequest, kw_only=True):
    """Sets an extended attribute, or removes it if there is no value. `create` and `replace` are those of setxattr."""

    name: bytes
    value: bytes | None = None
    create: bool = False
    replace: bool = False


class AttributeValues(Payload, kw_only=True):
    """The names of all extended attributes, or the value of one."""

    names: list[bytes] = []
    value: bytes = b""


class AllocateRequest(Payload, kw_only=True):
    """Allocates a range of bytes; `mode` has the bits of fallocate(2). For data servers, the range is in an object."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    length: Annotated[int, msgspec.Meta(gt=0, le=(1 << 63) - 1)]
    mode: int = 0


Owner: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Position: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


POSIX, FLOCK, APPEND = 0, 1, 2
"""The spaces of locks, which do not conflict with each other: fcntl(2), flock(2), and turns to append to a file."""
SHARED, EXCLUSIVE, UNLOCKED = 0, 1, 2
LOCK_LEASE = 10.0
"""Seconds for which a client keeps its locks without a renewal."""
LAST_BYTE = (1 << 63) - 1


class LockRequest(Payload, kw_only=True):
    """Asks for a lock, or for an end of it, on the bytes from `begin` to `end`, both included (data/lock_table.py).

    A `test` only asks who holds it. Others wait at most `wait` seconds; `cancel` ends the wait of the request with the
    same `key`. `client` is a random number that only the client, I/O nodes and servers know.
    """

    client: Count
    owner: Owner = 0
    space: Annotated[int, msgspec.Meta(ge=POSIX, le=APPEND)] = POSIX
    kind: Annotated[int, msgspec.Meta(ge=SHARED, le=UNLOCKED)] = SHARED
    begin: Position = 0
    end: Position = LAST_BYTE
    process: Owner = 0
    test: bool = False
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    cancel: bool = False
    key: Count = 0

    def make_release(self) -> "LockRequest":
        """The request that releases it."""
        return LockRequest(
            client=self.client, owner=self.owner, space=self.space, kind=UNLOCKED, begin=self.begin, end=self.end
        )


class LockAnswer(Payload, kw_only=True):
    """Whether the lock is granted; if not, a lock in its way: kind, begin, end and process.

    What a client holds is lost if the `epoch` changes: the client had not renewed its lease. For a turn to append,
    `size` is that of the file (only from I/O nodes).
    """

    granted: bool
    epoch: int = 0
    kind: int = UNLOCKED
    begin: int = 0
    end: int = 0
    process: int = 0
    size: int = 0


class LeaseRequest(Payload, kw_only=True):
    """Renews the lease of a client that holds locks, or ends it: the client has ended."""

    client: Count
    ended: bool = False


class LeaseAnswer(Payload, kw_only=True):
    """The epoch of the client; 0 if it holds nothing (any more)."""

    epoch: int


class FileStatus(Payload, kw_only=True):
    """A file, or a folder: times in ns since 1970, sizes in bytes (only from I/O nodes).

    `mode` includes the type. `mtime` is the time of the last change to its bytes, `ctime` that of any change.
    `allocated` is less than `size` if it has holes. `uid` and `gid` are None for the user who mounts. `file` is its id;
    its inode number in front of another file system. `access` is what the caller may do to the content:
    read (4), write (2). With `by_path`, requests for anything but open files need a path from the root. `leased` says
    what the mount may keep for LEASE seconds, unless it is recalled: the status (1), names of the folder (2); and
    whether it has the file alone as long as it has the folder alone (4). Only a
    `spread` file has more than one object. If it is not, its size, its times and the `content` that was asked for are
    already `measured` where the server of the names has the object. `folder` is the status of the folder of a new name,
    if the mount may keep it.
    """

    file: int | None = msgspec.field(default=None, name="id")
    layout_fields: LayoutFields = msgspec.field(name="layout")
    mode: int
    mtime: int
    atime: int = 0
    ctime: int = 0
    stamp: int = 0
    read_stamp: int = 0
    uid: int | None = None
    gid: int | None = None
    links: int = 1
    device: int = 0
    target: bytes | None = None
    created: bool = False
    size: int = 0
    allocated: int = 0
    access: int = 6
    by_path: bool = False
    leased: int = 0
    spread: bool = False
    measured: bool = False
    content: bytes | None = None
    folder: "FileStatus | None" = None

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def has_bytes(self) -> bool:
        """Whether data servers have bytes of it."""
        return stat.S_ISREG(self.mode)

    @property
    def layout(self) -> Layout:
        return read_layout(self.layout_fields)

    @property
    def object_layout(self) -> Layout:
        """A layout that leads to all objects of the file."""
        count, size, start = self.layout_fields
        return read_layout((count if self.spread else 1, size, start))

    def add_objects(self, objects: "ObjectSize") -> None:
        """Complete the status by what is known of all objects of the file."""
        self.size, self.allocated, self.content = objects.size, objects.allocated, objects.content
        self.mtime, self.atime = self.time_of_change(objects.mtime), self.time_of_access(objects.atime)
        self.ctime = max(self.ctime, objects.mtime)
        self.measured = True

    def time_of_change(self, latest: int) -> int:
        """When the file last changed; `latest` is the latest mtime of its objects."""
        return latest if latest > self.stamp else self.mtime

    def time_of_access(self, latest: int) -> int:
        """When the file was last read; `latest` is the latest atime of its objects."""
        return latest if latest > self.read_stamp else self.atime


class OpenFiles(Payload, kw_only=True):
    """Files that an I/O node has open or has closed: the id of each, and how often it was opened there."""

    files: list[tuple[int, int]]


class NodeList(Payload, kw_only=True):
    """Files and folders: whose leases end, which a client closes, or whose objects are to be removed."""

    nodes: list[int]


class ForgetList(Payload, kw_only=True, omit_defaults=True):
    """Unlinked files whose objects the servers must remove: id and layout of each.

    `folder` is the status of the folder that has lost a name, if the mount may keep it.
    """

    forget: list[tuple[int, LayoutFields]]
    folder: FileStatus | None = None


class ListPage(Payload, kw_only=True):
    """Names in their order, each with the mode and the id of its file; an id of 0 is unknown."""

    entries: list[tuple[bytes, int, int]]
    more: bool


class LayoutAnswer(Payload, kw_only=True):
    layout: LayoutFields


class ObjectSize(Payload, kw_only=True):
    """Bytes, times of the last change and the last read in ns since 1970, and bytes on disk.

    They are zero if the object does not exist, and `atime` also if it was never read. If its bytes were asked for,
    and it is small, `content` has them.
    """

    size: int
    mtime: int
    atime: int = 0
    allocated: int
    content: bytes | None = None


class Space(Payload, kw_only=True):
    """Space in bytes, and numbers of files."""

    total: int
    free: int
    available: int
    files: int
    free_files: int


def listed_nodes(message: Message) -> list[int]:
    """The files that a message is about: those in its payload, or else the one in its header."""
    return unpack_as(NodeList, message.payload).nodes if len(message.payload) else [message.file]


def layout_fields(layout: Layout) -> LayoutFields:
    return layout.count, layout.size, layout.start


@lru_cache(_MOST_LAYOUTS)
def read_layout(fields: LayoutFields) -> Layout:
    """Build a layout from its fields; raises BadMessage if they are invalid."""
    count, size, start = fields
    try:
        return Layout(count=count, size=size, start=start)
    except ValueError as error:
        raise BadMessage(f"invalid layout: {error}") from None


def space_of(status: os.statvfs_result) -> Space:
    unit = status.f_frsize
    return Space(
        total=status.f_blocks * unit,
        free=status.f_bfree * unit,
        available=status.f_bavail * unit,
        files=status.f_files,
        free_files=status.f_ffree,
    )
