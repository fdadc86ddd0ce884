"""Requests: granted, queued or refused; and tried again."""

from __future__ import annotations

from forebay.decide.grants import events as ev
from forebay.decide.grants.applied import key_of
from forebay.decide.grants.commands import Request, only_owners
from forebay.decide.grants.desk import Desk
from forebay.decide.grants.judging import Found, Judgement, judge
from forebay.decide.grants.words import lasting
from forebay.model.decision import Never
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import Ask, Grant, State

_TRIES_AT_ONCE = 200  # more wait for the next tick
_SWEPT_AT_ONCE = 16


def request(desk: Desk, command: Request) -> None:
    """Sent twice, it is granted once."""
    ask = command.ask
    only_owners(command, ask.uid)
    known = desk.tables.keys.get(key_of(ask.uid, ask.key))
    if known is not None:
        if not ask.is_again(desk.tables.grants[known].ask):
            raise Refused(f"the key {ask.key!r} was already used for another request, grant {known}")
        return
    _check(desk, ask)
    if command.caller.role != "administrator":
        _check_count(desk, ask.uid)
    desk.emit(ev.Asked(at=desk.now, ask=ask))
    attempt(desk, desk.tables.grants[ask.grant])


def _check(desk: Desk, ask: Ask) -> None:
    rules = desk.tables.rules
    if ask.grant in desk.tables.grants:
        raise BadInput("grant", f"{ask.grant} is another request's")
    if ask.seconds > rules.longest:
        raise BadInput("seconds", f"a grant may last {lasting(rules.longest)}, not {lasting(ask.seconds)}")
    if ask.start is not None and ask.start > desk.now + rules.ahead:
        raise BadInput("start", f"must be in the next {lasting(rules.ahead)}")


def _check_count(desk: Desk, uid: int) -> None:
    """That one user does not keep all others waiting; who asks on behalf of others must know how many that are."""
    most = desk.tables.rules.most
    if most and desk.tables.live[uid] >= most:
        raise Refused(f"uid {uid} holds or waits for {most:,} grants, as many as a user may; release some first")


def attempt(desk: Desk, grant: Grant, *, counts: bool = True) -> bool:
    """Try to grant; whether it was. An attempt that `counts` is one of the tries that a request has."""
    found = judge(desk.tables, grant.ask, desk.now)
    if isinstance(found.answer, Found):
        _grant(desk, grant, found, found.answer)
        return True
    if isinstance(found.answer, Never):
        desk.emit(ev.TurnedDown(at=desk.now, grant=grant.id, because=found.answer.because, turned=found.turned))
    elif counts:
        _queue(desk, grant, found)
    return False


def _grant(desk: Desk, grant: Grant, found: Judgement, answer: Found) -> None:
    disks = len(answer.parts)
    policy = str(desk.tables.facts["policy"])
    event = ev.Granted(
        at=desk.now,
        grant=grant.id,
        because=f"{answer.parts[0][0]} by {policy}" if disks == 1 else f"{disks} parts by {policy}",
        start=answer.start,
        end=answer.end,
        parts=answer.parts,
        policy=policy,
        turned=found.turned,
    )
    desk.emit(event)
    begin(desk, desk.tables.grants[grant.id])


def _queue(desk: Desk, grant: Grant, found: Judgement) -> None:
    assert not isinstance(found.answer, Found | Never)
    rules, because = desk.tables.rules, found.answer.because
    tried = grant.tried + 1 if grant.state is State.QUEUED else 0
    if tried >= rules.tries:
        if rules.tries:
            tries = "1 try" if rules.tries == 1 else f"{rules.tries} tries, {lasting(rules.interval)} apart"
            because = f"not in {tries}: {because}"
        desk.emit(ev.TurnedDown(at=desk.now, grant=grant.id, because=because, turned=found.turned))
        return
    event = ev.Queued(
        at=desk.now,
        grant=grant.id,
        because=because,
        until=found.answer.until,
        tried=tried,
        expected=found.expected,
        turned=found.turned,
    )
    desk.emit(event)


def begin(desk: Desk, grant: Grant) -> None:
    """Have the volumes made, if it is time and those whose space it is to be are really gone."""
    tables, now = desk.tables, desk.now
    if grant.start > now or any(tables.space.free(v.disk, now, now) < 0 for v in tables.volumes_of(grant)):
        return
    desk.emit(ev.Making(at=now, grant=grant.id))
    if tables.rules.shadow:
        for name in grant.names:
            desk.emit(ev.VolumeMade(at=now, volume=name))
        desk.emit(ev.Ready(at=now, grant=grant.id))


def try_again(desk: Desk) -> None:
    """Those in the queue whose time has come."""
    tables = desk.tables
    late = tables.tries.after(desk.now + tables.rules.interval)  # the clock was put back, or the interval is new
    for name in [*tables.tries.due(desk.now), *late][:_TRIES_AT_ONCE]:
        attempt(desk, tables.grants[name])


def sweep(desk: Desk, *, afresh: bool) -> None:
    """Space came free: the queue is tried in its order, a part at a time; or the sweep that was begun goes on."""
    tables = desk.tables
    swept = 0 if afresh else tables.facts["swept"]
    hopeless: list[Ask] = []
    tried = 0
    for name in tables.queue.after(swept):
        grant = tables.grants[name]
        if any(_is_no_easier(grant.ask, other) for other in hopeless):
            continue
        if tried == _SWEPT_AT_ONCE:
            _note_swept(desk, grant.order - 1)
            return
        tried += 1
        if not attempt(desk, grant, counts=False):
            hopeless.append(grant.ask)
    _note_swept(desk, 0)


def _note_swept(desk: Desk, order: int) -> None:
    if desk.tables.facts["swept"] != order:
        desk.emit(ev.Swept(at=desk.now, order=order))


def _is_no_easier(ask: Ask, other: Ask) -> bool:
    """Whether there will be no space for `ask` either, where there is none for `other`."""
    same = (ask.start, ask.wants) == (other.start, other.wants)
    return same and ask.size >= other.size and ask.seconds >= other.seconds
