"""Every kind of event can be said."""

from __future__ import annotations

import json

import pytest

from forebay.act.control.service.event_sentences import sentence
from forebay.decide.grants import events as ev
from forebay.decide.grants.codec import to_line
from forebay.decide.grants.machine import DiskSaid, Stray, Trial
from forebay.decide.grants.rules import GrantRules
from forebay.model.grant import Ask, State

ID = "3f" * 16
ASK = Ask(grant=ID, key="k", uid=1000, gid=1000, size=5 * 10**11, seconds=7200.0, job="17", wants={"tier": "nvme"})
STRAY = Stray(name=f"{ID}.0", disk="n/d", size=1)
DISK = DiskSaid(name="d", capacity=10**12, write_bandwidth=1e9, read_bandwidth=1e9)
HAPPENED: list[tuple[ev.Event, str]] = [
    (ev.Asked(at=1.0, ask=ASK), "uid 1000 asks for 500.00 GB with tier nvme for 2 h for job 17"),
    (ev.Queued(at=1.0, grant=ID, because="no room", until=2.0, tried=0), "waits: no room"),
    (ev.Queued(at=1.0, grant=ID, because="no room", until=2.0, tried=3), "waits after 3 more tries: no room"),
    (ev.Granted(at=1.0, grant=ID, because="n/d by first-fit", start=1, end=2, parts=(("n/d", 5),), policy="first-fit"),
     "granted: n/d by first-fit"),
    (ev.TurnedDown(at=1.0, grant=ID, because="too large"), "refused: too large"),
    (ev.Making(at=1.0, grant=ID), "its volumes are to be made"),
    (ev.Ready(at=1.0, grant=ID), "ready"),
    (ev.InUse(at=1.0, grant=ID), "in use"),
    (ev.Declined(at=1.0, grant=ID, what="extend", because="others come"), "not done: extend: others come"),
    (ev.Releasing(at=1.0, grant=ID, outcome=State.RELEASED, because="of age"), "being released: of age"),
    (ev.Ended(at=1.0, grant=ID, state=State.EXPIRED, because="its time is over"), "expired: its time is over"),
    (ev.Ended(at=1.0, grant=ID, state=State.RELEASED, because="released by its owner"), "released by its owner"),
    (ev.Told(at=1.0, grant=ID, uid=1, words="n is silent"), "its owner is to know: n is silent"),
    (ev.VolumeMade(at=1.0, volume=f"{ID}.0", path="/fast/x"), f"volume {ID}.0 is made: /fast/x"),
    (ev.VolumeMade(at=1.0, volume=f"{ID}.0"), f"volume {ID}.0 is made"),
    (ev.VolumeHalf(at=1.0, volume=f"{ID}.0", because="not mounted"), f"volume {ID}.0 is only half there: not mounted"),
    (ev.VolumeGone(at=1.0, volume=f"{ID}.0"), f"volume {ID}.0 is gone"),
    (ev.VolumeLost(at=1.0, volume=f"{ID}.0", because="fire"), f"volume {ID}.0 is lost: fire"),
    (ev.VolumeMoved(at=1.0, volume=f"{ID}.0", disk="n/e", because="read-only"),
     f"volume {ID}.0 is to be made on n/e, as it could not be made where it was to be: read-only"),
    (ev.VolumeStuck(at=1.0, volume=f"{ID}.0", because="busy"), f"volume {ID}.0 can't be removed: busy"),
    (ev.Strayed(at=1.0, stray=STRAY), f"volume {ID}.0 on n/d has no owner"),
    (ev.StrayGone(at=1.0, stray=STRAY), f"volume {ID}.0 on n/d had no owner and is gone"),
    (ev.NodeRegistered(at=1.0, node="n", network_bandwidth=1e9), "node n is there"),
    (ev.DiskRegistered(at=1.0, node="n", disk=DISK), "node n has disk d of 1.00 TB"),
    (ev.DiskVanished(at=1.0, disk="n/d", because="pulled out"), "disk n/d is gone: pulled out"),
    (ev.DiskUnseen(at=1.0, disk="n/d", because="not mounted"),
     "disk n/d can't be looked at, no new grants there: not mounted"),
    (ev.DiskFailed(at=1.0, disk="n/d", because="read-only", failures=2),
     "a volume could not be made on disk n/d (failures in a row: 2): read-only"),
    (ev.DiskSuspended(at=1.0, disk="n/d", because="read-only", trial=Trial(size=1, uid=1, gid=1), due=31.0),
     "disk n/d is suspended, no new grants there: read-only"),
    (ev.DiskTried(at=1.0, disk="n/d", volume=f"{ID}.0", size=1),
     f"disk n/d is tried: volume {ID}.0 is to be made there for nobody"),
    (ev.DiskResumed(at=1.0, disk="n/d", because="it works"), "disk n/d is open for new grants again: it works"),
    (ev.NodeSilent(at=1.0, node="n"), "node n is silent: no new grants there"),
    (ev.NodeAnswered(at=1.0, node="n"), "node n answers again"),
    (ev.Reported(at=1.0, node="n", report=3), "node n told what it has"),
    (ev.NodeDoubted(at=1.0, node="n", because="a copy"), "node n is in doubt, what is on it is kept: a copy"),
    (ev.NodeTrusted(at=1.0, node="n"), "node n is in doubt no more: what nobody owns there may be removed"),
    (ev.LetGo(at=1.0, grant=ID), f"what is kept of grant {ID} may be removed"),
    (ev.Drained(at=1.0, what="n"), "n is drained: no new grants there"),
    (ev.Undrained(at=1.0, what="n"), "n is open for new grants"),
    (ev.PolicyChanged(at=1.0, policy="worst-fit"), "policy worst-fit decides from now on"),
    (ev.Swept(at=1.0, order=0), "the queue was tried"),
    (ev.Forgotten(at=1.0, grants=(ID,)), "1 ended grants are not listed any more"),
]  # fmt: skip


def said(event: ev.Event) -> str:
    """By way of the journal."""
    return sentence(json.loads(to_line(event)))


@pytest.mark.parametrize(("event", "words"), HAPPENED)
def test_an_event_is_said_in_words(event: ev.Event, words: str) -> None:
    assert said(event) == words


def test_an_extension_tells_the_new_end_and_rules_all_of_them() -> None:
    assert said(ev.Extended(at=1.0, grant=ID, end=86_400.0 * 20)).startswith("extended until 1970-01-2")
    assert "tries 5" in said(ev.RulesChanged(at=1.0, rules=GrantRules(tries=5)))


def test_none_is_left_out() -> None:
    told = {type(event) for event, _ in HAPPENED} | {ev.Extended, ev.RulesChanged}
    assert told == set(ev.EVENTS)
