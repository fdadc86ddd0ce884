"""A new kind of event is one class: journal, state, story, page, log and counts need nothing else."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from forebay.act.control.page.views import feed
from forebay.act.control.service.live_documents import tell_story
from forebay.act.control.service.live_state import EventRecord
from forebay.act.control.service.service import log_event, names_to_notify
from forebay.act.log import Log
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.events import EVENTS, NodeEvent, event
from support.page_world import PageWorld


@pytest.fixture
def renumbered() -> Iterator[type[NodeEvent]]:
    @event("node {self.node} counts from {self.report} again", is_warning=True)
    class Renumbered(NodeEvent):
        """A node counts its reports anew."""

        report: int

    yield Renumbered
    del EVENTS["Renumbered"]


def test_an_event_is_one_class(renumbered: type[NodeEvent]) -> None:
    world, log = PageWorld(), io.StringIO()
    world.node("n", "a")
    record = EventRecord.of(world.live.last + 1, renumbered(at=7.0, node="n", report=40))  # type: ignore[call-arg]
    assert from_line(record.entry.line) == record.event
    world.live.apply(record)
    assert world.live.control.tables.nodes["n"].report == 40
    assert world.live.counted["Renumbered"] == 1
    text = "node n counts from 40 again"
    [line] = feed(world.live, [record.entry], None, 10)
    assert (line["kind"], line["text"], line["group"], line["worry"]) == ("Renumbered", text, "machine", True)
    assert [line["text"] for line in tell_story([record.entry], [])] == [text]
    log_event(Log(to=log), record, world.live)
    written = json.loads(log.getvalue())
    assert (written["event"], written["level"], written["node"]) == ("Renumbered", "warning", "n")
    assert "node n" in names_to_notify([record], world.live)
