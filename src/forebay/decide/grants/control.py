"""The control service without a clock, a disk or a network: commands in, events and actions out."""

from __future__ import annotations

import math
from typing import Any, get_type_hints

from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.codec import plain, read
from forebay.decide.grants.deadlines import let_time_pass
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import Action, CopyAction, DiskSpec
from forebay.decide.grants.queue import sweep_queue
from forebay.decide.grants.state import KEPT, Facts, Tables, request_key
from forebay.model.errors import BadInput
from forebay.model.grant import AVAILABLE, HELD, ON_DISK, Ask, Grant, State, Volume, VolumeState

_WARM_UP = (10, 250, 900, 900, 10)  # sizes: unsplit, split, all free space, more than the free space, unsplit again


class Control:
    """Decides about the state. Callers may read `tables`, but must not change them."""

    def __init__(self) -> None:
        self.tables = Tables()

    def handle(self, command: co.Command, now: float, *, keep: bool = False) -> list[ev.Event]:
        """The events that a command causes at this time (seconds since 1970). Only `apply` changes the state.

        A refusal that the journal records is an event. A command that is invalid, or that the caller may not give,
        raises an error.
        """
        if not math.isfinite(now):
            raise BadInput("now", f"must be seconds since 1970, not {now}")
        draft = Draft(self.tables, float(now))
        with self.tables.undo_log.trial(keep=keep):
            let_time_pass(draft)
            command.decide(draft)
            if draft.frees_space:
                sweep_queue(draft, afresh=True)
        return draft.events

    def do(self, command: co.Command, now: float) -> list[ev.Event]:
        """`handle`, then `apply` to each event, in a third of the time. An error leaves the state unchanged."""
        return self.handle(command, now, keep=True)

    def apply(self, event: ev.Event) -> None:
        ev.apply_event(self.tables, event)

    def actions(self, node: str) -> list[Action]:
        """All actions that the node's agent has not completed; none in shadow mode."""
        return [] if self.rules.shadow else [self._action(name) for name in self.tables.to_do(node)]

    def has_work(self, node: str) -> bool:
        """Whether the node's agent has anything to do."""
        return not self.rules.shadow and bool(self.tables.to_do(node) or self.tables.stagings_on(node))

    def copies(self, node: str) -> list[CopyAction]:
        """What the node's agent must copy now; none in shadow mode. It ends copies that are not among them."""
        names = [] if self.rules.shadow else self.tables.stagings_on(node)
        return [self._copy(self.grant(name), node) for name in names]

    def _copy(self, grant: Grant, node: str) -> CopyAction:
        staging, ask = grant.staging, grant.ask
        assert staging is not None
        nodes = sorted(staging.nodes)  # the journal does not keep their order
        volumes = self.tables.volumes_of(grant)
        here = [volume for volume in volumes if volume.node == node]
        if staging.way == "in" and not ask.is_shared:
            here = volumes[:1]  # its path is $FOREBAY_PATH
        return CopyAction(
            grant=grant.id, key=staging.key, way=staging.way, pairs=staging.pairs, uid=ask.uid, gid=ask.gid,
            volumes=tuple(volume.name for volume in here), number=nodes.index(node), nodes=len(nodes),
            servers=tuple(volume.settings.get("address", "") for volume in volumes) if ask.is_shared else (),
            places=tuple(map(volumes.index, here)) if ask.is_shared else (),
            settle=staging.is_copied, limit=staging.limit,
        )  # fmt: skip

    def _action(self, name: str) -> Action:
        tables = self.tables
        if name in tables.strays:
            stray = tables.strays[name]
            return Action(kind="release", volume=stray.name, disk=_name_on_node(stray.disk), size=stray.size)
        if name in tables.disks:  # make a volume on a suspended disk, to see whether it works again
            suspension = tables.disks[name].suspension
            assert suspension is not None
            trial = suspension.trial
            return Action(
                kind="make", volume=suspension.volume, disk=_name_on_node(name), size=suspension.held, uid=trial.uid,
                gid=trial.gid, mode=trial.mode, expose=trial.expose, hosts=trial.hosts,
            )  # fmt: skip
        volume = tables.volumes[name]
        grant = tables.grants[volume.grant]
        ask = grant.ask
        return Action(
            kind="release" if grant.state is State.RELEASING else "make", volume=name, disk=_name_on_node(volume.disk),
            size=volume.size, uid=ask.uid, gid=ask.gid, mode=ask.mode, ceiling=ask.ceiling / grant.volumes,
            expose=ask.expose, hosts=ask.hosts, index=grant.names.index(name) if ask.is_shared else 0,
            servers=grant.volumes if ask.is_shared else 0,
        )  # fmt: skip

    @property
    def rules(self) -> GrantRules:
        return self.tables.rules

    @property
    def policy(self) -> str:
        return self.tables.facts.policy

    def grant(self, name: str) -> Grant:
        return self.tables.find_grant(name)

    def by_key(self, uid: int, key: str) -> Grant | None:
        """The grant that a user requested with this key."""
        return self.tables.grants.get(self.tables.keys.get(request_key(uid, key), ""))

    def volumes(self, grant: str) -> list[Volume]:
        return self.tables.volumes_of(self.grant(grant))

    def position(self, grant: str) -> int:
        """Its place in the queue, from 1; 0 if it is not in the queue."""
        queued = self.grant(grant)
        return self.tables.queue.rank(queued.order, grant) + 1 if queued.state is State.QUEUED else 0

    def marks(self, name: str) -> list[str]:
        """The current problems of a grant, as sentences for its owner."""
        grant, tables, marks = self.grant(name), self.tables, []
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
        if grant.state in AVAILABLE:
            marks += grant.failed_stagings
        return list(dict.fromkeys(marks))

    def next_due(self, now: float) -> float | None:
        """When the next `Tick` is due: `now` if something is due already, None if nothing is.

        A grant that is overdue because it waits for something else is not due at any time.
        """
        tables = self.tables
        if tables.facts.swept or tables.tries.due(now) or tables.trials.due(now):
            return now
        agendas = (tables.ends, tables.starts, tables.tries, tables.trials, tables.stalls)
        times = [agenda.next(now) for agenda in agendas]
        return min((time for time in times if time is not None), default=None)

    def document(self) -> dict[str, Any]:
        return {table: plain(rows) for table, rows in self.tables.rows().items()}

    @classmethod
    def from_document(cls, document: dict[str, Any], where: str = "state") -> Control:
        control, kinds = cls(), get_type_hints(Facts)
        facts = document.get("facts", {}).items()
        control.tables.facts = Facts(**{name: read(kinds[name], v, f"{where}: facts.{name}") for name, v in facts})
        for name in KEPT:
            table = getattr(control.tables, name)
            for key, value in document.get(name, {}).items():
                table.set(key, read(table.kind, value, f"{where}: {name}.{key}"))
        return control


def _name_on_node(disk: str) -> str:
    return disk.partition("/")[2]


def warm_up(policy: str) -> None:
    """Compile the kernels before the first caller needs them: run every command once on an invented machine."""
    control, service = Control(), co.SERVICE
    rules = GrantRules(split=100, shadow=True)
    control.do(co.ChangeRules(caller=service, rules=rules), 0.0)
    control.do(co.ChangePolicy(caller=service, policy=policy), 0.0)
    disks = tuple(DiskSpec(name=name, capacity=300, write_bandwidth=1.0, read_bandwidth=1.0) for name in "xy")
    for node in ("a", "b"):
        caller = co.Caller(role="agent", node=node)
        control.do(co.Register(caller=caller, node=node, network_bandwidth=1.0, disks=disks, volumes=()), 0.0)
    for number, size in enumerate(_WARM_UP):
        ask = Ask(grant=f"{number:032x}", key=str(number), uid=0, gid=0, size=size, seconds=60.0 + number)
        control.do(co.Request(caller=service, ask=ask), 1.0)
    for number in range(len(_WARM_UP)):
        control.do(co.Extend(caller=service, grant=f"{number:032x}", end=100.0), 1.5)
        control.do(co.Release(caller=service, grant=f"{number:032x}"), 2.0)
    control.do(co.Tick(caller=service), 1000.0)
