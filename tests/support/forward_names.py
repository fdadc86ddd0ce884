"""The tree of names with requests as keywords, which tests read and write more easily."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

from forebay.act.forward.data.names import Names
from forebay.act.forward.data.records import Record, RecordTree
from forebay.act.forward.net.payloads import (
    AttributesRequest,
    FileStatus,
    ForgetList,
    LayoutRequest,
    MkdirRequest,
    OnceRequest,
    OpenRequest,
    PathRequest,
    RenameRequest,
    layout_fields,
    read_layout,
)
from forebay.act.forward.net.wire import Kind, Message
from forebay.model.layout import Layout


class KeywordNames:
    """`owner` is a pair of user and group, `layout` a `Layout`, and what exists a status as it is known for long."""

    def __init__(self, tree: RecordTree, servers: int, default: Layout, **options: Any) -> None:
        self._names = Names(tree, servers, default, **options)
        self.close, self.descriptors_to_sync = self._names.close, self._names.descriptors_to_sync
        self.readdir, self.forgotten = self._names.list_names, self._names.forget

    def open(self, path: bytes, **fields: Any) -> tuple[FileStatus, bool]:
        status = self._names.do_open(_message(), OpenRequest(path=path, **_wire(fields)))
        return _known(status), status.created

    def attach(self, file: int) -> FileStatus:
        return _known(self._names.do_attach(_message(file), None))

    def stat(self, path: bytes) -> FileStatus:
        return _known(self._names.do_stat(_message(), PathRequest(path=path)))

    def mkdir(self, path: bytes, **fields: Any) -> None:
        self._names.do_mkdir(_message(), MkdirRequest(path=path, **_wire(fields)))

    def rmdir(self, path: bytes, **fields: Any) -> None:
        self._names.do_rmdir(_message(), OnceRequest(path=path, **fields))

    def set_attributes(self, where: bytes | int, **fields: Any) -> None:
        path, file = (None, where) if isinstance(where, int) else (where, 0)
        self._names.do_setattr(_message(file), AttributesRequest(path=path, **_wire(fields)))

    def unlink(self, path: bytes, **fields: Any) -> list[tuple[int, Layout]]:
        return _forget(self._names.do_unlink(_message(), OnceRequest(path=path, **fields)))

    def rename(self, path: bytes, to: bytes, **fields: Any) -> list[tuple[int, Layout]]:
        return _forget(self._names.do_rename(_message(), RenameRequest(path=path, to=to, **fields)))

    def list_pending(self) -> list[tuple[int, Layout]]:
        return _forget(self._names.do_pending(_message(), None))

    def layout(self, path: bytes) -> Layout:
        return read_layout(self._names.do_layout(_message(), LayoutRequest(path=path)).layout)

    def set_layout(self, path: bytes, layout: Layout) -> None:
        request = LayoutRequest(path=path, layout=layout_fields(layout))
        assert self._names.do_layout(_message(), request).layout == request.layout


def _message(file: int = 0) -> Message:
    return Message(Kind.STAT, file=file)


def _known(status: FileStatus) -> FileStatus:
    """The same whether it was just created or not."""
    known = copy(status)
    known.ctime, known.created = 0, False
    return known


def _forget(answer: ForgetList) -> list[tuple[int, Layout]]:
    return [(file, read_layout(fields)) for file, fields in answer.forget]


class SteppedTree(RecordTree):
    """Calls `step` after each change of the disk."""

    def __init__(self, folder: Path, step: Callable[[], None]) -> None:
        super().__init__(folder)
        self._step = step

    def write_record(self, place: bytes, record: Record) -> None:
        super().write_record(place, record)
        self._step()

    def replace(self, place: bytes, content: bytes) -> None:
        super().replace(place, content)
        self._step()

    def rename(self, place: bytes, to: bytes) -> None:
        super().rename(place, to)
        self._step()

    def link(self, place: bytes, to: bytes) -> None:
        super().link(place, to)
        self._step()

    def mkdir(self, place: bytes) -> None:
        super().mkdir(place)
        self._step()

    def remove(self, place: bytes) -> None:
        super().remove(place)
        self._step()

    def remove_all(self, place: bytes) -> None:
        super().remove_all(place)
        self._step()


def _wire(fields: dict[str, Any]) -> dict[str, Any]:
    if "owner" in fields:
        fields["uid"], fields["gid"] = fields.pop("owner")
    if fields.get("layout") is not None:
        fields["layout"] = layout_fields(fields["layout"])
    return fields
