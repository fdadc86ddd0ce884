"""Everything that the control service knows, as tables of values, and indexes that are derived from them.

Only events change the tables. The indexes (the ledger, the agendas, the actions of agents) follow each change of a
row, so that restoring the old row undoes a change completely.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import LiveDisk, LiveNode, Stray, field_value
from forebay.decide.grants.space import ALWAYS, FOREVER, Hold, Selection, Space, Turned, select
from forebay.decide.grants.state_tables import Agenda, Table, UndoLog
from forebay.model.grant import (
    ENDED,
    EXISTING,
    LIVE,
    NEXT,
    ON_DISK,
    VOLUME_NEXT,
    Grant,
    NoSuchGrant,
    State,
    Volume,
    VolumeState,
    node_of,
)  # fmt: skip

_MOST_MEMORIES = 192
KEPT = ("nodes", "disks", "grants", "volumes", "strays", "keys", "probed")  # the tables that a checkpoint stores
T = TypeVar("T")


class Capacities(NamedTuple):
    """The number of some disks, and their bytes."""

    disks: int
    largest: int
    total: int
    slots: int  # full parts that fit on them
    rest: int  # the most bytes that a disk has left beside full parts
    sizes: tuple[int, ...] = ()  # of each disk, the largest first

    @classmethod
    def of(cls, sizes: Sequence[int], part: int) -> Capacities:
        """`part` is the bytes of a part; 0 if requests are not split."""
        slots = sum(size // part for size in sizes) if part else 0
        rest = max((size % part for size in sizes), default=0) if part else 0
        return cls(len(sizes), max(sizes, default=0), sum(sizes), slots, rest, tuple(sorted(sizes, reverse=True)))


class Facts(NamedTuple):
    """The part of the state that is not a table."""

    policy: str = "forebay"
    rules: GrantRules = GrantRules()
    turned: Turned = Turned()  # the policy's memory
    asked: int = 0  # number of requests so far
    swept: int = 0  # the last request that the sweep of the queue reached; 0: the sweep is complete


class Tables:
    """The state, and the indexes derived from it."""

    def __init__(self) -> None:
        self.undo_log = undo_log = UndoLog()
        self.grants = Table(Grant, undo_log, self._grant_changed, NEXT)
        self.volumes = Table(Volume, undo_log, self._volume_changed, VOLUME_NEXT)
        self.nodes = Table(LiveNode, undo_log, self._node_changed)
        self.disks = Table(LiveDisk, undo_log, self._disk_changed)
        self.strays = Table(Stray, undo_log, self._stray_changed)
        self.keys = Table(str, undo_log)  # grants by the user's uid and the key of the request, see `request_key`
        self.probed = Table(int, undo_log)  # how often the policy has probed each node
        self._facts = Table(Facts, undo_log)
        self._facts.set("", Facts())
        self.space = Space()
        self.ends, self.starts, self.tries, self.past, self.queue, self.trials = (Agenda() for _ in range(6))
        self.stalls = Agenda()  # stagings, by when they fail if nothing moves
        self.live: Counter[int] = Counter()  # grants that each user holds or waits for, by uid
        self._todo: dict[str, dict[str, None]] = {}
        self._staging: dict[str, dict[str, None]] = {}  # grants whose files each node copies
        self._on_disk: dict[str, dict[str, None]] = {}
        self._memory: dict[Hashable, Any] = {}  # lookups since disks or nodes last changed

    @property
    def facts(self) -> Facts:
        return self._facts[""]

    @facts.setter
    def facts(self, facts: Facts) -> None:
        self._facts.set("", facts)

    @property
    def rules(self) -> GrantRules:
        return self.facts.rules

    def rows(self) -> dict[str, Mapping[str, object]]:
        """Everything that a checkpoint stores, by table and key."""
        return {"facts": self.facts._asdict(), **{name: getattr(self, name) for name in KEPT}}

    # Steps that several events take

    def drop_volumes(self, grant: Grant) -> None:
        for name in grant.names:
            self.volumes.set(name, None)

    def set_turn(self, turned: Turned | None) -> None:
        """Set the policy's memory after a decision; None leaves it unchanged."""
        if turned is not None:
            for node, count in turned.probed:
                self.probed.set(node, count)
            self.facts = self.facts._replace(turned=replace(turned, probed=()) if turned.probed else turned)

    def note_report(self, node: str, report: int) -> None:
        if report > self.nodes[node].report:
            self.nodes.change(node, report=report)

    def hold_strays(self, strays: Iterable[Stray], *, held: bool) -> None:
        for stray in strays:
            self.strays.change(stray.key, held=held)

    # Indexes that follow a change of a row

    def _grant_changed(self, key: str, old: Grant | None, new: Grant | None) -> None:
        for grant, step in ((old, -1), (new, 1)):
            if grant is not None and grant.state in LIVE:
                self.live[grant.ask.uid] += step
        before, after = self._appointments(old), self._appointments(new)
        if before != after:
            for agenda, time in before:
                agenda.remove(time, key)
            for agenda, time in after:
                agenda.add(time, key)
        if (old and old.staging) or (new and new.staging):
            for grant, is_now in ((old, False), (new, True)):
                for node in grant.staging.nodes if grant and grant.staging and grant.is_staging else ():
                    _set_member(self._staging, node, key, is_now)
        either = new or old
        if either is not None and (old is None or new is None or _shape(old) != _shape(new)):
            for name in either.names:
                self._follow_volume(name)

    def _appointments(self, grant: Grant | None) -> list[tuple[Agenda, float]]:
        """The agendas that list a grant, each with its time."""
        if grant is None or grant.state in (State.ASKED, State.RELEASING):
            return []
        if grant.state is State.QUEUED:
            return [(self.tries, grant.until), (self.queue, grant.order)]
        if grant.state is State.GRANTED:
            return [(self.starts, grant.start), (self.ends, grant.end)]
        if grant.state in ENDED:
            return [(self.past, grant.ended)]
        times = [(self.ends, grant.end)]
        if grant.staging is not None and grant.is_staging:
            times.append((self.stalls, grant.staging.moved + grant.staging.limit))
        return times

    def _volume_changed(self, key: str, old: Volume | None, new: Volume | None) -> None:
        if old is not None and (new is None or new.disk != old.disk):
            _set_member(self._on_disk, old.disk, key, False)
            _set_member(self._todo, old.node, key, False)
        if new is not None:
            _set_member(self._on_disk, new.disk, key, new.state not in (VolumeState.GONE, VolumeState.LOST))
        self._follow_volume(key)

    def _follow_volume(self, name: str) -> None:
        """Update what a volume holds, and whether its agent has an action for it."""
        volume, grant = self.volumes.get(name), self.grants.get(name.partition(".")[0])
        hold, is_to_do = None, False
        if volume is not None and grant is not None:
            if grant.state is State.GRANTED:
                hold = Hold(volume.disk, grant.start, grant.end, volume.size)
            elif grant.state is State.RELEASING and volume.state in ON_DISK:
                hold = Hold(volume.disk, ALWAYS, FOREVER, volume.size)
                is_to_do = not self.is_kept(volume.node, grant)
            elif grant.state in EXISTING and volume.state in ON_DISK:
                hold = Hold(volume.disk, ALWAYS, grant.end, volume.size)
                is_to_do = volume.state is VolumeState.MAKING
            _set_member(self._todo, volume.node, name, is_to_do)
        self.space.set_hold(name, hold)

    def _stray_changed(self, key: str, _: Stray | None, new: Stray | None) -> None:
        self.space.set_hold(key, None if new is None else Hold(new.disk, ALWAYS, FOREVER, new.size))
        _set_member(self._todo, node_of(key), key, new is not None and not new.held)

    def _node_changed(self, name: str, old: LiveNode | None, new: LiveNode | None) -> None:
        if old is not None and new is not None and old.doubted != new.doubted:
            for volume in self.on_node(name):
                self._follow_volume(volume.name)
        if old is None or new is None or old.report == new.report:
            self._memory.clear()

    def _disk_changed(self, key: str, old: LiveDisk | None, new: LiveDisk | None) -> None:
        self._memory.clear()
        if new is not None:
            self.space.set_disk(key, new.spec)
        before, after = (None if disk is None else disk.suspension for disk in (old, new))
        if before == after:
            return
        if before is not None and not before.volume:
            self.trials.remove(before.due, key)
        if after is not None and not after.volume:
            self.trials.add(after.due, key)
        is_tried = after is not None and after.volume != ""
        self.space.set_hold(key, Hold(key, ALWAYS, FOREVER, after.held) if after is not None and is_tried else None)
        _set_member(self._todo, node_of(key), key, is_tried)

    # Lookups

    def selection(self, wants: Mapping[str, str], failed: tuple[str, ...] = ()) -> Selection | None:
        """The open disks with these fields, without the failed ones; None if there are none now."""

        def find() -> Selection | None:
            return select([d for d in self.open_disks(wants) if d.key not in failed], self.nodes, self.space)

        return self._remember(("selection", failed, *sorted(wants.items())), find)

    def capacities(self, wants: Mapping[str, str], failed: tuple[str, ...] = ()) -> Capacities:
        """The capacities of all disks with these fields, also of missing and drained ones, but not of failed ones."""

        def measure() -> Capacities:
            fitting = [disk for disk in self.disks.values() if self.has_fields(disk, wants) and disk.key not in failed]
            return Capacities.of([disk.spec.capacity for disk in fitting], self.rules.split)

        return self._remember(("capacities", self.rules.split, failed, *sorted(wants.items())), measure)

    def knows_field(self, name: str) -> bool:
        """Whether any disk has this field."""
        return self._remember(name, lambda: any(name in disk.spec.fields for disk in self.disks.values()))

    def _remember(self, key: Hashable, find: Callable[[], T]) -> T:
        if key not in self._memory:
            if len(self._memory) >= _MOST_MEMORIES:
                self._memory.clear()
            self._memory[key] = find()
        value: T = self._memory[key]
        return value

    def has_fields(self, disk: LiveDisk, wants: Mapping[str, str]) -> bool:
        """Whether the disk, or else its node, has all these fields."""
        return all(field_value(disk, self.nodes[disk.node], name) == value for name, value in wants.items())

    def is_open(self, disk: LiveDisk) -> bool:
        node = self.nodes[disk.node]
        closed = disk.drained or disk.unseen or disk.suspension is not None or node.drained or node.silent
        return disk.there and disk.spec.capacity > 0 and not closed

    def open_disks(self, wants: Mapping[str, str]) -> list[LiveDisk]:
        return [disk for disk in self.disks.values() if self.is_open(disk) and self.has_fields(disk, wants)]

    def find_grant(self, name: str) -> Grant:
        if name not in self.grants:
            raise NoSuchGrant(name)
        return self.grants[name]

    def to_do(self, node: str) -> list[str]:
        """What the node's agent has actions for: names of volumes, keys of strays, and keys of disks under trial."""
        return sorted(self._todo.get(node, ()))

    def stagings_on(self, node: str) -> list[str]:
        """The grants whose files the node's agent copies."""
        return sorted(self._staging.get(node, ()))

    def on_disk(self, disk: str) -> list[Volume]:
        """Volumes that are on a disk, or planned there."""
        return [self.volumes[name] for name in sorted(self._on_disk.get(disk, ()))]

    def on_node(self, node: str) -> list[Volume]:
        return [volume for key, disk in self.disks.items() if disk.node == node for volume in self.on_disk(key)]

    def disks_of(self, node: str) -> list[LiveDisk]:
        return [disk for disk in self.disks.values() if disk.node == node]

    def volumes_of(self, grant: Grant) -> list[Volume]:
        return [self.volumes[name] for name in grant.names]

    def strays_on(self, node: str) -> list[Stray]:
        return [self.strays[key] for key in sorted(self.strays) if node_of(key) == node]

    def strays_of(self, grant: str) -> list[Stray]:
        """Volumes of a grant that are in the wrong place, or whose grant is unknown."""
        return [self.strays[key] for key in sorted(self.strays) if self.strays[key].grant == grant]

    def is_kept(self, node: str, grant: Grant | None) -> bool:
        """Whether the volumes of a grant on a node stay until an administrator decides.

        On a doubted node, only volumes that their owner released, or requested later, are removed.
        """
        order = self.nodes[node].doubted
        if grant is None:
            return order > 0
        given_back = grant.state is State.RELEASING and grant.outcome is State.RELEASED
        return grant.order < order and not (given_back or grant.let_go)

    def kept_volumes(self) -> list[Volume]:
        """Volumes that stay until an administrator decides, although the journal says that their grants ended."""
        doubted = [name for name, node in self.nodes.items() if node.doubted]
        volumes = [volume for name in doubted for volume in self.on_node(name) if volume.state in ON_DISK]
        ended = [volume for volume in volumes if self.grants[volume.grant].state is State.RELEASING]
        return [volume for volume in ended if self.is_kept(volume.node, self.grants[volume.grant])]

    def kept_count(self) -> int:
        """The number of volumes, strays included, that wait for an administrator's decision."""
        return sum(stray.held for stray in self.strays.values()) + len(self.kept_volumes())


def request_key(uid: int, key: str) -> str:
    """Keys of different users do not collide."""
    return f"{uid}:{key}"


def _set_member(sets: dict[str, dict[str, None]], key: str, name: str, is_member: bool) -> None:
    names = sets.setdefault(key, {})
    if is_member:
        names[name] = None
    else:
        names.pop(name, None)


def _shape(grant: Grant) -> tuple[object, ...]:
    """The values that decide what its volumes hold, and whether agents have actions for them."""
    return grant.state, grant.end, grant.volumes, grant.let_go
