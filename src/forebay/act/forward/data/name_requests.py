"""Requests about names: from payloads to the tree of names and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice

from forebay.act.forward.data.names import Forget, Names
from forebay.act.forward.data.records import Record
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import find_operation, layout_fields, read_layout, read_request
from forebay.act.forward.net.wire import Kind, Message

_MOST_REMEMBERED = 1 << 14


class NameRequests:
    """Carries out requests about names, and remembers the answers to those that must not be carried out twice.

    The method `do_open` answers messages of Kind.OPEN, and so on. The process forgets the answers when it ends; then
    `again` helps (see `Names`).
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._answers: OrderedDict[int, tuple[int, payloads.Payload | None]] = OrderedDict()

    def handlers(self) -> dict[int, Callable[[Message], payloads.Payload | None]]:
        """By kind of message; each returns the answer's payload, and raises OSError or BadMessage."""
        return {kind: self._answer for kind in Kind if find_operation(self, kind) is not None}

    def _answer(self, message: Message) -> payloads.Payload | None:
        request = read_request(message.kind, message.payload)
        key = request.key if isinstance(request, payloads.OnceRequest) else 0
        known = self._answers.get(key) if key else None
        if known is not None and known[0] == message.kind:
            return known[1]
        operation = find_operation(self, message.kind)
        assert operation is not None
        answer: payloads.Payload | None = operation(message, request)
        if key:
            self._answers[key] = message.kind, answer
            if len(self._answers) > _MOST_REMEMBERED:
                self._answers.popitem(last=False)
        return answer

    def do_open(self, _: Message, request: payloads.OpenRequest) -> payloads.FileStatus:
        record, created = self._names.open(request)
        return file_status(record, created=created)

    def do_attach(self, message: Message, _: None) -> payloads.FileStatus:
        return file_status(self._names.attach(message.file))

    def do_stat(self, message: Message, request: payloads.PathRequest) -> payloads.FileStatus:
        path = request.path
        return file_status(self._names.attach(message.file) if path is None else self._names.stat(path))

    def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> None:
        self._names.set_attributes(request, message.file)

    def do_unlink(self, _: Message, request: payloads.RemoveRequest) -> payloads.ForgetList:
        return _forget_list(self._names.unlink(request.path, again=request.again))

    def do_rename(self, _: Message, request: payloads.RenameRequest) -> payloads.ForgetList:
        return _forget_list(self._names.rename(request.path, request.to, again=request.again))

    def do_mkdir(self, _: Message, request: payloads.MkdirRequest) -> None:
        self._names.mkdir(request)

    def do_rmdir(self, _: Message, request: payloads.RemoveRequest) -> None:
        self._names.rmdir(request.path, again=request.again)

    def do_readdir(self, _: Message, request: payloads.ListRequest) -> payloads.ListPage:
        entries, more = self._names.readdir(request.path, request.after)
        return payloads.ListPage(entries=entries, more=more)

    def do_layout(self, _: Message, request: payloads.LayoutRequest) -> payloads.LayoutAnswer:
        if request.layout is not None:
            self._names.set_layout(request.path, read_layout(request.layout))
        return payloads.LayoutAnswer(layout=request.layout or layout_fields(self._names.layout(request.path)))

    def do_pending(self, _: Message, __: None) -> payloads.ForgetList:
        return _forget_list(islice(self._names.pending(), _MOST_REMEMBERED))

    def do_forgotten(self, message: Message, _: None) -> None:
        self._names.forgotten(message.file)


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
