"""Requests about names, as words: from messages to the tree of names and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from forebay.act.forward.data.names import Forget, Names, Owner
from forebay.act.forward.data.records import Record
from forebay.act.forward.net.wire import BadMessage, Kind, Message, unpacked
from forebay.model.layout import Layout

_MOST_REMEMBERED = 1 << 14
_NO_USER = (1 << 32) - 1
_KINDS: dict[type, str] = {bytes: "bytes", int: "a number", bool: "yes or no", list: "a list"}


class NameRequests:
    """Does what messages ask of the names, and remembers the answers to those that must not be done twice.

    Such a request has a key of its client's: when it comes again because its answer was lost on the way, it gets the
    answer that it got before. What is remembered is lost when the process ends; then `again` helps (see `Names`).
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._answers: OrderedDict[int, tuple[int, Any]] = OrderedDict()

    def handlers(self) -> dict[int, Callable[[Message], Any]]:
        """By kind of message; each returns the words of the answer, and raises OSError or BadMessage."""
        once: dict[int, Callable[[dict[str, Any]], Any]] = {
            Kind.OPEN: self._open,
            Kind.UNLINK: self._unlink,
            Kind.MKDIR: self._mkdir,
            Kind.RMDIR: self._rmdir,
            Kind.RENAME: self._rename,
        }
        found: dict[int, Callable[[Message], Any]] = {
            Kind.ATTACH: self._attach,
            Kind.STAT: self._stat,
            Kind.READDIR: self._readdir,
            Kind.LAYOUT: self._layout,
            Kind.SETATTR: self._setattr,
            Kind.PENDING: self._pending,
            Kind.FORGOTTEN: self._forgotten,
        }
        return found | {kind: self._once(kind, handler) for kind, handler in once.items()}

    def _once(self, kind: int, handler: Callable[[dict[str, Any]], Any]) -> Callable[[Message], Any]:
        def asked(message: Message) -> Any:
            words = _words(message)
            key = _of(words, "key", int, 0)
            known = self._answers.get(key) if key else None
            if known is not None and known[0] == kind:
                return known[1]
            answer = handler(words)
            if key:
                self._answers[key] = kind, answer
                if len(self._answers) > _MOST_REMEMBERED:
                    self._answers.popitem(last=False)
            return answer

        return asked

    def _open(self, words: dict[str, Any]) -> dict[str, Any]:
        record, created = self._names.open(
            _path(words),
            create=_of(words, "create", bool, False),
            exclusive=_of(words, "exclusive", bool, False),
            mode=_of(words, "mode", int, 0o644),
            layout=_layout(words),
            owner=_owner(words),
            key=_of(words, "key", int, 0),
            again=_of(words, "again", bool, False),
        )
        return record_words(record) | {"created": created}

    def _unlink(self, words: dict[str, Any]) -> dict[str, Any]:
        return forget_words(self._names.unlink(_path(words), again=_of(words, "again", bool, False)))

    def _rename(self, words: dict[str, Any]) -> dict[str, Any]:
        again = _of(words, "again", bool, False)
        return forget_words(self._names.rename(_path(words), _of(words, "to", bytes), again=again))

    def _mkdir(self, words: dict[str, Any]) -> None:
        self._names.mkdir(
            _path(words),
            mode=_of(words, "mode", int, 0o755),
            layout=_layout(words),
            owner=_owner(words),
            key=_of(words, "key", int, 0),
            again=_of(words, "again", bool, False),
        )

    def _rmdir(self, words: dict[str, Any]) -> None:
        self._names.rmdir(_path(words), again=_of(words, "again", bool, False))

    def _attach(self, message: Message) -> dict[str, Any]:
        return record_words(self._names.attach(message.file))

    def _stat(self, message: Message) -> dict[str, Any]:
        record = self._names.stat(_path(_words(message))) if message.payload else self._names.attach(message.file)
        return record_words(record) | {"folder": record.file is None}

    def _readdir(self, message: Message) -> dict[str, Any]:
        words = _words(message)
        entries, more = self._names.readdir(_path(words), _of(words, "after", bytes, b""))
        return {"entries": entries, "more": more}

    def _layout(self, message: Message) -> dict[str, Any]:
        words = _words(message)
        layout = _layout(words)
        if layout is not None:
            self._names.set_layout(_path(words), layout)
        return {"layout": layout_words(layout or self._names.layout(_path(words)))}

    def _setattr(self, message: Message) -> None:
        words = _words(message)
        self._names.set_attributes(
            _path(words) if "path" in words else message.file,
            mode=_number(words, "mode"),
            mtime=_number(words, "mtime"),
            stamp=_of(words, "stamp", int, 0),
            owner=_owner(words),
        )

    def _pending(self, _: Message) -> dict[str, Any]:
        found = []
        for forget in self._names.pending():
            found.append(forget)
            if len(found) == _MOST_REMEMBERED:
                break
        return forget_words(found)

    def _forgotten(self, message: Message) -> None:
        self._names.forgotten(message.file)


def layout_words(layout: Layout) -> list[int]:
    return [layout.count, layout.size, layout.start]


def layout_of(words: Any) -> Layout:
    """The layout that [count, size, start] stand for."""
    try:
        count, size, start = words
        return Layout(count=count, size=size, start=start)
    except (ValueError, TypeError) as error:
        raise BadMessage(f"no layout: {error}") from None


def record_words(record: Record) -> dict[str, Any]:
    layout = layout_words(record.layout)
    words: dict[str, Any] = {"layout": layout, "mode": record.mode, "mtime": record.mtime, "ctime": record.ctime}
    words |= {"uid": record.uid, "gid": record.gid}
    return words if record.file is None else words | {"id": record.file, "stamp": record.stamp}


def forget_words(forget: list[Forget]) -> dict[str, Any]:
    return {"forget": [[file, layout_words(layout)] for file, layout in forget]}


def _words(message: Message) -> dict[str, Any]:
    words = unpacked(message.payload)
    if not isinstance(words, dict):
        raise BadMessage("expected words with names")
    return words


def _path(words: dict[str, Any]) -> bytes:
    path: bytes = _of(words, "path", bytes)
    return path


def _layout(words: dict[str, Any]) -> Layout | None:
    return None if words.get("layout") is None else layout_of(words["layout"])


def _number(words: dict[str, Any], name: str) -> int | None:
    return None if words.get(name) is None else int(_of(words, name, int))


def _owner(words: dict[str, Any]) -> Owner:
    uid, gid = _number(words, "uid"), _number(words, "gid")
    if not all(number is None or 0 <= number < _NO_USER for number in (uid, gid)):
        raise BadMessage("no such user or group")
    return uid, gid


def _of(words: dict[str, Any], name: str, kind: type, default: Any = None) -> Any:
    value = words.get(name, default)
    if type(value) is not kind:
        raise BadMessage(f"{name} must be {_KINDS[kind]}")
    return value
