"""What a client asks of the layer, and how often: no sockets and no waiting of its own.

Each operation is a generator. It yields an `Ask`, and is given the answer; or `Lost` is thrown into it, when nobody
knows whether the request was done. It yields a `Pause` when it wants to wait before it asks again. Whoever runs it
(forward/clients/sync.py, forward/clients/aio.py) has connections and knows how to wait, and nothing else.

Requests that were lost, or that a part of the layer could not do just now (AGAIN), are asked again for `patience`
seconds. Reading, writing the same bytes to the same place, and the like may be done twice. Making, removing and
renaming must not fail because they were done already: such a request has a random `key`, by which the server of the
names knows it again and repeats its first answer; and where that server forgot (it was started anew), `again` makes
it accept that what was asked for is already so.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from forebay.act.forward.data.names import NOBODY, Owner
from forebay.act.forward.data.name_requests import layout_of, layout_words
from forebay.act.forward.net.wire import AGAIN, LAST_OFFSET, LONGEST, Bytes, Kind, Message, packed, unpacked
from forebay.model.errors import ForebayError
from forebay.model.layout import Layout

T = TypeVar("T")
PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_SOONEST, _LATEST = 0.05, 1.0
_MOST_ATTACHES = 8


class Lost(ForebayError):
    """The connection broke, or could not be made."""


class Ask:
    """One request; `into` is where the bytes of a read go, `words` what `payload` was packed from.

    Where there is a `handle`, its file must be attached to the connection before.
    """

    __slots__ = ("file", "handle", "into", "kind", "offset", "payload", "size", "words")

    def __init__(
        self,
        kind: int,
        handle: Handle | None = None,
        *,
        file: int = 0,
        offset: int = 0,
        size: int = 0,
        payload: Bytes = b"",
        into: memoryview | None = None,
        words: dict[str, Any] | None = None,
    ) -> None:
        self.kind, self.handle, self.offset, self.size = kind, handle, offset, size
        self.file = file if handle is None else handle.file
        self.payload, self.into, self.words = payload, into, words
        if words is not None:
            self.payload = packed(words)

    def repeat(self) -> None:
        """From here on it is asked again."""
        if self.words is not None and "key" in self.words:
            self.words["again"] = True
            self.payload = packed(self.words)


def attach(handle: Handle) -> Ask:
    """Has an I/O node know the file again, by its id."""
    return Ask(Kind.ATTACH, file=handle.file, words={"layout": layout_words(handle.layout)})


class Pause(NamedTuple):
    seconds: float


Talk = Generator[Ask | Pause, Message, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """An open file as the layer knows it."""

    file: int
    layout: Layout


class OpenFile:
    """What an open file tells of itself, whichever client has it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._closed = False

    @property
    def id(self) -> int:
        return self._handle.file

    @property
    def layout(self) -> Layout:
        return self._handle.layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """What is known of a file or folder: `mode` with its type, size in bytes, and times in ns: of the last change of
    its bytes, and of anything. `allocated` is the bytes of disk that it takes, fewer where it has holes; `uid` and
    `gid` are whose it is, None for whoever mounts."""

    mode: int
    size: int
    allocated: int
    mtime: int
    ctime: int
    uid: int | None
    gid: int | None
    file: int
    layout: Layout

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Entry(NamedTuple):
    """A name in a folder."""

    name: str
    is_folder: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Of all data servers together, in bytes; and how many files they can hold."""

    total: int
    free: int
    available: int
    files: int
    free_files: int


class Asking:
    """The operations; `patience` in seconds, `now` is a clock in seconds that never goes back."""

    def __init__(self, patience: float, now: Callable[[], float] = monotonic) -> None:
        self._patience, self._now = patience, now
        self._users: Counter[int] = Counter()  # of each open file
        self._lock = Lock()

    # Open files

    def open(self, path: PathLike, flags: int, mode: int, layout: Layout | None, owner: Owner = NOBODY) -> Talk[Handle]:
        words = {
            "path": wire_path(path),
            "create": bool(flags & os.O_CREAT),
            "exclusive": bool(flags & os.O_CREAT and flags & os.O_EXCL),
            "mode": mode,
            "layout": None if layout is None else layout_words(layout),
            "uid": owner[0],
            "gid": owner[1],
        }
        answer = yield from self._once(Kind.OPEN, words)
        found = _words(answer)
        handle = Handle(file=answer.file, layout=layout_of(found.get("layout")))
        with self._lock:
            self._users[handle.file] += 1
        if flags & os.O_TRUNC and not found.get("created"):
            yield from self.truncate(handle, 0)
        return handle

    def read(self, handle: Handle, room: memoryview, offset: int) -> Talk[int]:
        """How many bytes were put into the room; fewer than it holds only at the end of the file."""
        size = len(room)
        _check(offset, size, errno.EINVAL)
        if not size:
            return 0
        done = 0
        while done < size:
            part = room[done : done + LONGEST]
            ask = Ask(Kind.READ, handle, offset=offset + done, size=len(part), into=part)
            count = (yield from self._asked(ask)).size
            done += count
            if count < len(part):
                break
        return done

    def write(self, handle: Handle, data: memoryview, offset: int) -> Talk[int]:
        """All of it."""
        size = len(data)
        _check(offset, size, errno.EFBIG)
        done = 0
        while done < size:
            part = data[done : done + LONGEST]
            answer = yield from self._asked(Ask(Kind.WRITE, handle, offset=offset + done, payload=part))
            if answer.size != len(part):
                raise OSError(errno.EIO, f"{answer.size} of {len(part)} bytes were written")
            done += len(part)
        return size

    def truncate(self, handle: Handle, size: int) -> Talk[None]:
        _check(size, 0, errno.EFBIG)
        yield from self._asked(Ask(Kind.TRUNCATE, handle, offset=size))

    def fsync(self, handle: Handle) -> Talk[None]:
        yield from self._asked(Ask(Kind.FSYNC, handle))

    def fstat(self, handle: Handle) -> Talk[Stat]:
        return _stat((yield from self._asked(Ask(Kind.STAT, handle))))

    def set_handle(self, handle: Handle, **attributes: int | None) -> Talk[None]:
        """`mode`, `mtime`, `uid` and `gid`: those that are not None."""
        yield from self._asked(Ask(Kind.SETATTR, handle, words=attributes))

    def closed(self, handle: Handle) -> bool:
        """One who had the file open is done with it; whether that was the last one."""
        with self._lock:
            self._users[handle.file] -= 1
            if self._users[handle.file] > 0:
                return False
            del self._users[handle.file]
            return True

    # Names

    def stat(self, path: PathLike) -> Talk[Stat]:
        return _stat((yield from self._told(Kind.STAT, {"path": wire_path(path)})))

    def set_attributes(self, path: PathLike, **attributes: int | None) -> Talk[None]:
        """As `set_handle`."""
        yield from self._told(Kind.SETATTR, {"path": wire_path(path), **attributes})

    def unlink(self, path: PathLike) -> Talk[None]:
        yield from self._once(Kind.UNLINK, {"path": wire_path(path)})

    def rename(self, path: PathLike, to: PathLike) -> Talk[None]:
        yield from self._once(Kind.RENAME, {"path": wire_path(path), "to": wire_path(to)})

    def mkdir(self, path: PathLike, mode: int, layout: Layout | None, owner: Owner = NOBODY) -> Talk[None]:
        words = {"path": wire_path(path), "mode": mode, "layout": None if layout is None else layout_words(layout)}
        yield from self._once(Kind.MKDIR, words | {"uid": owner[0], "gid": owner[1]})

    def rmdir(self, path: PathLike) -> Talk[None]:
        yield from self._once(Kind.RMDIR, {"path": wire_path(path)})

    def readdir(self, path: PathLike) -> Talk[list[Entry]]:
        where = wire_path(path)
        found: list[Entry] = []
        after, more = b"", True
        while more:
            page = _words((yield from self._told(Kind.READDIR, {"path": where, "after": after})))
            entries, more = page["entries"], page["more"]
            found += (Entry(os.fsdecode(name), folder) for name, folder in entries)
            after = entries[-1][0] if entries else b""
        return found

    def layout(self, path: PathLike) -> Talk[Layout]:
        return layout_of(_words((yield from self._told(Kind.LAYOUT, {"path": wire_path(path)})))["layout"])

    def set_layout(self, path: PathLike, layout: Layout) -> Talk[None]:
        yield from self._told(Kind.LAYOUT, {"path": wire_path(path), "layout": layout_words(layout)})

    def statfs(self) -> Talk[Space]:
        words = _words((yield from self._asked(Ask(Kind.STATFS))))
        return Space(**{name: words[name] for name in Space.__slots__})

    # Asking until there is an answer

    def _told(self, kind: Kind, words: dict[str, Any]) -> Talk[Message]:
        return self._asked(Ask(kind, words=words))

    def _once(self, kind: Kind, words: dict[str, Any]) -> Talk[Message]:
        key = secrets.randbits(63) | 1
        return self._asked(Ask(kind, words=words | {"key": key, "again": False}))

    def _asked(self, ask: Ask) -> Talk[Message]:
        """The answer, which is no error; OSError otherwise."""
        until, pause, attaches = None, 0.0, 0
        while True:
            try:
                answer = yield ask
                if not answer.status:
                    return answer
                if answer.status == errno.ESTALE and ask.handle is not None and attaches < _MOST_ATTACHES:
                    attaches += 1  # as it seems the node has forgotten the file
                    answer = yield attach(ask.handle)
                    if not answer.status:
                        continue
                if answer.status != AGAIN:
                    raise failure(answer)
                trouble = failure(answer)
            except Lost as lost:
                trouble = OSError(errno.EIO, str(lost))
            now = self._now()
            until = now + self._patience if until is None else until
            if now >= until:
                words = f"{trouble.strerror} (no success for {self._patience:g} s)"
                raise OSError(errno.EIO, words) from None
            if pause:
                yield Pause(min(pause, until - now))
            pause = min(2 * pause or _SOONEST, _LATEST)
            ask.repeat()


def wire_path(path: PathLike) -> bytes:
    """As it goes over the wire: bytes without a slash at the front.

    >>> wire_path("/runs/a"), wire_path("/")
    (b'runs/a', b'')
    """
    return os.fsencode(path).lstrip(b"/")


def failure(answer: Message) -> OSError:
    """The error that an answer stands for, in the words of who gave it where there are any."""
    try:
        words = bytes(answer.payload).decode()
    except UnicodeDecodeError:
        words = ""
    return OSError(answer.status, words or os.strerror(answer.status))


def _check(offset: int, size: int, beyond: int) -> None:
    if offset < 0:
        raise OSError(errno.EINVAL, "an offset must not be negative")
    if offset + size > LAST_OFFSET:
        raise OSError(beyond, "an offset beyond 2^63")


def _words(answer: Message) -> dict[str, Any]:
    words = unpacked(answer.payload)
    if not isinstance(words, dict):
        raise OSError(errno.EPROTO, "the I/O node's answer makes no sense")
    return words


def _stat(answer: Message) -> Stat:
    words = _words(answer)
    folder = bool(words.get("folder"))
    return Stat(
        mode=(stat.S_IFDIR if folder else stat.S_IFREG) | words["mode"],
        size=words.get("size", 0),
        allocated=words.get("allocated", words.get("size", 0)),
        mtime=words["mtime"],
        ctime=words.get("ctime", words["mtime"]),
        uid=words.get("uid"),
        gid=words.get("gid"),
        file=words.get("id") or 0,
        layout=layout_of(words["layout"]),
    )
