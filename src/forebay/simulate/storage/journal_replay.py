"""What another policy would have granted: the requests of a live service's journal, decided again in virtual time.

The machine is as it was: its disks come and go, fall silent and are drained at the same times. A grant that was given
back before its time is held for as long as it was then. One that was granted only now is held for all of its time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.control import Control
from forebay.decide.grants.machine import DiskSpec
from forebay.decide.grants.rules import GrantRules
from forebay.model.grant import Ask, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What became of a request: "granted", "refused", or "waiting" at the end; `waited` is seconds until its start."""

    verdict: str = "waiting"
    because: str = ""
    waited: float = 0.0
    disks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """All requests under one policy. `waited` is the mean over those granted, in seconds."""

    policy: str
    granted: int
    refused: int
    waiting: int
    bytes: int
    waited: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request under both policies."""

    ask: Ask
    asked: float
    then: Decided
    now: Decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    then: Side
    now: Side
    rows: tuple[Row, ...]

    @property
    def changed(self) -> tuple[Row, ...]:
        """Those whom the other policy would have answered otherwise, or on other disks, or at another time."""
        return tuple(row for row in self.rows if _answer(row.then) != _answer(row.now))


def _answer(decided: Decided) -> tuple[object, ...]:
    return decided.verdict, decided.disks, decided.waited


@dataclass
class _Past:
    """What a journal tells: what happened to the service from outside, and how each request fared."""

    commands: list[tuple[float, co.Command]] = field(default_factory=list)
    asked: dict[str, ev.Asked] = field(default_factory=dict)
    decided: dict[str, Decided] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)  # seconds until it was given back
    policies: list[str] = field(default_factory=list)
    end: float = -math.inf


def replay_journal(
    events: Iterable[ev.Event], policy: str | None = None, *, progress: Callable[[float], None] | None = None
) -> Comparison:
    """A journal's requests under another policy, beside what was decided then; None means the policies of then.

    `progress` is told what part of it is done, from 0 to 1.
    """
    past = _read(events, policy)
    decided = _decide_again(past, progress or (lambda _: None))
    rows = tuple(
        Row(ask=asked.ask, asked=asked.at, then=past.decided[name], now=decided[name])
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


def _read(events: Iterable[ev.Event], policy: str | None) -> _Past:
    past, control, machine = _Past(), Control(), _Machine()
    shadow = replace(GrantRules(), shadow=True)
    past.commands.append((-math.inf, co.ChangeRules(caller=co.SERVICE, rules=shadow)))
    if policy is not None:
        past.commands.append((-math.inf, co.ChangePolicy(caller=co.SERVICE, policy=policy)))
    for event in events:
        past.end = max(past.end, event.at)
        past.commands += [(event.at, command) for command in _commands(event, control, machine, policy is None)]
        _note(past, event, control)
        control.apply(event)
    return past


def _note(past: _Past, event: ev.Event, control: Control) -> None:
    """How a request fares, by an event that is about to be applied."""
    _judge(past.decided, event, past.asked)
    if isinstance(event, ev.Asked):
        past.asked[event.ask.grant] = event
    elif isinstance(event, ev.PolicyChanged):
        past.policies.append(event.policy)
    elif isinstance(event, ev.Releasing | ev.Ended):
        grant = control.grant(event.grant)
        if grant.start and grant.state is not State.RELEASING and event.at < grant.end:
            past.held[event.grant] = event.at - grant.start


def _judge(decided: dict[str, Decided], event: ev.Event, asked: dict[str, ev.Asked]) -> None:
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


class _Machine:
    """The nodes of the journal with their disks, as far as it is read."""

    def __init__(self) -> None:
        self._nodes: dict[str, ev.NodeRegistered] = {}
        self._disks: dict[str, dict[str, DiskSpec]] = {}

    def described(self, event: ev.NodeRegistered | ev.DiskRegistered | ev.DiskVanished) -> co.Command:
        """The node that the event is about, as its agent would describe it now."""
        if isinstance(event, ev.NodeRegistered):
            name, self._nodes[event.node] = event.node, event
            self._disks.setdefault(name, {})
        elif isinstance(event, ev.DiskRegistered):
            name = event.node
            self._disks[name][event.disk.name] = event.disk
        else:
            name, _, disk = event.disk.partition("/")
            self._disks[name].pop(disk, None)
        return co.Register(
            caller=co.Caller(role="agent", node=name),
            node=name,
            network_bandwidth=self._nodes[name].network_bandwidth,
            fields=self._nodes[name].fields,
            disks=tuple(self._disks[name].values()),
        )


def _commands(event: ev.Event, control: Control, machine: _Machine, same: bool) -> Iterator[co.Command]:
    """What was asked of the service, by the event that it led to; nothing for what it did by itself."""
    if isinstance(event, ev.Asked):
        yield co.Request(caller=co.SERVICE, ask=event.ask)
    elif isinstance(event, ev.NodeRegistered | ev.DiskRegistered | ev.DiskVanished):
        yield machine.described(event)
        yield from _reopen_disk(event, control)
    elif isinstance(event, ev.NodeSilent):
        yield co.Silent(caller=co.SERVICE, node=event.node)
    elif isinstance(event, ev.NodeAnswered):
        yield co.Seen(caller=co.Caller(role="agent", node=event.node), node=event.node)
    elif isinstance(event, ev.DiskSuspended | ev.DiskUnseen):  # whichever policy decides, nothing could be put there
        yield co.Drain(caller=co.SERVICE, what=event.disk)
    elif isinstance(event, ev.DiskResumed):
        yield from _reopen_disk(event, control)
    elif isinstance(event, ev.Drained):
        yield co.Drain(caller=co.SERVICE, what=event.what)
    elif isinstance(event, ev.Undrained):
        yield co.Undrain(caller=co.SERVICE, what=event.what)
    elif isinstance(event, ev.RulesChanged):
        yield co.ChangeRules(caller=co.SERVICE, rules=replace(event.rules, shadow=True))
    elif isinstance(event, ev.PolicyChanged) and same:
        yield co.ChangePolicy(caller=co.SERVICE, policy=event.policy)
    elif isinstance(event, ev.Extended):
        yield _Longer(caller=co.SERVICE, grant=event.grant, seconds=event.end - control.grant(event.grant).end)
    elif isinstance(event, ev.Ended) and control.grant(event.grant).state is State.QUEUED:
        yield _Withdraw(caller=co.SERVICE, grant=event.grant)


def _reopen_disk(event: ev.Event, control: Control) -> Iterator[co.Command]:
    """What was closed because it did not work is open again, unless an administrator has drained it."""
    if isinstance(event, ev.DiskRegistered):
        disk = control.tables.disks.get(f"{event.node}/{event.disk.name}")
        is_opened = disk is not None and disk.unseen != "" and disk.suspension is None
    elif isinstance(event, ev.DiskVanished | ev.DiskResumed):
        disk = control.tables.disks.get(event.disk)
        is_opened = disk is not None and (disk.unseen != "" or disk.suspension is not None)
    else:
        return
    if disk is not None and is_opened and not disk.drained:
        yield co.Undrain(caller=co.SERVICE, what=disk.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Longer(co.Command):
    """Extend a grant by so many seconds, wherever it ends now."""

    grant: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Withdraw(co.Command):
    """Who gave up waiting does so again, unless there is nothing to wait for."""

    grant: str


class _Again:
    """A service in virtual time, which does nothing but decide."""

    def __init__(self, past: _Past) -> None:
        self.control = Control()
        self.decided: dict[str, Decided] = {}
        self.now = 0.0
        self._past = past
        self._releases: list[tuple[float, str]] = []

    def run_until(self, time: float) -> None:
        """Let happen what happens by itself before a time."""
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

    def do(self, command: co.Command) -> None:
        translated = self._translate_command(command)
        for event in self.control.handle(translated, self.now) if translated is not None else ():
            self.control.apply(event)
            _judge(self.decided, event, self._past.asked)
            if isinstance(event, ev.Granted) and event.grant in self._past.held:
                heapq.heappush(self._releases, (event.start + self._past.held[event.grant], event.grant))

    def _translate_command(self, command: co.Command) -> co.Command | None:
        if isinstance(command, _Longer):
            grant: Any = self.control.tables.grants.get(command.grant)
            end = grant.end + command.seconds if grant is not None and grant.end else 0.0
            return co.Extend(caller=command.caller, grant=command.grant, end=end) if end else None
        if isinstance(command, _Withdraw):
            waits = self.control.position(command.grant) > 0
            return co.Release(caller=command.caller, grant=command.grant) if waits else None
        return command


def _decide_again(past: _Past, progress: Callable[[float], None]) -> dict[str, Decided]:
    again = _Again(past)
    for done, (at, command) in enumerate(past.commands):
        time = max(again.now, at)  # a clock that was put back stands still here
        again.run_until(time)
        again.now = time
        again.do(command)
        progress((done + 1) / len(past.commands))
    again.run_until(past.end)
    return again.decided
