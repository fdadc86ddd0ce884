"""Where one command is decided: events are tried out on the state as they are found, so that the next one sees them."""

from __future__ import annotations

from forebay.decide.grants import events as ev
from forebay.decide.grants.applied import apply_event
from forebay.decide.grants.state import Tables
from forebay.model.grant import ON_DISK, Grant, NoSuchGrant, State, VolumeState

# After these, somebody in the queue may find space.
_FREEING = (
    ev.VolumeGone, ev.VolumeLost, ev.StrayGone, ev.DiskRegistered, ev.DiskResumed, ev.Undrained, ev.NodeAnswered,
    ev.PolicyChanged, ev.RulesChanged,
)  # fmt: skip


class Desk:
    """The state as it would be after the events so far, and the time (seconds since 1970)."""

    def __init__(self, tables: Tables, now: float) -> None:
        self.tables = tables
        self.now = now
        self.events: list[ev.Event] = []
        self.freed = False

    def emit(self, event: ev.Event) -> None:
        apply_event(self.tables, event)
        self.events.append(event)
        self.freed = self.freed or isinstance(event, _FREEING)

    def grant(self, name: str) -> Grant:
        if name not in self.tables.grants:
            raise NoSuchGrant(name)
        return self.tables.grants[name]

    def tell(self, grant: Grant, words: str) -> None:
        self.emit(ev.Told(at=self.now, grant=grant.id, uid=grant.ask.uid, words=words))

    def release(self, grant: Grant, outcome: State, because: str) -> None:
        """Have its volumes removed, if it has any."""
        self.emit(ev.Releasing(at=self.now, grant=grant.id, outcome=outcome, because=because))
        if self.tables.rules.shadow:
            for volume in [v for v in self.tables.volumes_of(grant) if v.state in ON_DISK]:
                self.emit(ev.VolumeGone(at=self.now, volume=volume.name))
        self.finish(grant.id)

    def finish(self, name: str) -> None:
        """The end of a grant that is being released, once none of its volumes is left."""
        grant = self.tables.grants[name]
        volumes = self.tables.volumes_of(grant)
        if grant.state is not State.RELEASING or any(v.state in _LEFT for v in volumes):
            return
        torn = any(volume.state is VolumeState.LOST for volume in volumes)
        state = State.FAILED if torn else grant.outcome
        self.emit(ev.Ended(at=self.now, grant=name, state=state, because=grant.because))
        self.freed = True

    def end(self, grant: Grant, state: State, because: str) -> None:
        """The end of a grant that has nothing on any disk."""
        self.emit(ev.Ended(at=self.now, grant=grant.id, state=state, because=because))
        self.freed = True


_LEFT = (VolumeState.PLANNED, VolumeState.MAKING, VolumeState.MADE)
