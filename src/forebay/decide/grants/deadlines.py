"""What time does: grants begin, end and are forgotten, and stagings that stand still fail."""

from forebay.decide.grants import events as ev
from forebay.decide.grants.draft import Draft
from forebay.model.grant import Grant, State
from forebay.model.reasons import Because, Reason
from forebay.model.staging import Step
from forebay.model.units import format_duration

_FORGOTTEN_AT_ONCE = 1000


def begin_grant(draft: Draft, grant: Grant) -> None:
    """Have the volumes made, once the start has come and the previous volumes have freed the space."""
    tables, now = draft.tables, draft.now
    if grant.start > now or any(tables.space.free(v.disk, now, now) < 0 for v in tables.volumes_of(grant)):
        return
    draft.emit(ev.Making(at=now, grant=grant.id))
    if tables.rules.shadow:
        for name in grant.names:
            draft.emit(ev.VolumeMade(at=now, volume=name))
        draft.emit(ev.Ready(at=now, grant=grant.id))


def let_time_pass(draft: Draft) -> None:
    """End grants whose time is over, and begin grants whose start has come. Every decision comes after this."""
    tables = draft.tables
    for name in tables.ends.due(draft.now):
        grant = tables.grants[name]
        if grant.state is State.GRANTED:
            draft.end(grant, State.EXPIRED, Because(Reason.NO_ROOM, "its space did not become free before it ended"))
        else:
            because = f"its time of {format_duration(grant.end - grant.start)} is over"
            draft.release(grant, State.EXPIRED, Because(Reason.TIME_OVER, because))
    for name in tables.starts.due(draft.now):
        begin_grant(draft, tables.grants[name])
    for name in tables.stalls.due(draft.now):
        end_stalled_staging(draft, tables.grants[name])


def end_stalled_staging(draft: Draft, grant: Grant) -> None:
    assert grant.staging is not None
    late = [node for node, part in grant.staging.nodes.items() if part.step is not Step.SETTLED]
    silent = [node for node in late if draft.tables.nodes[node].silent]
    where = f"node {silent[0]} does not answer" if silent else f"node {late[0]} copied nothing"
    limit = format_duration(grant.staging.limit)
    draft.end_staging(grant, f"nothing moved for {limit}: {where}; see the log of its agent")


def forget_grants(draft: Draft) -> None:
    """Forget grants that ended long ago; the journal still has them."""
    old = draft.tables.past.due(draft.now - draft.tables.rules.remember)[:_FORGOTTEN_AT_ONCE]
    if old:
        draft.emit(ev.Forgotten(at=draft.now, grants=tuple(old)))
