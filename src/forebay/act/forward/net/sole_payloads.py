"""The payloads of messages about folders that one mount has alone (data/sole_leases.py).

`full` are servers without space; only I/O nodes name them.
"""

import msgspec

from forebay.act.forward.net.payloads import FileStatus, LayoutFields, OnceRequest, PathRequest, Payload


class AloneRequest(PathRequest, kw_only=True):
    """Asks to have a folder alone, with the files in it from the name `begin` on."""

    begin: bytes = b""
    full: tuple[int, ...] = ()


class AloneAnswer(Payload, kw_only=True):
    """The files that the mount now has alone with the folder, and the time at the server in ns since 1970.

    The mount may create files there that get `layout`, with ids from `first` on; none if there is no layout. A mount
    that does not have the folder alone gets no files.
    """

    files: tuple[int, ...] = ()
    now: int = 0
    first: int = 0
    layout: LayoutFields | None = None


class RemoveRequest(PathRequest, kw_only=True):
    """Removes names from a folder that still stand for these files; the others are gone, or belong to others by now.

    `time` is when the mount has last changed the folder.
    """

    names: list[tuple[bytes, int]]
    time: int = 0


class AddedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that a mount has created, with all of its bytes; times in ns since 1970."""

    name: bytes
    file: int
    mode: int
    created: int
    changed: int
    data: bytes


class AddRequest(OnceRequest, kw_only=True):
    """Adds files to a folder, with ids that came with it; `layout` is without a first server, and `time` as above."""

    files: list[AddedFile]
    layout: LayoutFields
    time: int = 0
    full: tuple[int, ...] = ()


class AddedStatus(msgspec.Struct, frozen=True, array_like=True):
    """What became of an added file: what the mount may keep, as in `FileStatus.leased`; mtime and bytes on disk.

    It is `refused` if its name belongs to another file by now.
    """

    leased: int = 0
    changed: int = 0
    allocated: int = 0
    refused: bool = False


class AddAnswer(Payload, kw_only=True, omit_defaults=True):
    """The status of each file of the request, and of the folder if the mount may keep it.

    The mount still has the folder `alone`, or not; it may create more files only if there is `room`.
    """

    files: list[AddedStatus]
    folder: FileStatus | None = None
    alone: bool = False
    room: bool = False
