"""Every kind of event reads well, also when it comes from the journal."""

from __future__ import annotations

import pytest

from forebay.decide.grants import events as ev
from forebay.decide.grants.codec import from_line, to_line
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import DiskSpec, Stray, Trial
from forebay.model.grant import Ask, State
from forebay.model.staging import Progress, Staging, StagingState, Step

ID = "3f" * 16
ASK = Ask(grant=ID, key="k", uid=1000, gid=1000, size=5 * 10**11, seconds=7200.0, job="17", wants={"tier": "nvme"})
STRAY = Stray(name=f"{ID}.0", disk="n/d", size=1)
STAGING = Staging(
    key="k", way="in", pairs=(("/home/a", "b"),), limit=60.0, begun=1.0, moved=1.0, nodes={"n": Progress()}
)
DISK = DiskSpec(name="d", capacity=10**12, write_bandwidth=1e9, read_bandwidth=1e9)
HAPPENED: list[tuple[ev.Event, str]] = [
    (ev.Asked(at=1.0, ask=ASK), "uid 1000 requests 500.00 GB with tier nvme for 2 h for job 17"),
    (ev.Queued(at=1.0, grant=ID, because="no room", until=2.0, tried=0), "waits: no room"),
    (ev.Queued(at=1.0, grant=ID, because="no room", until=2.0, tried=3), "waits (retried 3 times): no room"),
    (ev.Granted(at=1.0, grant=ID, because="n/d by first-fit", start=1, end=2, parts=(("n/d", 5),), policy="first-fit"),
     "granted: n/d by first-fit"),
    (ev.TurnedDown(at=1.0, grant=ID, because="too large"), "refused: too large"),
    (ev.Making(at=1.0, grant=ID), "agents make its volumes"),
    (ev.Ready(at=1.0, grant=ID), "ready"),
    (ev.InUse(at=1.0, grant=ID), "in use"),
    (ev.Declined(at=1.0, grant=ID, what="extend", because="others come"), "cannot extend: others come"),
    (ev.Releasing(at=1.0, grant=ID, outcome=State.RELEASED, because="of age"), "being released: of age"),
    (ev.Ended(at=1.0, grant=ID, state=State.EXPIRED, because="its time is over"), "expired: its time is over"),
    (ev.Ended(at=1.0, grant=ID, state=State.RELEASED, because="released by its owner"), "released by its owner"),
    (ev.StagingBegun(at=1.0, grant=ID, staging=STAGING), "stage-in begins on 1 node: /home/a to b"),
    (ev.StagingMoved(at=1.0, grant=ID, node="n", progress=Progress(step=Step.COPIED, files=7)),
     "node n: copied, 7 files"),
    (ev.StagingEnded(at=1.0, grant=ID, state=StagingState.DONE, because="", said="staged in: 7 files, 1.00 MB"),
     "staged in: 7 files, 1.00 MB"),
    (ev.Told(at=1.0, grant=ID, uid=1, words="n is silent"), "for its owner: n is silent"),
    (ev.VolumeMade(at=1.0, volume=f"{ID}.0", path="/fast/x"), f"volume {ID}.0 is made: /fast/x"),
    (ev.VolumeMade(at=1.0, volume=f"{ID}.0"), f"volume {ID}.0 is made"),
    (ev.VolumeHalf(at=1.0, volume=f"{ID}.0", because="not mounted"), f"volume {ID}.0 is incomplete: not mounted"),
    (ev.VolumeGone(at=1.0, volume=f"{ID}.0"), f"volume {ID}.0 is removed"),
    (ev.VolumeLost(at=1.0, volume=f"{ID}.0", because="fire"), f"volume {ID}.0 is lost: fire"),
    (ev.VolumeMoved(at=1.0, volume=f"{ID}.0", disk="n/e", because="read-only"),
     f"volume {ID}.0 moves to n/e; it could not be made on the planned disk: read-only"),
    (ev.VolumeStuck(at=1.0, volume=f"{ID}.0", because="busy"), f"volume {ID}.0 cannot be removed: busy"),
    (ev.Strayed(at=1.0, stray=STRAY), f"volume {ID}.0 on n/d belongs to no grant"),
    (ev.StrayGone(at=1.0, stray=STRAY), f"volume {ID}.0 on n/d, which belonged to no grant, is removed"),
    (ev.NodeRegistered(at=1.0, node="n", network_bandwidth=1e9), "node n registers"),
    (ev.DiskRegistered(at=1.0, node="n", disk=DISK), "node n has disk d of 1.00 TB"),
    (ev.DiskVanished(at=1.0, disk="n/d", because="pulled out"), "disk n/d is gone: pulled out"),
    (ev.DiskUnseen(at=1.0, disk="n/d", because="not mounted"),
     "the agent cannot access disk n/d, which gets no new grants: not mounted"),
    (ev.DiskFailed(at=1.0, disk="n/d", because="read-only", failures=2),
     "disk n/d: cannot make a volume (failures in a row: 2): read-only"),
    (ev.DiskSuspended(at=1.0, disk="n/d", because="read-only", trial=Trial(size=1, uid=1, gid=1), due=31.0),
     "disk n/d is suspended and gets no new grants: read-only"),
    (ev.DiskTried(at=1.0, disk="n/d", volume=f"{ID}.0", size=1),
     f"disk n/d is tested with volume {ID}.0, which nobody uses"),
    (ev.DiskResumed(at=1.0, disk="n/d", because="it works"), "disk n/d gets new grants again: it works"),
    (ev.NodeSilent(at=1.0, node="n"), "node n does not answer and gets no new grants"),
    (ev.NodeAnswered(at=1.0, node="n"), "node n answers again"),
    (ev.Reported(at=1.0, node="n", report=3), "node n reports its volumes"),
    (ev.NodeDoubted(at=1.0, node="n", because="a copy"),
     "everything on node n is kept until an administrator decides: a copy"),
    (ev.NodeTrusted(at=1.0, node="n"), "volumes that belong to no grant on node n may be removed"),
    (ev.LetGo(at=1.0, grant=ID), f"kept volumes of grant {ID} may be removed"),
    (ev.Drained(at=1.0, what="n"), "n is drained and gets no new grants"),
    (ev.Undrained(at=1.0, what="n"), "n gets new grants again"),
    (ev.PolicyChanged(at=1.0, policy="worst-fit"), "policy worst-fit decides from now on"),
    (ev.Swept(at=1.0, order=0), "the queue was tried"),
    (ev.Forgotten(at=1.0, grants=(ID,)), "1 ended grant no longer listed"),
]  # fmt: skip


def said(event: ev.Event) -> str:
    """By way of the journal."""
    return from_line(to_line(event)).sentence()


@pytest.mark.parametrize(("event", "words"), HAPPENED)
def test_an_event_is_said_in_words(event: ev.Event, words: str) -> None:
    assert said(event) == words


def test_an_extension_tells_the_new_end_and_rules_all_of_them() -> None:
    assert said(ev.Extended(at=1.0, grant=ID, end=7201.0)) == "extended; it ends in 2 h"
    assert "tries 5" in said(ev.RulesChanged(at=1.0, rules=GrantRules(tries=5)))


def test_none_is_left_out() -> None:
    told = {type(event) for event, _ in HAPPENED} | {ev.Extended, ev.RulesChanged}
    assert told == set(ev.EVENTS.values())
