"""The sources of `forebay show`: the folder of a study, or a journal in a database or a file."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from forebay.act.control.page import views as page_views
from forebay.act.control.service.live_documents import grant_document, tell_story
from forebay.act.control.service.live_state import Live
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.control import Control
from forebay.history.store.database import is_sqlite_file
from forebay.history.store.journal import Entry, LogLine
from forebay.model.errors import BadInput
from forebay.show.output import Document
from forebay.show.web.server import Source

Query = Mapping[str, str]
Logs = Callable[[str], list[LogLine]]
_EVERY = 5000  # the fewest events between two states in memory
_MOST_KEPT = 32


class Journal:
    """A journal: `entries` from number 1 on, `logs` of agents about a grant, and `kept` states at some numbers."""

    def __init__(self, name: str, entries: Sequence[Entry], logs: Logs, kept: Sequence[tuple[int, str]] = ()) -> None:
        if not entries:
            raise BadInput(name, "contains no journal; `forebay serve` writes one")
        self._name, self._entries, self._logs = name, entries, logs
        self._kept = dict(kept)
        self._step = max(_EVERY, len(entries) // _MOST_KEPT)
        self._live = Live()
        self.last = entries[-1].number

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
        """The latest state in memory at or before a number."""
        before = max((known for known in self._kept if known <= number), default=0)
        if before <= self._live.last <= number:
            return self._live
        if before == 0:
            return Live()
        state = json.loads(self._kept[before])
        return Live(Control.from_document(state["control"], f"state {before}"), before, dict(state["changed"]))

    def answer(self, path: str, query: Query) -> Mapping[str, object] | None:
        """The document at a path of the service; None for an unknown path."""
        number = min(self.last, _count(query, "number", self.last) or self.last)
        match path.split("/")[1:]:
            case ["v1", "page"]:
                live = self.at(number)
                at = self._entries[live.last - 1].at
                reading = {"kind": "journal", "name": self._name, "number": live.last, "last": self.last, "at": at}
                return {**page_views.snapshot(live, None), "boot": "", "reading": reading}
            case ["v1", "page", "grants"]:
                texts = {name: query.get(name, "") for name in ("state", "owner", "disk", "text")}
                offset, limit = _count(query, "offset", 0), _count(query, "limit", 200)
                return page_views.list_grants(self.at(number), None, **texts, offset=offset, limit=limit)
            case ["v1", "page", "timeline"]:
                begin, end = (float(query.get(name, 0)) for name in ("begin", "end"))
                return page_views.timeline(self.at(number), None, begin, end)
            case ["v1", "page", "decisions"]:
                return self._decisions(number, _count(query, "before", 0), _count(query, "limit", 100))
            case ["v1", "grants", grant] if grant:
                live = self.at(number)
                return grant_document(live, live.control.grant(grant))
            case ["v1", "grants", grant, "story"]:
                until = self._entries[number - 1].at
                entries = (entry for entry in self._entries[:number] if entry.grant == grant)
                return {"story": tell_story(entries, (line for line in self._logs(grant) if line.at <= until))}
        return None

    def _decisions(self, number: int, before: int, limit: int) -> Mapping[str, object]:
        before = min(before or number + 1, number + 1)
        entries = (self._entries[at] for at in range(before - 2, -1, -1))
        lines = page_views.feed(self.at(number), entries, None, limit)
        return {"lines": lines, "next": lines[-1]["n"] if len(lines) == limit else 0}


def entries_of_lines(lines: Sequence[str], where: str) -> list[Entry]:
    """The entries of an exported journal, one event a line."""
    entries = []
    for number, line in enumerate((line for line in lines if line.strip()), 1):
        event = from_line(line, f"{where}:{number}")
        entries.append(Entry(number, event.at, event.grant_id, line))
    return entries


def _count(query: Query, name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadInput(name, f"must be a whole number, not {text[:40]!r}")
    return int(text)


_KINDS = (".png", ".html", ".csv", ".json", ".parquet", ".pdf")
_FIGURE = re.compile(r"figure-(\w+?)-(.+)\.png")


class Study:
    """The folder that `forebay study` wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise BadInput(str(folder), "has no valid results.json; `forebay study` writes one") from None
        if not isinstance(self._results, dict):
            raise BadInput(str(folder / "results.json"), "is not the result of a study; `forebay study` writes one")

    def answer(self, path: str, _: Mapping[str, str]) -> Document | None:
        if path != "/v1/page":
            return None
        files = sorted(path.name for path in self._folder.iterdir() if path.suffix in _KINDS)
        reading = {
            "kind": "study",
            "name": self._folder.absolute().name,
            "study": str(self._results.get("study", "")),
            "conclusions": self._results.get("conclusions") or [],
            "settings": self._results.get("settings") or {},
            "figures": [{"file": name, "title": title(name)} for name in files if _FIGURE.fullmatch(name)],
            "files": files,
        }
        return {"reading": reading}

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


@contextmanager
def open_source(what: str) -> Iterator[Source]:
    """The source at a path or a database's address, open during the block."""
    path = Path(what)
    if "://" not in what and not path.exists():
        raise BadInput(what, "no such file or folder")
    if (path / "results.json").is_file():
        yield Study(path)
        return
    if path.is_dir():
        databases = [each for each in sorted(path.iterdir()) if each.is_file() and is_sqlite_file(each)]
        if len(databases) != 1:
            raise BadInput(str(path), "contains neither a study (results.json) nor exactly one database of a service")
        path = databases[0]
    if "://" in what or is_sqlite_file(path):
        with _open_journal(what if "://" in what else str(path)) as journal:
            yield journal
    else:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield Journal(path.name, entries_of_lines(lines, str(path)), lambda _: [])


@contextmanager
def _open_journal(where: str) -> Iterator[Journal]:
    from forebay.history.store import open_store
    from forebay.history.store.journal import checkpoints_before, list_log_lines, read_after

    with open_store(where, create=False) as store:

        def logs(grant: str) -> list[LogLine]:
            with store.open_reader() as connection:
                return list_log_lines(connection, grant)

        with store.open_reader() as connection:
            entries = list(read_after(connection, 0))
            kept = list(checkpoints_before(connection, len(entries)))
        yield Journal(Path(store.where).name, entries, logs, kept)
