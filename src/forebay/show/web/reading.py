"""What `forebay show` can show: a study's folder, or a journal in a database or a file."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forebay.act.control.documents import GrantDocument, StoryLine
from forebay.act.control.page import views as page_views
from forebay.act.control.page.views import Which
from forebay.act.control.service.grant_story import tell_story
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.views import grant_document
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.control import Control
from forebay.history.store.journal import Entry, LogLine
from forebay.model.errors import BadInput
from forebay.show.web.server import Source

Asked = Mapping[str, str]
Logs = Callable[[str], list[LogLine]]
_EVERY = 5000  # events, at least, between states that are kept
_MOST_KEPT = 32


class Journal:
    """`entries` from number 1 on; `logs` tells what agents said of a grant; `kept` are states at some numbers."""

    def __init__(self, name: str, entries: Sequence[Entry], logs: Logs, kept: Sequence[tuple[int, str]] = ()) -> None:
        if not entries:
            raise BadInput(name, "there is no journal in it; `forebay serve` writes one")
        self._name, self._entries, self._logs = name, entries, logs
        self._kept = dict(kept)
        self._step = max(_EVERY, len(entries) // _MOST_KEPT)
        self._live = Live()

    @property
    def last(self) -> int:
        return self._entries[-1].number

    def at(self, number: int) -> Live:
        """The state after an event."""
        number = min(max(number, 1), self.last)
        live = self._nearest(number)
        for entry in self._entries[live.last : number]:
            live.follow([entry])
            if live.last % self._step == 0 and live.last not in self._kept:
                self._kept[live.last] = json.dumps({"control": live.control.document(), "changed": live.changed})
        self._live = live
        return live

    def _nearest(self, number: int) -> Live:
        """The latest known state that is not later."""
        numbers = sorted(self._kept)
        before = numbers[bisect_right(numbers, number) - 1] if numbers and numbers[0] <= number else 0
        if before <= self._live.last <= number:
            return self._live
        if before == 0:
            return Live()
        state = json.loads(self._kept[before])
        return Live(Control.from_document(state["control"], f"state {before}"), before, dict(state["changed"]))

    # What the page asks for

    def answer(self, path: str, query: Asked) -> Mapping[str, object] | None:
        """The document at a path of the service; None if there is none."""
        view = {
            "/v1/page": self._snapshot,
            "/v1/page/grants": self._listed,
            "/v1/page/timeline": self._timeline,
            "/v1/page/decisions": self._decisions,
        }.get(path)
        if view is not None:
            return view(query)
        grant, story = _grant_in(path)
        if not grant:
            return None
        return {"story": self._story(grant, _number(query, self.last))} if story else self._grant(grant, query)

    def _snapshot(self, query: Asked) -> Mapping[str, object]:
        live = self.at(_number(query, self.last))
        at = self._entries[live.last - 1].at
        reading = {"kind": "journal", "name": self._name, "number": live.last, "last": self.last, "at": at}
        return {**page_views.snapshot(live, None), "boot": "", "reading": reading}

    def _listed(self, query: Asked) -> Mapping[str, object]:
        which = Which(
            state=query.get("state", ""), owner=query.get("owner", ""), disk=query.get("disk", ""),
            text=query.get("text", ""), offset=_count(query, "offset", 0), limit=_count(query, "limit", 200),
        )  # fmt: skip
        return page_views.list_grants(self.at(_number(query, self.last)), None, which)

    def _timeline(self, query: Asked) -> Mapping[str, object]:
        begin, end = (float(query.get(name, 0)) for name in ("begin", "end"))
        return page_views.timeline(self.at(_number(query, self.last)), None, begin, end)

    def _decisions(self, query: Asked) -> Mapping[str, object]:
        number, limit = _number(query, self.last), _count(query, "limit", 100)
        before = min(_count(query, "before", 0) or number + 1, number + 1)
        entries = (self._entries[at] for at in range(before - 2, -1, -1))
        lines = page_views.feed(self.at(number), entries, None, limit)
        return {"lines": lines, "next": lines[-1]["n"] if len(lines) == limit else 0}

    def _grant(self, grant: str, query: Asked) -> GrantDocument:
        live = self.at(_number(query, self.last))
        return grant_document(live, live.control.grant(grant))

    def _story(self, grant: str, number: int) -> list[StoryLine]:
        until = self._entries[number - 1].at
        entries = (entry for entry in self._entries[:number] if entry.grant == grant)
        return tell_story(entries, (line for line in self._logs(grant) if line.at <= until))


def entries_of_lines(lines: Sequence[str], where: str) -> list[Entry]:
    """The entries of an exported journal, one event a line."""
    entries = []
    for number, line in enumerate((line for line in lines if line.strip()), 1):
        event = from_line(line, f"{where}:{number}")
        entries.append(Entry(number, event.at, event.grant_id, line))
    return entries


def _grant_in(path: str) -> tuple[str, bool]:
    """
    >>> _grant_in("/v1/grants/3f/story"), _grant_in("/v1/nodes")
    (('3f', True), ('', False))
    """
    parts = path.split("/")
    if parts[:3] != ["", "v1", "grants"] or len(parts) not in (4, 5) or parts[4:] not in ([], ["story"]):
        return "", False
    return parts[3], len(parts) == 5


def _number(query: Asked, last: int) -> int:
    return min(last, _count(query, "number", last) or last)


def _count(query: Asked, name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadInput(name, f"must be a whole number, not {text[:40]!r}")
    return int(text)


Document = dict[str, Any]
_KINDS = (".png", ".html", ".csv", ".json", ".parquet", ".pdf")
_FIGURE = re.compile(r"figure-(\w+?)-(.+)\.png")


class Study:
    """The folder that `forebay study` wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._told = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise BadInput(str(folder), "has no results.json of a study") from None
        if not isinstance(self._told, dict):
            raise BadInput(str(folder / "results.json"), "is not of a study")

    def answer(self, path: str, _: Mapping[str, str]) -> Document | None:
        return {"reading": self._reading()} if path == "/v1/page" else None

    def _reading(self) -> Document:
        files = sorted(path.name for path in self._folder.iterdir() if path.suffix in _KINDS)
        figures = [{"file": name, "title": title(name)} for name in files if _FIGURE.fullmatch(name)]
        return {
            "kind": "study",
            "name": self._folder.absolute().name,
            "study": str(self._told.get("study", "")),
            "conclusions": self._told.get("conclusions") or [],
            "settings": self._told.get("settings") or {},
            "figures": figures,
            "files": files,
        }

    def file(self, name: str) -> Path | None:
        """One of the study's own files."""
        path = self._folder / name
        return path if "/" not in name and path.suffix in _KINDS and path.is_file() else None


def title(name: str) -> str:
    """
    >>> title("figure-05-mean-io-slowdown.png")
    'Figure 5: mean io slowdown'
    """
    match = _FIGURE.fullmatch(name)
    assert match is not None
    return f"Figure {match[1].lstrip('0') or '0'}: {match[2].replace('-', ' ')}"


_SQLITE = b"SQLite format 3\0"


@contextmanager
def reading(what: str) -> Iterator[Source]:
    """The source at a path or a database's address, for as long as it is shown."""
    path = Path(what)
    if "://" in what:
        with _database(what) as journal:
            yield journal
    elif path.is_dir():
        with _folder(path) as source:
            yield source
    elif not path.is_file():
        raise BadInput(what, "there is no such file or folder")
    elif _is_sqlite(path):
        with _database(what) as journal:
            yield journal
    else:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield Journal(path.name, entries_of_lines(lines, str(path)), lambda _: [])


@contextmanager
def _folder(path: Path) -> Iterator[Source]:
    if (path / "results.json").is_file():
        yield Study(path)
        return
    databases = [each for each in sorted(path.iterdir()) if each.is_file() and _is_sqlite(each)]
    if len(databases) != 1:
        raise BadInput(str(path), "is neither a study's folder nor one with a service's database in it")
    with _database(str(databases[0])) as journal:
        yield journal


@contextmanager
def _database(where: str) -> Iterator[Journal]:
    from forebay.history.store import open_store
    from forebay.history.store.journal import checkpoints_before, list_log_lines, read_after

    with open_store(where, create=False) as store:

        def logs(grant: str) -> list[LogLine]:
            with store.reading() as connection:
                return list_log_lines(connection, grant)

        with store.reading() as connection:
            entries = list(read_after(connection, 0))
            kept = list(checkpoints_before(connection, len(entries)))
        yield Journal(Path(store.where).name, entries, logs, kept)


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == _SQLITE
