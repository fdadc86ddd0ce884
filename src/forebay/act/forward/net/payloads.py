"""The structured payloads of messages: one class for each, whose fields are checked while it is decoded.

Paths are bytes without a leading slash; the root is b"". A layout is (count, size, start). Requests that must not be
carried out twice have a random `key`. The server of the names recognises a repeated key and repeats its first answer.
If it has restarted since, `again` says that the request may have been carried out before.
"""

import os
from typing import Annotated, TypeAlias

import msgspec

from forebay.act.forward.net.wire import BadMessage, Bytes, Kind, unpack_as
from forebay.model.layout import Layout
from forebay.model.observation import Observation

LayoutFields: TypeAlias = tuple[int, int, int]
UserId: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=(1 << 32) - 1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Duration: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1 << 62)]
"""Seconds."""


class Payload(msgspec.Struct, kw_only=True):
    """Encoded as a map from names to values; a reader ignores names that it does not know."""


class PathRequest(Payload, kw_only=True):
    path: bytes | None = None


class OnceRequest(Payload, kw_only=True):
    path: bytes
    key: int = 0
    again: bool = False


class CreateRequest(OnceRequest, kw_only=True):
    mode: int = 0o644
    layout: LayoutFields | None = None
    uid: UserId | None = None
    gid: UserId | None = None


class OpenRequest(CreateRequest, kw_only=True):
    create: bool = False
    exclusive: bool = False


class MkdirRequest(CreateRequest, kw_only=True):
    mode: int = 0o755


class RenameRequest(OnceRequest, kw_only=True):
    to: bytes


class ListRequest(Payload, kw_only=True):
    path: bytes
    after: bytes = b""


class LayoutRequest(Payload, kw_only=True):
    """Asks for the layout of a file or folder; if `layout` is given, sets the layout of a folder's new files."""

    path: bytes
    layout: LayoutFields | None = None


class AttributesRequest(PathRequest, kw_only=True):
    """Sets the attributes that are not None; `stamp` is the latest mtime of the file's objects."""

    mode: int | None = None
    mtime: int | None = None
    stamp: int = 0
    uid: UserId | None = None
    gid: UserId | None = None


class FileStatus(Payload, kw_only=True):
    """A file, or a folder: times in ns since 1970, sizes in bytes (only from I/O nodes).

    `mtime` is the time of the last change to its bytes, `ctime` that of any change. `allocated` is less than `size` if
    it has holes. `uid` and `gid` are None for the user who mounts. `file` is its id; data servers give folders none.
    """

    file: int | None = msgspec.field(default=None, name="id")
    layout_fields: LayoutFields = msgspec.field(name="layout")
    mode: int
    mtime: int
    ctime: int = 0
    stamp: int = 0
    uid: int | None = None
    gid: int | None = None
    is_folder: bool = msgspec.field(default=False, name="folder")
    created: bool = False
    size: int = 0
    allocated: int = 0

    @property
    def layout(self) -> Layout:
        return read_layout(self.layout_fields)

    def time_of_change(self, latest: int) -> int:
        """When the file last changed; `latest` is the latest mtime of its objects."""
        return latest if latest > self.stamp else self.mtime


class ForgetList(Payload, kw_only=True):
    """Unlinked files whose objects the servers must remove: id and layout of each."""

    forget: list[tuple[int, LayoutFields]]


class ListPage(Payload, kw_only=True):
    """Names in their order, and whether each is a folder."""

    entries: list[tuple[bytes, bool]]
    more: bool


class LayoutAnswer(Payload, kw_only=True):
    layout: LayoutFields


class ObjectSize(Payload, kw_only=True):
    """Bytes, time of the last change in ns since 1970, and bytes on disk; zeros if the object does not exist."""

    size: int
    mtime: int
    allocated: int


class Space(Payload, kw_only=True):
    """Space in bytes, and numbers of files."""

    total: int
    free: int
    available: int
    files: int
    free_files: int


class Announcement(Payload, kw_only=True):
    """An I/O node's observation of the last period, and the tuned parameter's value, set `held` seconds ago."""

    observed: Observation
    parameter: str
    value: int | float | str
    held: float
    servers: int


class Decision(Payload, kw_only=True):
    """A parameter's new value; with `ignore`, I/O nodes keep theirs."""

    parameter: str
    value: int | float | str
    ignore: bool = False


Stripes: TypeAlias = Annotated[int, msgspec.Meta(gt=0, le=1 << 16)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
Start: TypeAlias = Annotated[int, msgspec.Meta(ge=-1)]
FileUse: TypeAlias = tuple[int, tuple[Stripes, Positive, Start], Count, Count]
"""A file's id and layout, the bytes moved, and the end of the last byte used."""
SIZE_BINS = 10
SizeCounts: TypeAlias = Annotated[list[Count], msgspec.Meta(min_length=SIZE_BINS, max_length=SIZE_BINS)]
"""Requests by size, in the bins of Darshan."""


class JobPart(Payload, kw_only=True):
    """What one process of a job did through one I/O node; `token` is unique. Times in seconds."""

    app: str
    exe: str
    user: str | None = None
    uid: Count
    job: Count
    process: str
    processes: Count
    token: str
    begin: Duration
    end: Duration
    busy: Duration = 0.0
    read_time: Duration = 0.0
    write_time: Duration = 0.0
    meta_time: Duration = 0.0
    reads: Count = 0
    writes: Count = 0
    bytes_read: Count = 0
    bytes_written: Count = 0
    seq: Count = 0
    consec: Count = 0
    strided: Count = 0
    unaligned: Count = 0
    common_size: Count = 0
    read_sizes: SizeCounts
    write_sizes: SizeCounts
    files: list[FileUse]


class JobReport(Payload, kw_only=True):
    parts: list[JobPart]


REQUESTS: dict[int, type[Payload]] = {
    Kind.OPEN: OpenRequest,
    Kind.STAT: PathRequest,
    Kind.UNLINK: OnceRequest,
    Kind.READDIR: ListRequest,
    Kind.MKDIR: MkdirRequest,
    Kind.RMDIR: OnceRequest,
    Kind.RENAME: RenameRequest,
    Kind.LAYOUT: LayoutRequest,
    Kind.SETATTR: AttributesRequest,
}
"""The payload that each kind of message carries; kinds that are not listed carry none."""


def read_request(kind: int, payload: Bytes) -> Payload | None:
    """Decode the request in a message's payload; raises BadMessage if it is malformed."""
    shape = REQUESTS.get(kind)
    if shape is None:
        return None
    return PathRequest() if kind == Kind.STAT and not len(payload) else unpack_as(shape, payload)


def layout_fields(layout: Layout) -> LayoutFields:
    return layout.count, layout.size, layout.start


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
