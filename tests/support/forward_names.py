"""The tree of names with requests as keywords, which tests read and write more easily."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

from forebay.act.forward.data.name_database import NameStore
from forebay.act.forward.data.name_requests import Names
from forebay.act.forward.net.payloads import (
    AttributesRequest,
    FileStatus,
    ForgetList,
    LayoutRequest,
    LinkRequest,
    ListPage,
    ListRequest,
    MakeRequest,
    MkdirRequest,
    OnceRequest,
    OpenRequest,
    RenameRequest,
    StatusRequest,
    layout_fields,
    read_layout,
)
from forebay.act.forward.net.wire import Kind, Message
from forebay.model.layout import Layout


class KeywordNames:
    """`layout` is a `Layout`, and what exists a status as it is known for long."""

    def __init__(self, store: NameStore, servers: int, default: Layout, **options: Any) -> None:
        self.names = Names(store, servers, default, **options)
        self.close, self.descriptors_to_sync = self.names.close, self.names.descriptors_to_sync
        self.forgotten = self.names.forget

    def open(self, path: bytes, **fields: Any) -> tuple[FileStatus, bool]:
        status = self.names.do_open(_message(), OpenRequest(path=path, **_wire(fields)))
        return _known(status), status.created

    def attach(self, file: int) -> FileStatus:
        return _known(self.names.do_attach(_message(file), StatusRequest()))

    def stat(self, path: bytes, **fields: Any) -> FileStatus:
        return _known(self.names.do_stat(_message(), StatusRequest(path=path, **fields)))

    def make(self, path: bytes, mode: int, **fields: Any) -> FileStatus:
        return _known(self.names.do_make(_message(), MakeRequest(path=path, mode=mode, **fields)))

    def symlink(self, path: bytes, target: bytes, **fields: Any) -> FileStatus:
        return self.make(path, stat.S_IFLNK | 0o777, target=target, **fields)

    def link(self, path: bytes, to: bytes, **fields: Any) -> FileStatus:
        return _known(self.names.do_link(_message(), LinkRequest(path=path, to=to, **fields)))

    def mkdir(self, path: bytes, **fields: Any) -> None:
        self.names.do_mkdir(_message(), MkdirRequest(path=path, **_wire(fields)))

    def rmdir(self, path: bytes, **fields: Any) -> None:
        self.names.do_rmdir(_message(), OnceRequest(path=path, **fields))

    def readdir(self, path: bytes, after: bytes = b"", most: int | None = None) -> ListPage:
        if most is not None:
            return self.names.list_names(self.stat(path).file or 0, after, most)
        return self.names.do_readdir(_message(), ListRequest(path=path, after=after))

    def set_attributes(self, where: bytes | int, **fields: Any) -> None:
        path, file = (b"", where) if isinstance(where, int) else (where, 0)
        self.names.do_setattr(_message(file), AttributesRequest(path=path, **_wire(fields)))

    def unlink(self, path: bytes, **fields: Any) -> list[tuple[int, Layout]]:
        return _forget(self.names.do_unlink(_message(), OnceRequest(path=path, **fields)))

    def rename(self, path: bytes, to: bytes, **fields: Any) -> list[tuple[int, Layout]]:
        return _forget(self.names.do_rename(_message(), RenameRequest(path=path, to=to, **fields)))

    def list_pending(self) -> list[tuple[int, Layout]]:
        return _forget(self.names.list_pending())

    def layout(self, path: bytes) -> Layout:
        return read_layout(self.names.do_layout(_message(), LayoutRequest(path=path)).layout)

    def set_layout(self, path: bytes, layout: Layout) -> None:
        request = LayoutRequest(path=path, layout=layout_fields(layout))
        assert self.names.do_layout(_message(), request).layout == request.layout


def entries(names: KeywordNames, path: bytes = b"") -> list[tuple[bytes, bool]]:
    """The names in a folder, and whether each is a folder."""
    return [(name, stat.S_ISDIR(mode)) for name, mode, _ in names.readdir(path).entries]


def _message(file: int = 0) -> Message:
    return Message(Kind.STAT, file=file)


def _known(status: FileStatus) -> FileStatus:
    """The same whether it was just created or not."""
    known = copy(status)
    known.ctime, known.created, known.access = 0, False, 6
    return known


def _forget(answer: ForgetList) -> list[tuple[int, Layout]]:
    return [(file, read_layout(fields)) for file, fields in answer.forget]


class SteppedStore(NameStore):
    """Calls `step` after each statement that may change the disk."""

    _step: Callable[[], None] | None = None

    def __init__(self, folder: Path, step: Callable[[], None]) -> None:
        super().__init__(folder)
        self._step = step

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        result = super()._run(statement, values)
        if self._step is not None and not statement.startswith(("SELECT", "ROLLBACK")):
            self._step()
        return result


def _wire(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("layout") is not None:
        fields["layout"] = layout_fields(fields["layout"])
    return fields


def outcome(do_it: Callable[..., Any], *args: Any) -> int:
    """0, or the errno of an error."""
    try:
        do_it(*args)
    except OSError as error:
        return error.errno or -1
    return 0
