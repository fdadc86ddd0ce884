"""The events of one command while it is being decided.

Each event is applied to the state at once, so that the next decision sees it.
"""

from dataclasses import replace

from forebay.decide.grants import events as ev
from forebay.decide.grants.state import Tables
from forebay.model.grant import ON_DISK, Grant, State, VolumeState
from forebay.model.reasons import Because
from forebay.model.staging import StagingState

_LEFT = ON_DISK | {VolumeState.PLANNED}


class Draft:
    """The events so far, the state after them, and the time (seconds since 1970)."""

    def __init__(self, tables: Tables, now: float) -> None:
        self.tables = tables
        self.now = now
        self.events: list[ev.Event] = []
        self.frees_space = False

    def emit(self, event: ev.Event) -> None:
        ev.apply_event(self.tables, event)
        self.events.append(event)
        self.frees_space = self.frees_space or event.frees_space

    def notify_owner(self, grant: Grant, text: str) -> None:
        self.emit(ev.Told(at=self.now, grant=grant.id, uid=grant.ask.uid, words=text))

    def release(self, grant: Grant, outcome: State, why: Because) -> None:
        """Have the grant's volumes removed, if it has any."""
        self.end_staging(grant, f"the grant is being released: {why.text}")
        event = ev.Releasing(at=self.now, grant=grant.id, outcome=outcome, because=why.text, reason=why.reason)
        self.emit(event)
        if self.tables.rules.shadow:
            for volume in [v for v in self.tables.volumes_of(grant) if v.state in ON_DISK]:
                self.emit(ev.VolumeGone(at=self.now, volume=volume.name))
        self.finish(grant.id)

    def end_staging(self, grant: Grant, because: str = "") -> None:
        """End the staging of a grant, if one runs; it has failed if there is a reason."""
        staging = grant.staging
        if staging is not None and staging.state is StagingState.RUNNING:
            state = StagingState.FAILED if because else StagingState.DONE
            said = replace(staging, state=state, because=because).describe()
            self.emit(ev.StagingEnded(at=self.now, grant=grant.id, state=state, because=because, said=said))

    def finish(self, name: str) -> None:
        """End a grant that is being released, once all its volumes are gone."""
        grant = self.tables.grants[name]
        volumes = self.tables.volumes_of(grant)
        if grant.state is State.RELEASING and not any(volume.state in _LEFT for volume in volumes):
            is_torn = any(volume.state is VolumeState.LOST for volume in volumes)
            self.end(grant, State.FAILED if is_torn else grant.outcome, Because(grant.reason, grant.because))

    def end(self, grant: Grant, state: State, why: Because) -> None:
        """End a grant that has nothing on any disk."""
        self.emit(ev.Ended(at=self.now, grant=grant.id, state=state, because=why.text, reason=why.reason))
        self.frees_space = True
