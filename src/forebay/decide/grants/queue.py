"""The queue of requests: when each is tried again, and in which order, and what becomes of it then."""

from typing import Any

from forebay.decide.grants import events as ev
from forebay.decide.grants.deadlines import begin_grant
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.placement import place_request
from forebay.model.decision import Later
from forebay.model.grant import Ask, Grant, State
from forebay.model.units import format_duration

_TRIES_AT_ONCE = 200  # more wait for the next tick
_SWEPT_AT_ONCE = 16


def attempt_grant(draft: Draft, grant: Grant, *, counts: bool = True) -> bool:
    """Try to grant a request; returns whether it was granted. Only an attempt that `counts` uses up a try."""
    tables, rules = draft.tables, draft.tables.rules
    judgement = place_request(tables, grant.ask, draft.now, grant.avoids)
    refusal, parts = judgement.refusal, judgement.parts
    about: dict[str, Any] = {"at": draft.now, "grant": grant.id, "turned": judgement.turned}
    if refusal is None:
        policy = tables.facts.policy
        because = f"{parts[0][0]} by {policy}" if len(parts) == 1 else f"{len(parts)} parts by {policy}"
        about |= {"parts": parts, "start": judgement.start, "end": judgement.end}
        draft.emit(ev.Granted(**about, because=because, policy=policy, first=grant.first))
        begin_grant(draft, tables.grants[grant.id])
        return True
    about |= {"because": refusal.because, "reason": refusal.reason}
    if isinstance(refusal, Later):
        if not counts:
            return False
        tried = grant.tried + 1 if grant.state is State.QUEUED else 0
        if tried < rules.tries:
            about |= {"first": grant.first, "avoids": grant.avoids}
            draft.emit(ev.Queued(**about, until=refusal.until, tried=tried, expected=judgement.expected))
            return False
        if rules.tries:
            tries = "1 try" if rules.tries == 1 else f"{rules.tries} tries, {format_duration(rules.interval)} apart"
            about["because"] = f"not granted in {tries}: {refusal.because}"
    draft.emit(ev.TurnedDown(**about))
    return False


def retry_requests(draft: Draft) -> None:
    tables = draft.tables
    late = tables.tries.after(draft.now + tables.rules.interval)  # the clock was set back, or the interval changed
    for name in [*tables.tries.due(draft.now), *late][:_TRIES_AT_ONCE]:
        attempt_grant(draft, tables.grants[name])


def sweep_queue(draft: Draft, *, afresh: bool) -> None:
    """Try the queue in order after space came free, a few requests at a time; not `afresh` continues the last sweep."""
    tables = draft.tables
    hopeless: list[Ask] = []
    swept, tried = 0, 0
    for name in tables.queue.after(0 if afresh else tables.facts.swept):
        grant = tables.grants[name]
        if any(_is_no_easier(grant.ask, other) for other in hopeless):
            continue
        if tried == _SWEPT_AT_ONCE:
            swept = grant.order - 1
            break
        tried += 1
        if not attempt_grant(draft, grant, counts=False) and not grant.avoids:  # others may use its failed disks
            hopeless.append(grant.ask)
    if tables.facts.swept != swept:
        draft.emit(ev.Swept(at=draft.now, order=swept))


def _is_no_easier(ask: Ask, other: Ask) -> bool:
    """Whether `ask` cannot get space if `other` cannot."""
    same = (ask.start, ask.wants) == (other.start, other.wants)
    return same and ask.size >= other.size and ask.seconds >= other.seconds
