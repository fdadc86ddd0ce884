"""The control service without a clock, a disk or a network: commands in, events and actions out."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any, get_type_hints

from forebay.decide.grants import events as ev
from forebay.decide.grants.action import Action
from forebay.decide.grants.codec import plain, read
from forebay.decide.grants.commands import Command
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import LiveDisk
from forebay.decide.grants.rules import GrantRules
from forebay.decide.grants.schedule import let_time_pass, sweep_queue
from forebay.decide.grants.state import KEPT, Facts, Tables, request_key
from forebay.model.errors import BadInput
from forebay.model.grant import EXISTING, HELD, ON_DISK, Grant, State, Volume, VolumeState, node_of


class Control:
    """The state, and who decides about it."""

    def __init__(self) -> None:
        self._tables = Tables()

    def handle(self, command: Command, now: float) -> list[ev.Event]:
        """What a command leads to at this time (seconds since 1970). It changes nothing: `apply` does.

        A refusal that is worth a line in the journal is an event; a command that makes no sense, or that the
        caller may not give, is an error.
        """
        return self._decide(command, now, keep=False)

    def do(self, command: Command, now: float) -> list[ev.Event]:
        """`handle`, and `apply` of all that it found, in a third of the time: what was tried out stays.

        An error leaves the state as it was.
        """
        return self._decide(command, now, keep=True)

    def _decide(self, command: Command, now: float, *, keep: bool) -> list[ev.Event]:
        if not math.isfinite(now):
            raise BadInput("now", f"must be a time, not {now}")
        draft = Draft(self._tables, float(now))
        with self._tables.undo_log.trial(keep=keep):
            let_time_pass(draft)
            command.decide(draft)
            if draft.frees_space:
                sweep_queue(draft, afresh=True)
        return draft.events

    def apply(self, event: ev.Event) -> None:
        """Change the state by one event."""
        ev.apply_event(self._tables, event)

    def actions(self, node: str) -> list[Action]:
        """All that the node's agent still has to do; none in shadow."""
        if self.rules.shadow:
            return []
        return [self._action(name) for name in self._tables.to_do(node)]

    def _action(self, name: str) -> Action:
        tables = self._tables
        if name in tables.strays:
            stray = tables.strays[name]
            return Action(kind="release", volume=stray.name, disk=_own_name(stray.disk), size=stray.size)
        if name in tables.disks:
            return _trial_action(tables.disks[name])
        volume = tables.volumes[name]
        grant = tables.grants[volume.grant]
        ask = grant.ask
        return Action(
            kind="release" if grant.state is State.RELEASING else "make",
            volume=name,
            disk=_own_name(volume.disk),
            size=volume.size,
            uid=ask.uid,
            gid=ask.gid,
            mode=ask.mode,
            ceiling=ask.ceiling / grant.volumes,
            expose=ask.expose,
            hosts=ask.hosts,
        )

    @property
    def rules(self) -> GrantRules:
        return self._tables.rules

    @property
    def policy(self) -> str:
        return self._tables.facts.policy

    @property
    def tables(self) -> Tables:
        """To look at, not to change."""
        return self._tables

    def grant(self, name: str) -> Grant:
        return self._tables.find_grant(name)

    def by_key(self, uid: int, key: str) -> Grant | None:
        """The grant that a user asked for with this key."""
        name = self._tables.keys.get(request_key(uid, key))
        return None if name is None else self._tables.grants[name]

    def volumes(self, grant: str) -> list[Volume]:
        return self._tables.volumes_of(self.grant(grant))

    def position(self, grant: str) -> int:
        """Its place in the queue, from 1; 0 if it is not in the queue."""
        queued = self.grant(grant)
        return self._tables.queue.rank(queued.order, grant) + 1 if queued.state is State.QUEUED else 0

    def marks(self, name: str) -> list[str]:
        """What the owner of a grant should know now, as sentences."""
        grant, tables, marks = self.grant(name), self._tables, []
        for volume in tables.volumes_of(grant) if grant.state in HELD else ():
            if volume.state is VolumeState.LOST:
                marks.append(f"volume {volume.name} is lost: {volume.because}")
            elif volume.state is VolumeState.MAKING and volume.because:
                marks.append(f"volume {volume.name} is being repaired: {volume.because}")
            if volume.state in ON_DISK and grant.state is State.RELEASING and tables.is_kept(volume.node, grant):
                marks.append(f"volume {volume.name} is kept until an administrator decides: {grant.because}")
            if tables.nodes[volume.node].silent:
                marks.append(f"node {volume.node} does not answer")
            if tables.disks[volume.disk].unseen:
                marks.append(f"the agent cannot access disk {volume.disk}: {tables.disks[volume.disk].unseen}")
        return list(dict.fromkeys(marks))

    def next_due(self, now: float) -> float | None:
        """When something happens by itself, after what happens at `now`: the time for a `Tick`; `now` if there is more.

        What was due earlier and still waits for something else waits for that, not for a time.
        """
        tables = self._tables
        if tables.facts.swept or tables.tries.due(now) or tables.trials.due(now):
            return now
        times = [agenda.next(now) for agenda in (tables.ends, tables.starts, tables.tries, tables.trials)]
        return min((time for time in times if time is not None), default=None)

    def used(self) -> dict[str, int]:
        """Bytes that exist on each disk, or are being made or removed there."""
        totals = dict.fromkeys(self._tables.disks, 0)
        for name, hold in self._tables.space.holds.items():
            grant = self._tables.grants.get(name.partition(".")[0])
            if grant is None or grant.state in EXISTING:
                totals[hold.disk] += hold.size
        return totals

    def document(self) -> dict[str, Any]:
        """The whole state as a document that can be kept."""
        return {table: plain(rows) for table, rows in self._tables.rows().items()}

    @classmethod
    def from_document(cls, document: dict[str, Any], where: str = "state") -> Control:
        """The state that a document was made of."""
        control = cls()
        kinds = get_type_hints(Facts)
        facts = {
            name: read(kinds[name], value, f"{where}: facts.{name}")
            for name, value in document.get("facts", {}).items()
        }
        control._tables.facts = Facts(**facts)
        for name in KEPT:
            table = getattr(control._tables, name)
            for key, value in document.get(name, {}).items():
                table.set(key, read(table.kind, value, f"{where}: {name}.{key}"))
        return control

    def digest(self) -> str:
        """Tells one state from another."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def fold(events: Iterable[ev.Event]) -> Control:
    """The state after all of these events."""
    control = Control()
    for event in events:
        control.apply(event)
    return control


def _own_name(disk: str) -> str:
    return disk[len(node_of(disk)) + 1 :]


def _trial_action(disk: LiveDisk) -> Action:
    """Make a volume on a suspended disk, to see whether it works again."""
    suspension = disk.suspension
    assert suspension is not None
    trial = suspension.trial
    return Action(
        kind="make", volume=suspension.volume, disk=disk.spec.name, size=suspension.held, uid=trial.uid, gid=trial.gid,
        mode=trial.mode, expose=trial.expose, hosts=trial.hosts,
    )  # fmt: skip
