"""Requests about names: from payloads to the tree of names and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from forebay.act.forward.data.names import Forget, Names
from forebay.act.forward.data.records import Record
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import layout_fields, read_layout, read_request
from forebay.act.forward.net.wire import Kind, Message
from forebay.model.layout import Layout

_MOST_REMEMBERED = 1 << 14


class NameRequests:
    """Carries out requests about names, and remembers the answers to those that must not be carried out twice.

    The process forgets them when it ends; then `again` helps (see `Names`).
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._answers: OrderedDict[int, tuple[int, payloads.Payload | None]] = OrderedDict()
        self._operations: dict[int, Callable[[Message, Any], payloads.Payload | None]] = {
            Kind.OPEN: self._open,
            Kind.ATTACH: lambda message, _: file_status(self._names.attach(message.file)),
            Kind.STAT: self._stat,
            Kind.SETATTR: self._set_attributes,
            Kind.UNLINK: self._unlink,
            Kind.RENAME: self._rename,
            Kind.MKDIR: self._mkdir,
            Kind.RMDIR: self._rmdir,
            Kind.READDIR: self._readdir,
            Kind.LAYOUT: self._layout,
            Kind.PENDING: lambda _, __: _forget_list(islice(self._names.pending(), _MOST_REMEMBERED)),
            Kind.FORGOTTEN: lambda message, _: self._names.forgotten(message.file),
        }

    def handlers(self) -> dict[int, Callable[[Message], payloads.Payload | None]]:
        """By kind of message; each returns the answer's payload, and raises OSError or BadMessage."""
        return dict.fromkeys(self._operations, self._answer)

    def _answer(self, message: Message) -> payloads.Payload | None:
        request = read_request(message.kind, message.payload)
        key = request.key if isinstance(request, payloads.OnceRequest) else 0
        known = self._answers.get(key) if key else None
        if known is not None and known[0] == message.kind:
            return known[1]
        answer = self._operations[message.kind](message, request)
        if key:
            self._answers[key] = message.kind, answer
            if len(self._answers) > _MOST_REMEMBERED:
                self._answers.popitem(last=False)
        return answer

    def _open(self, _: Message, request: payloads.OpenRequest) -> payloads.FileStatus:
        record, created = self._names.open(
            request.path,
            create=request.create,
            exclusive=request.exclusive,
            mode=request.mode,
            layout=_layout(request.layout),
            owner=(request.uid, request.gid),
            key=request.key,
            again=request.again,
        )
        return file_status(record, created=created)

    def _unlink(self, _: Message, request: payloads.RemoveRequest) -> payloads.ForgetList:
        return _forget_list(self._names.unlink(request.path, again=request.again))

    def _rename(self, _: Message, request: payloads.RenameRequest) -> payloads.ForgetList:
        return _forget_list(self._names.rename(request.path, request.to, again=request.again))

    def _mkdir(self, _: Message, request: payloads.MkdirRequest) -> None:
        self._names.mkdir(
            request.path,
            mode=request.mode,
            layout=_layout(request.layout),
            owner=(request.uid, request.gid),
            key=request.key,
            again=request.again,
        )

    def _rmdir(self, _: Message, request: payloads.RemoveRequest) -> None:
        self._names.rmdir(request.path, again=request.again)

    def _readdir(self, _: Message, request: payloads.ListRequest) -> payloads.ListPage:
        entries, more = self._names.readdir(request.path, request.after)
        return payloads.ListPage(entries=entries, more=more)

    def _layout(self, _: Message, request: payloads.LayoutRequest) -> payloads.LayoutAnswer:
        layout = _layout(request.layout)
        if layout is not None:
            self._names.set_layout(request.path, layout)
        return payloads.LayoutAnswer(layout=layout_fields(layout or self._names.layout(request.path)))

    def _stat(self, message: Message, request: payloads.PathRequest) -> payloads.FileStatus:
        path = request.path
        return file_status(self._names.attach(message.file) if path is None else self._names.stat(path))

    def _set_attributes(self, message: Message, request: payloads.AttributesRequest) -> None:
        self._names.set_attributes(
            message.file if request.path is None else request.path,
            mode=request.mode,
            mtime=request.mtime,
            stamp=request.stamp,
            owner=(request.uid, request.gid),
        )


def file_status(record: Record, *, created: bool = False) -> payloads.FileStatus:
    return payloads.FileStatus(
        id=record.file,
        layout=layout_fields(record.layout),
        mode=record.mode,
        mtime=record.mtime,
        ctime=record.ctime,
        stamp=record.stamp,
        uid=record.uid,
        gid=record.gid,
        folder=record.file is None,
        created=created,
    )


def _forget_list(files: Iterable[Forget]) -> payloads.ForgetList:
    return payloads.ForgetList(forget=[(file, layout_fields(layout)) for file, layout in files])


def _layout(fields: payloads.LayoutFields | None) -> Layout | None:
    return None if fields is None else read_layout(fields)
