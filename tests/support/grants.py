"""A control service with its journal, agents as bad as real ones, and what must always hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from forebay.decide.grants import commands as co
from forebay.decide.grants.codec import from_line, to_line
from forebay.decide.grants.control import Control
from forebay.decide.grants.events import Event
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import Action, DiskSpec
from forebay.model.grant import EXISTING, HELD, NEXT, ON_DISK, Ask, State, Volume, VolumeState

USER = co.Caller(role="user", uid=1000)
ADMINISTRATOR = co.SERVICE


def agent(node: str) -> co.Caller:
    return co.Caller(role="agent", node=node)


def grant_id(number: int) -> str:
    return f"{number:032x}"


def ask(number: int, size: int, seconds: float = 100.0, **more: Any) -> Ask:
    """Request number so and so; its key is its number."""
    settings: dict[str, Any] = {"key": f"key-{number}", "uid": 1000, "gid": 100, **more}
    return Ask(grant=grant_id(number), size=size, seconds=seconds, **settings)


def disk(name: str, capacity: int, **more: Any) -> DiskSpec:
    return DiskSpec(**{"name": name, "capacity": capacity, "write_bandwidth": 3e9, "read_bandwidth": 3e9, **more})


def fold(events: Iterable[Event]) -> Control:
    """The state after all of these events."""
    control = Control()
    for event in events:
        control.apply(event)
    return control


def digest_of(control: Control) -> str:
    """Tells one state from another."""
    text = json.dumps(control.document(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def rows_of(control: Control) -> dict[str, dict[str, object]]:
    """All rows of the state. They are frozen, so comparing them with later ones shows every change."""
    return {table: dict(rows) for table, rows in control.tables.rows().items()}


def used_bytes(control: Control) -> dict[str, int]:
    """Bytes that exist on each disk, or are being made or removed there."""
    totals = dict.fromkeys(control.tables.disks, 0)
    for name, hold in control.tables.space.holds.items():
        grant = control.tables.grants.get(name.partition(".")[0])
        if grant is None or grant.state in EXISTING:
            totals[hold.disk] += hold.size
    return totals


@dataclass
class Service:
    """Every command is checked to change nothing by itself, and every event to be applied alike by a mirror."""

    control: Control = field(default_factory=Control)
    mirror: Control = field(default_factory=Control)
    journal: list[str] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)  # how long the journal was after each command
    now: float = 0.0

    def do(self, command: co.Command, now: float | None = None) -> list[Event]:
        self.now = self.now if now is None else now
        before = rows_of(self.control)
        try:
            events = self.control.handle(command, self.now)
        except Exception as error:
            self._fails_alike(command, error)
            assert rows_of(self.control) == before, "what could not be done changed the state"
            raise
        assert rows_of(self.control) == before, "to decide changed the state"
        assert self.control.do(command, self.now) == events, "decided otherwise at the second time"
        for event in events:
            self.apply(event)
        self.commits.append(len(self.journal))
        assert rows_of(self.mirror) == rows_of(self.control), "the journal does not lead to the same state"
        return events

    def _fails_alike(self, command: co.Command, error: Exception) -> None:
        try:
            self.control.do(command, self.now)
        except Exception as again:
            assert (type(again), str(again)) == (type(error), str(error))
        else:
            raise AssertionError("done, though it can't be decided")

    def apply(self, event: Event) -> None:
        """To the mirror, by way of the journal."""
        states = {name: grant.state for name, grant in self.mirror.tables.grants.items()}
        self.journal.append(to_line(event))
        self.mirror.apply(from_line(self.journal[-1]))
        for name, grant in self.mirror.tables.grants.items():
            was = states.get(name)
            if was is not grant.state:
                assert grant.state is State.ASKED if was is None else grant.state in NEXT[was]

    def kinds(self, command: co.Command, now: float | None = None) -> list[str]:
        return [type(event).__name__ for event in self.do(command, now)]

    def register(self, node: str, *disks: DiskSpec, **more: Any) -> list[Event]:
        return self.do(co.Register(caller=agent(node), node=node, network_bandwidth=1e10, disks=disks, **more))

    def ask(self, number: int, size: int, seconds: float = 100.0, **more: Any) -> State:
        self.do(co.Request(caller=USER, ask=ask(number, size, seconds, **more)))
        return self.state(number)

    def state(self, number: int) -> State:
        return self.control.grant(grant_id(number)).state

    def release(self, number: int) -> list[Event]:
        return self.do(co.Release(caller=USER, grant=grant_id(number)))

    def tick(self, now: float) -> list[Event]:
        return self.do(co.Tick(caller=ADMINISTRATOR), now)

    def rules(self, **changes: Any) -> None:
        self.do(co.ChangeRules(caller=ADMINISTRATOR, rules=replace(self.control.rules, **changes)))

    def carry_out(self, node: str) -> None:
        """Do at once what the node's agent is to do."""
        for action in self.control.actions(node):
            if action.kind == "make":
                self.do(co.Made(caller=agent(node), volume=action.volume, path=f"/{action.volume}"))
            else:
                self.do(co.Gone(caller=agent(node), volume=action.volume, disk=action.disk))


def service(**disks: int) -> Service:
    """One node `n` with disks of these capacities; requests are not split."""
    made = Service()
    made.do(co.ChangeRules(caller=ADMINISTRATOR, rules=GrantRules(split=0)))
    made.register("n", *(disk(name, capacity) for name, capacity in disks.items()))
    return made


@dataclass
class Agent:
    """One that does one thing after the other. Its reports go into `outbox`, and get out of it somehow."""

    node: str
    disks: dict[str, DiskSpec]
    there: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    volumes: dict[tuple[str, str], tuple[int, bool]] = field(default_factory=dict)  # (disk, name): bytes, whole
    orders: list[Action] = field(default_factory=list)
    outbox: list[co.Command] = field(default_factory=list)
    number: int = 0
    is_surprised: bool = False
    """Whether the store was put back: it may have promised space to somebody before it heard what is on the disk."""

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def found(self) -> tuple[co.FoundVolume, ...]:
        self.orders.clear()
        return tuple(
            co.FoundVolume(name=name, disk=on, size=size, whole=whole)
            for (on, name), (size, whole) in sorted(self.volumes.items())
            if on in self.there - self.unseen
        )

    def description(self) -> co.Register:
        said = tuple(self.disks[name] for name in sorted(self.there - self.unseen))
        unseen = dict.fromkeys(sorted(self.there & self.unseen), "not mounted")
        whole: dict[str, Any] = {"volumes": self.found(), "number": self.next_number(), "unseen": unseen}
        return co.Register(caller=agent(self.node), node=self.node, network_bandwidth=1e10, disks=said, **whole)

    def carry_out(self, *, halfway: bool = False, fails: bool = False) -> None:
        """The next of its orders: done, or begun and left when it crashed, or not possible."""
        order = self.orders.pop(0)
        key = (order.disk, order.volume)
        if order.disk not in self.there - self.unseen:
            return
        report: dict[str, Any] = {"caller": agent(self.node), "volume": order.volume, "disk": order.disk}
        if order.kind == "release":
            if fails:
                self.outbox.append(co.Stuck(**report, because="it is in use", number=self.next_number()))
            elif not halfway:
                self.volumes.pop(key, None)
                self.outbox.append(co.Gone(**report, number=self.next_number()))
        elif self.is_surprised and key not in self.volumes and not self.has_room(order):
            because = "there is no room"
            self.outbox.append(co.NotMade(**report, because=because, fault="room", number=self.next_number()))
        elif fails:
            self.outbox.append(co.NotMade(**report, because="the disk is full", number=self.next_number()))
        elif halfway:
            self.volumes.setdefault(key, (order.size, False))
        else:
            self.volumes[key] = (order.size, True)
            self.outbox.append(co.Made(**report, path="/somewhere", number=self.next_number()))
        if halfway:
            self.orders.clear()

    def has_room(self, order: Action) -> bool:
        return self.used(order.disk) + order.size <= self.disks[order.disk].capacity

    def used(self, name: str) -> int:
        return sum(size for (on, _), (size, _) in self.volumes.items() if on == name)


def check(control: Control) -> None:
    """What must hold whenever nobody is deciding."""
    tables = control.tables
    for grant in tables.grants.values():
        volumes = tables.volumes_of(grant)
        if grant.state in HELD:
            held = sum(volume.size for volume in volumes)
            assert held >= grant.ask.size if grant.ask.is_shared else held == grant.ask.size
            assert grant.start < grant.end
        else:
            assert not any(volume.state in ON_DISK for volume in volumes)
        if grant.state in (State.READY, State.IN_USE):
            assert any(volume.state in ON_DISK for volume in volumes), "an owner without a volume"
        if grant.state in (State.QUEUED, State.REFUSED, State.FAILED, State.EXPIRED, State.RELEASING):
            assert grant.because
        assert control.by_key(grant.ask.uid, grant.ask.key) == grant
    assert all(volume.grant in tables.grants for volume in tables.volumes.values())
    queued = [g for g in tables.grants.values() if g.state is State.QUEUED]
    in_order = sorted(queued, key=lambda grant: grant.order)
    assert [control.position(grant.id) for grant in in_order] == list(range(1, len(queued) + 1))
    _check_to_do(control)


def _check_to_do(control: Control) -> None:
    tables = control.tables
    wanted = set()
    for volume in tables.volumes.values():
        state = tables.grants[volume.grant].state
        if state is State.RELEASING and volume.state in ON_DISK:
            if not _is_kept(control, volume):
                wanted.add(("release", volume.name))
        elif state in EXISTING and volume.state is VolumeState.MAKING:
            wanted.add(("make", volume.name))
    wanted |= {("release", stray.name) for stray in tables.strays.values() if not stray.held}
    tried = [live.suspension for live in tables.disks.values() if live.suspension is not None]
    wanted |= {("make", suspension.volume) for suspension in tried if suspension.volume}
    given = {(action.kind, action.volume) for node in tables.nodes for action in control.actions(node)}
    assert given == (set() if control.rules.shadow else wanted)


def _is_kept(control: Control, volume: Volume) -> bool:
    """Its time may not be over: its node's agent knows a later journal."""
    grant, node = control.tables.grants[volume.grant], control.tables.nodes[volume.node]
    return grant.order < node.doubted and grant.outcome is not State.RELEASED and not grant.let_go


def check_space(control: Control, *, over_full: set[str]) -> None:
    """No disk is promised to more than it holds, now or at any time to come; and the ledger says what is so."""
    tables = control.tables
    for key, live in tables.disks.items():
        planned, all_holds = _holds(control, key)
        if key not in over_full:
            assert _most(planned) <= live.spec.capacity
        times = sorted({t for start, end, _ in all_holds for t in (start, end)} | {-1e9, 1e9})
        for start, end in pairwise(times):
            if start < end:
                at = [size for s, e, size in all_holds if s < end and e > start]
                assert tables.space.free(key, start, end) == live.spec.capacity - sum(at)


def _holds(control: Control, key: str) -> tuple[list[Any], list[Any]]:
    """Of one disk, what is promised to somebody, and what is held in all, as (start, end, bytes)."""
    tables, far = control.tables, 1e12
    planned, more = [], [(-far, far, stray.size) for stray in tables.strays.values() if stray.disk == key]
    suspension = tables.disks[key].suspension
    if suspension is not None and suspension.volume:
        more.append((-far, far, suspension.held))
    for volume in tables.volumes.values():
        grant = tables.grants[volume.grant]
        if volume.disk != key:
            continue
        if grant.state is State.GRANTED:
            planned.append((grant.start, grant.end, volume.size))
        elif grant.state is State.RELEASING and volume.state in ON_DISK:
            more.append((-far, far, volume.size))
        elif grant.state in EXISTING and volume.state in ON_DISK:
            planned.append((-far, grant.end, volume.size))
    return planned, planned + more


def _most(holds: list[tuple[float, float, int]]) -> int:
    return max((sum(z for s, e, z in holds if s <= at < e) for at, _, _ in holds), default=0)
