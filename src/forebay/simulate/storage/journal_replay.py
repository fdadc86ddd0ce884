"""Decides the requests of a live service's journal again in virtual time, with another policy.

The machine repeats its history: disks appear, vanish, fall silent and are drained at the same times. A grant that was
released early is held as long as it was then. A grant that only the other policy gives is held for its full time.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.control import Control
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import DiskSpec
from forebay.model.grant import Ask, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The fate of a request: "granted", "refused", or "waiting" at the end; `waited` is seconds until its start."""

    verdict: str = "waiting"
    because: str = ""
    waited: float = 0.0
    disks: tuple[str, ...] = ()


class Row(NamedTuple):
    """One request under both policies."""

    ask: Ask
    asked: float
    then: Decided
    now: Decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The totals of all requests under one policy. `waited` is the mean of granted requests, in seconds."""

    policy: str
    granted: int
    refused: int
    waiting: int
    bytes: int
    waited: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    then: Side
    now: Side
    rows: tuple[Row, ...]

    @property
    def changed_rows(self) -> tuple[Row, ...]:
        """The requests with another verdict, other disks or another start under the other policy."""
        return tuple(row for row in self.rows if replace(row.then, because="") != replace(row.now, because=""))


Action = Callable[[Control], co.Command | None]
"""Returns the command to repeat, or None if the state of the control no longer allows it."""


class _Past:
    """The contents of a journal: the outside events, and the fate of each request."""

    def __init__(self, events: Iterable[ev.Event], policy: str | None) -> None:
        self.actions: list[tuple[float, Action]] = []
        self.asked: dict[str, ev.Asked] = {}
        self.decided: dict[str, Decided] = {}
        self.held: dict[str, float] = {}  # seconds until an early release
        self.policies: list[str] = []
        self.end = -math.inf
        self._control = Control()
        self._nodes: dict[str, tuple[ev.NodeRegistered, dict[str, DiskSpec]]] = {}
        self._same_policy = policy is None
        self._do(-math.inf, co.ChangeRules(caller=co.SERVICE, rules=replace(GrantRules(), shadow=True)))
        if policy is not None:
            self._do(-math.inf, co.ChangePolicy(caller=co.SERVICE, policy=policy))
        for event in events:
            self._note(event)
            self._control.apply(event)

    def _do(self, at: float, command: co.Command) -> None:
        self.actions.append((at, lambda _: command))

    def _note(self, event: ev.Event) -> None:
        """Record the fate of a request and the outside actions behind an event, before it is applied."""
        self.end = max(self.end, event.at)
        judge(self.decided, event, self.asked)
        for command in self._commands(event):
            self._do(event.at, command)
        match event:
            case ev.Asked():
                self.asked[event.ask.grant] = event
            case ev.PolicyChanged():
                self.policies.append(event.policy)
            case ev.Extended():
                more = event.end - self._control.grant(event.grant).end
                self.actions.append((event.at, partial(_extend, event.grant, more)))
            case ev.Releasing() | ev.Ended():
                grant = self._control.grant(event.grant)
                if isinstance(event, ev.Ended) and grant.state is State.QUEUED:
                    self.actions.append((event.at, partial(_withdraw, event.grant)))
                if grant.start and grant.state is not State.RELEASING and event.at < grant.end:
                    self.held[event.grant] = event.at - grant.start

    def _commands(self, event: ev.Event) -> Iterator[co.Command]:
        """Yield the commands that led to an event; none if the service acted by itself."""
        match event:
            case ev.Asked():
                yield co.Request(caller=co.SERVICE, ask=event.ask)
            case ev.NodeRegistered():
                self._nodes[event.node] = event, self._nodes.get(event.node, (event, {}))[1]
                yield self._register(event.node)
            case ev.DiskRegistered():
                self._nodes[event.node][1][event.disk.name] = event.disk
                yield self._register(event.node)
                yield from self._reopen_disk(f"{event.node}/{event.disk.name}", suspended=False)
            case ev.DiskVanished():
                node, _, disk = event.disk.partition("/")
                self._nodes[node][1].pop(disk, None)
                yield self._register(node)
                yield from self._reopen_disk(event.disk)
            case ev.DiskResumed():
                yield from self._reopen_disk(event.disk)
            case ev.NodeSilent():
                yield co.Silent(caller=co.SERVICE, node=event.node)
            case ev.NodeAnswered():
                yield co.Seen(caller=co.Caller(role="agent", node=event.node), node=event.node)
            case ev.DiskSuspended() | ev.DiskUnseen():  # no policy could use the disk
                yield co.Drain(caller=co.SERVICE, what=event.disk)
            case ev.Drained():
                yield co.Drain(caller=co.SERVICE, what=event.what)
            case ev.Undrained():
                yield co.Undrain(caller=co.SERVICE, what=event.what)
            case ev.RulesChanged():
                yield co.ChangeRules(caller=co.SERVICE, rules=replace(event.rules, shadow=True))
            case ev.PolicyChanged() if self._same_policy:
                yield co.ChangePolicy(caller=co.SERVICE, policy=event.policy)

    def _register(self, name: str) -> co.Command:
        """Return the registration that the node's agent sends now."""
        node, disks = self._nodes[name]
        return co.Register(
            caller=co.Caller(role="agent", node=name),
            node=name,
            network_bandwidth=node.network_bandwidth,
            fields=node.fields,
            disks=tuple(disks.values()),
        )

    def _reopen_disk(self, key: str, *, suspended: bool = True) -> Iterator[co.Command]:
        """Reopen a disk that was closed because of a fault, unless an administrator has drained it."""
        disk = self._control.tables.disks.get(key)
        if disk is None or disk.drained:
            return
        is_suspended = disk.suspension is not None
        if (disk.unseen != "" or is_suspended) if suspended else (disk.unseen != "" and not is_suspended):
            yield co.Undrain(caller=co.SERVICE, what=disk.key)


def _extend(name: str, seconds: float, control: Control) -> co.Command | None:
    """Extend a grant by `seconds` from its current end."""
    grant = control.tables.grants.get(name)
    if grant is None or not grant.end:
        return None
    return co.Extend(caller=co.SERVICE, grant=name, end=grant.end + seconds)


def _withdraw(name: str, control: Control) -> co.Command | None:
    """Withdraw a request again, if it still waits."""
    return co.Release(caller=co.SERVICE, grant=name) if control.position(name) > 0 else None


def judge(decided: dict[str, Decided], event: ev.Event, asked: dict[str, ev.Asked]) -> None:
    """Record the decision of an event."""
    if isinstance(event, ev.Asked):
        decided[event.ask.grant] = Decided()
    elif isinstance(event, ev.Granted):
        wish = asked[event.grant].ask.start
        since = asked[event.grant].at if wish is None else max(wish, asked[event.grant].at)
        disks = tuple(disk for disk, _ in event.parts)
        waited = event.start - since
        decided[event.grant] = Decided(verdict="granted", because=event.because, waited=waited, disks=disks)
    elif isinstance(event, ev.TurnedDown):
        decided[event.grant] = Decided(verdict="refused", because=event.because)
    elif isinstance(event, ev.Queued):
        decided[event.grant] = Decided(because=event.because)


def replay_journal(
    events: Iterable[ev.Event], policy: str | None = None, *, progress: Callable[[float], None] | None = None
) -> Comparison:
    """Compare the journal's decisions with those of another policy (None: the same). `progress` gets 0 to 1."""
    past = _Past(events, policy)
    again = _Again(past)
    for count, (at, action) in enumerate(past.actions, start=1):
        time = max(again.now, at)  # a clock that was set back stands still here
        again.run_until(time)
        again.now = time
        again.do(action(again.control))
        if progress is not None:
            progress(count / len(past.actions))
    again.run_until(past.end)
    rows = tuple(
        Row(ask=asked.ask, asked=asked.at, then=past.decided[name], now=again.decided[name])
        for name, asked in past.asked.items()
    )
    then = ", ".join(dict.fromkeys(past.policies)) or Control().policy
    return Comparison(
        then=_side(then, [(row.ask, row.then) for row in rows]),
        now=_side(policy or then, [(row.ask, row.now) for row in rows]),
        rows=rows,
    )


def _side(policy: str, rows: list[tuple[Ask, Decided]]) -> Side:
    granted = [(ask, decided) for ask, decided in rows if decided.verdict == "granted"]
    return Side(
        policy=policy,
        granted=len(granted),
        refused=sum(decided.verdict == "refused" for _, decided in rows),
        waiting=sum(decided.verdict == "waiting" for _, decided in rows),
        bytes=sum(ask.size for ask, _ in granted),
        waited=sum(decided.waited for _, decided in granted) / max(1, len(granted)),
    )


class _Again:
    """A service in virtual time that only decides."""

    def __init__(self, past: _Past) -> None:
        self.control = Control()
        self.decided: dict[str, Decided] = {}
        self.now = 0.0
        self._past = past
        self._releases: list[tuple[float, str]] = []

    def run_until(self, time: float) -> None:
        """Process everything that is due before a time."""
        while True:
            due = self.control.next_due(self.now)
            release = self._releases[0][0] if self._releases else math.inf
            at = min(release, math.inf if due is None else due)
            if at >= time and not at <= self.now:
                return
            self.now = max(self.now, at)
            if release <= self.now:
                grant = heapq.heappop(self._releases)[1]
                self.do(co.Release(caller=co.SERVICE, grant=grant))
            else:
                self.do(co.Tick(caller=co.SERVICE))

    def do(self, command: co.Command | None) -> None:
        for event in self.control.handle(command, self.now) if command is not None else ():
            self.control.apply(event)
            judge(self.decided, event, self._past.asked)
            if isinstance(event, ev.Granted) and event.grant in self._past.held:
                heapq.heappush(self._releases, (event.start + self._past.held[event.grant], event.grant))
