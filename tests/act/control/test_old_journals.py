"""A store that an earlier version wrote opens, leads to the same state, is replayed alike, and can be shown."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.service.live_documents import story_of
from forebay.act.control.service.live_state import load
from forebay.decide.grants.codec import from_line, to_line
from forebay.decide.grants.control import Control
from forebay.history.store import open_store
from forebay.history.store.journal import Entry, checkpoints_before, list_log_lines, read_after
from forebay.show.web.sources import Journal
from forebay.simulate.storage.journal_replay import replay_journal
from support.control import running
from support.documents import read_page
from support.grants import digest_of, fold

DATA = Path(__file__).parents[2] / "data" / "control"


class Old:
    """A store of an earlier version in a folder, and what that version made of it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = folder / "journal.db"
        with closing(sqlite3.connect(self.path)) as database:
            database.executescript(gzip.decompress((DATA / f"{name}.sql.gz").read_bytes()).decode())
        self.expected = json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
        with open_store(str(self.path)) as store, store.open_reader() as connection:
            self.entries: list[Entry] = list(read_after(connection, 0))
            self.kept = list(checkpoints_before(connection, len(self.entries)))


@pytest.fixture(params=["commands", "faults"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    return Old(request.param, tmp_path)


def test_the_store_opens_with_the_same_state_and_counts(old: Old) -> None:
    with open_store(str(old.path)) as store:
        live = load(store)
    assert live.last == old.expected["last"]
    assert live.control.document() == old.expected["state"]
    assert digest_of(live.control) == old.expected["digest"]
    assert _by_kind(live.counted) == _by_kind(old.expected["counted"])


def _by_kind(counted: dict[str, int]) -> dict[str, int]:
    """Refusals since the last kept state count as others: that version gave no codes."""
    totals: Counter[str] = Counter()
    for name, count in counted.items():
        totals["TurnedDown" if name.startswith("TurnedDown") else name] += count
    return totals


def test_the_events_alone_and_each_kept_state_lead_to_the_same_state(old: Old) -> None:
    events = [from_line(entry.line) for entry in old.entries]
    assert digest_of(fold(events)) == old.expected["digest"]
    assert len(old.kept) == 2
    for number, text in old.kept:
        control = Control.from_document(json.loads(text)["control"])
        assert digest_of(control) == digest_of(fold(events[:number]))
        for event in events[number:]:
            control.apply(event)
        assert digest_of(control) == old.expected["digest"]


def test_every_line_is_written_again_as_it_was(old: Old) -> None:
    assert [to_line(from_line(entry.line)) for entry in old.entries] == [entry.line for entry in old.entries]


def _decided(side: dict[str, Any]) -> dict[str, Any]:
    """Without its sentences."""
    return {name: value for name, value in side.items() if name != "because"}


@pytest.mark.parametrize("policy", ["", "worst-fit", "random"])
def test_a_replay_decides_as_it_did(old: Old, policy: str) -> None:
    comparison = replay_journal([from_line(entry.line) for entry in old.entries], policy or None)
    expected = old.expected["replay"][policy]
    for name in ("then", "now"):
        side = getattr(comparison, name)
        assert {field: getattr(side, field) for field in expected[name]} == expected[name]
    assert len(comparison.rows) == expected["requests"]
    for row, known in zip(comparison.changed_rows, expected["changed"], strict=True):
        assert row.ask.grant == known["grant"]
        for now, then in ((row.then, known["then"]), (row.now, known["now"])):
            made = {"verdict": now.verdict, "waited": now.waited, "disks": list(now.disks)}
            assert made == _decided(then)


def test_every_grant_has_its_story_and_the_page_shows_all(old: Old) -> None:
    grants = {entry.grant for entry in old.entries if entry.grant}
    with open_store(str(old.path)) as store, store.open_reader() as connection:
        for grant in grants:
            story = story_of(connection, grant)
            assert len(story) >= sum(entry.grant == grant for entry in old.entries)
            assert all(line["text"] for line in story)
        logs = {grant: list_log_lines(connection, grant) for grant in grants}
    page = Journal("old", old.entries, lambda grant: logs.get(grant, []), old.kept)
    for number in (1, page.last // 2, page.last):
        assert read_page(page, "/v1/page", {"number": str(number)})["number"] == number
    assert all(line["text"] for line in read_page(page, "/v1/page/decisions", {"limit": "1000"})["lines"])
    listed = read_page(page, "/v1/page/grants", {"limit": "1000"})
    assert listed["total"] == len(old.expected["state"]["grants"])


def test_a_service_goes_on_with_it(old: Old, tmp_path: Path) -> None:
    with running(tmp_path) as service:
        answer = service.call("GET", "/v1/journal?limit=1000")
        events = [each["event"] for each in answer["events"][: len(old.entries)]]
        assert events == [json.loads(entry.line) for entry in old.entries]
        assert service.ask("1 MB", 600, key="new")["key"] == "new"
