"""All that the control service knows, as tables of values; and what follows from them, kept up to date.

Tables change only by `put`. Everything else here (the ledger, the agendas, what agents are to do) is computed from
the tables, so to put an old value back undoes a change altogether: `Trial` uses that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from forebay.decide.grants.agenda import Agenda
from forebay.decide.grants.events import Turned
from forebay.decide.grants.machine import LiveDisk, LiveNode, Stray, Suspension, has
from forebay.decide.grants.rules import GrantRules
from forebay.decide.grants.selection import Selection, select
from forebay.decide.grants.space import ALWAYS, FOREVER, Hold, Space
from forebay.model.grant import ENDED, EXISTING, LIVE, ON_DISK, Grant, State, Volume, VolumeState, node_of

POLICY = "forebay"
_MOST_SELECTIONS = 64
Wants = tuple[tuple[str, str], ...]


class Capacities(NamedTuple):
    """Of some disks: how many, the bytes of the largest and of all, how many parts they have room for, and the largest
    rest beside these."""

    disks: int
    largest: int
    total: int
    slots: int
    rest: int

    @classmethod
    def of(cls, sizes: Sequence[int], part: int) -> Capacities:
        """`part` is bytes, 0 if there are no parts."""
        slots = sum(size // part for size in sizes) if part else 0
        rest = max((size % part for size in sizes), default=0) if part else 0
        return cls(len(sizes), max(sizes, default=0), sum(sizes), slots, rest)


class Facts(dict[str, Any]):
    """Single values: `policy`, `rules`, `turned`, how many have `asked`, how far the queue was `swept`."""


class Tables:
    """The state, and what follows from it."""

    def __init__(self) -> None:
        self.grants: dict[str, Grant] = {}
        self.volumes: dict[str, Volume] = {}
        self.nodes: dict[str, LiveNode] = {}
        self.disks: dict[str, LiveDisk] = {}
        self.strays: dict[str, Stray] = {}
        self.keys: dict[str, str] = {}
        self.probed: dict[str, int] = {}
        self.facts = Facts(policy=POLICY, rules=GrantRules(), turned=Turned(), asked=0, swept=0)
        self.space = Space()
        self.ends, self.starts, self.tries, self.past, self.queue, self.trials = (Agenda() for _ in range(6))
        self.live: Counter[int] = Counter()
        """How many grants each user holds or waits for, by uid."""
        self._todo: dict[str, dict[str, None]] = {}
        self._on_disk: dict[str, dict[str, None]] = {}
        self._selections: dict[Wants, Selection | None] = {}
        self._capacities: dict[tuple[Wants, int], Capacities] = {}
        self._told: dict[str, bool] = {}
        self._log: list[tuple[str, str, Any]] | None = None
        self._followers: dict[str, Callable[[str, Any, Any], None]] = {
            "grants": self._grants_changed,
            "volumes": self._volumes_changed,
            "nodes": self._nodes_changed,
            "disks": self._disks_changed,
            "strays": self._strays_changed,
        }

    @property
    def rules(self) -> GrantRules:
        rules: GrantRules = self.facts["rules"]
        return rules

    def put(self, table: str, key: str, value: Any) -> None:
        """Set an entry of a table; None removes it."""
        rows: dict[str, Any] = getattr(self, table)
        old = rows.get(key)
        if self._log is not None:
            self._log.append((table, key, old))
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
        follow = self._followers.get(table)
        if follow is not None:
            follow(key, old, value)

    @contextmanager
    def trial(self, *, keep: bool = False) -> Iterator[None]:
        """Whatever is put meanwhile is undone at the end; or only after an error, if it is to `keep`."""
        log: list[tuple[str, str, Any]] = []
        self._log = log
        try:
            yield
        except BaseException:
            self._undo(log)
            raise
        self._log = None
        if not keep:
            self._undo(log)

    def _undo(self, log: list[tuple[str, str, Any]]) -> None:
        self._log = None
        for table, key, old in reversed(log):
            self.put(table, key, old)

    def _grants_changed(self, key: str, old: Grant | None, new: Grant | None) -> None:
        for grant, step in ((old, -1), (new, 1)):
            if grant is not None and grant.state in LIVE:
                self.live[grant.ask.uid] += step
        before, after = _entries(old), _entries(new)
        if before != after:
            for name, time in before:
                getattr(self, name).remove(time, key)
            for name, time in after:
                getattr(self, name).add(time, key)
        if old is None or new is None or _shape(old) != _shape(new):
            for name in (new or old or _nobody()).names:
                self._follow(name)

    def _volumes_changed(self, key: str, old: Volume | None, new: Volume | None) -> None:
        for volume in (old, new):
            if volume is not None:
                self._on_disk.setdefault(volume.disk, {}).pop(key, None)
        if new is not None and new.state not in (VolumeState.GONE, VolumeState.LOST):
            self._on_disk[new.disk][key] = None
        self._follow(key, old)

    def _follow(self, name: str, old: Volume | None = None) -> None:
        """What a volume holds, and whether its agent has something to do for it."""
        volume = self.volumes.get(name)
        grant = self.grants.get(name.partition(".")[0])
        for was in (old, volume):
            if was is not None:
                self._todo.setdefault(was.node, {}).pop(name, None)
        self.space.set_hold(name, _hold(grant, volume))
        if grant is not None and volume is not None and self._is_to_do(grant, volume):
            self._todo[volume.node][name] = None

    def _strays_changed(self, key: str, _: Stray | None, new: Stray | None) -> None:
        self.space.set_hold(key, None if new is None else Hold(new.disk, ALWAYS, FOREVER, new.size))
        own = self._todo.setdefault(node_of(key), {})
        own.pop(key, None)
        if new is not None and not new.held:
            own[key] = None

    def _nodes_changed(self, name: str, old: LiveNode | None, new: LiveNode | None) -> None:
        if old is not None and new is not None and old.doubted != new.doubted:
            for volume in self.on_node(name):
                self._follow(volume.name)
        if old is None or new is None or replace(old, report=0) != replace(new, report=0):
            self._forget_selections()

    def _disks_changed(self, key: str, old: LiveDisk | None, new: LiveDisk | None) -> None:
        self._forget_selections()
        if new is not None:
            said = new.said
            self.space.set_disk(key, said.capacity, said.write_bandwidth, said.read_bandwidth)
        before, after = (None if disk is None else disk.suspension for disk in (old, new))
        if before != after:
            self._suspension_changed(key, before, after)

    def _suspension_changed(self, disk: str, old: Suspension | None, new: Suspension | None) -> None:
        """When its disk is to be tried; or what its agent is to do for that, and what it holds meanwhile."""
        own = self._todo.setdefault(node_of(disk), {})
        own.pop(disk, None)
        self.space.set_hold(disk, None)
        if old is not None and not old.volume:
            self.trials.remove(old.due, disk)
        if new is not None and new.volume:
            own[disk] = None
            self.space.set_hold(disk, Hold(disk, ALWAYS, FOREVER, new.held))
        elif new is not None:
            self.trials.add(new.due, disk)

    def _forget_selections(self) -> None:
        self._selections.clear()
        self._capacities.clear()
        self._told.clear()

    def selection(self, wants: Mapping[str, str]) -> Selection | None:
        """The disks that may be given to somebody who wants this; None if there are none now."""
        key = tuple(sorted(wants.items()))
        if key not in self._selections:
            if len(self._selections) >= _MOST_SELECTIONS:
                self._forget_selections()
            disks = [disk for disk in self.disks.values() if self.is_open(disk) and self.has(disk, wants)]
            self._selections[key] = select(disks, self.nodes, self.space)
        return self._selections[key]

    def capacities(self, wants: Wants) -> Capacities:
        """Of all disks that somebody who wants this could ever be given, also of those that are gone or drained."""
        key = wants, self.rules.split
        if key not in self._capacities:
            if len(self._capacities) >= _MOST_SELECTIONS:
                self._forget_selections()
            own = dict(wants)
            found = [disk.said.capacity for disk in self.disks.values() if self.has(disk, own)]
            self._capacities[key] = Capacities.of(found, self.rules.split)
        return self._capacities[key]

    def is_told(self, field: str) -> bool:
        """Whether any disk says something of this."""
        if field not in self._told:
            if len(self._told) >= _MOST_SELECTIONS:
                self._told.clear()
            self._told[field] = any(field in disk.said.fields for disk in self.disks.values())
        return self._told[field]

    def has(self, disk: LiveDisk, wants: Mapping[str, str]) -> bool:
        return has(disk, self.nodes[disk.node], wants)

    def is_open(self, disk: LiveDisk) -> bool:
        """Whether something new may be put there."""
        node = self.nodes[disk.node]
        closed = disk.drained or disk.unseen or disk.suspension is not None or node.drained or node.silent
        return disk.there and disk.said.capacity > 0 and not closed

    def to_do(self, node: str) -> list[str]:
        """Volumes, keys of strays, and disks that are tried, that the node's agent has something to do for."""
        return sorted(self._todo.get(node, ()))

    def on_disk(self, disk: str) -> list[Volume]:
        """Volumes that are on a disk, or planned to be."""
        return [self.volumes[name] for name in sorted(self._on_disk.get(disk, ()))]

    def on_node(self, node: str) -> list[Volume]:
        return [volume for key, disk in self.disks.items() if disk.node == node for volume in self.on_disk(key)]

    def strays_on(self, node: str) -> list[Stray]:
        return [self.strays[key] for key in sorted(self.strays) if node_of(key) == node]

    def strays_of(self, grant: str) -> list[Stray]:
        """Parts of it that are where they should not be, or whose grant nobody knows."""
        return [self.strays[key] for key in sorted(self.strays) if self.strays[key].grant == grant]

    def is_kept(self, node: str, grant: Grant | None) -> bool:
        """Whether what a grant has on a node stays until an administrator says otherwise.

        In doubt, nothing is removed but what its owner gave back, or what was asked for later.
        """
        order = self.nodes[node].doubted
        if grant is None:
            return order > 0
        given_back = grant.state is State.RELEASING and grant.outcome is State.RELEASED
        return grant.order < order and not (given_back or grant.let_go)

    def kept(self) -> list[Volume]:
        """Volumes whose grants have ended, as far as we know, and that stay nevertheless."""
        nodes = [name for name, node in self.nodes.items() if node.doubted]
        found = [volume for name in nodes for volume in self.on_node(name)]
        return [volume for volume in found if self._is_over(volume) and volume.name not in self._todo[volume.node]]

    def kept_count(self) -> int:
        """Volumes, strays too, that wait for an administrator's word."""
        return sum(stray.held for stray in self.strays.values()) + len(self.kept())

    def _is_over(self, volume: Volume) -> bool:
        return volume.state in ON_DISK and self.grants[volume.grant].state is State.RELEASING

    def _is_to_do(self, grant: Grant, volume: Volume) -> bool:
        if grant.state is State.RELEASING:
            return volume.state in ON_DISK and not self.is_kept(volume.node, grant)
        return grant.state in EXISTING and volume.state is VolumeState.MAKING

    def volumes_of(self, grant: Grant) -> list[Volume]:
        return [self.volumes[name] for name in grant.names]


def _nobody() -> Grant:
    raise AssertionError("neither an old grant nor a new one")


def _shape(grant: Grant) -> tuple[object, ...]:
    """On which it depends what its volumes hold, and whether agents have something to do for them."""
    return grant.state, grant.end, grant.volumes, grant.let_go


def _entries(grant: Grant | None) -> list[tuple[str, float]]:
    """In which agendas a grant stands, and when."""
    if grant is None or grant.state is State.ASKED:
        return []
    if grant.state is State.QUEUED:
        return [("tries", grant.until), ("queue", grant.order)]
    if grant.state is State.GRANTED:
        return [("starts", grant.start), ("ends", grant.end)]
    if grant.state is State.RELEASING:
        return []
    return [("past", grant.ended)] if grant.state in ENDED else [("ends", grant.end)]


def _hold(grant: Grant | None, volume: Volume | None) -> Hold | None:
    if grant is None or volume is None:
        return None
    if grant.state is State.GRANTED:
        return Hold(volume.disk, grant.start, grant.end, volume.size)
    if grant.state not in EXISTING or volume.state not in ON_DISK:
        return None
    return Hold(volume.disk, ALWAYS, FOREVER if grant.state is State.RELEASING else grant.end, volume.size)
