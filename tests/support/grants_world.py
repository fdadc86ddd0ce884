"""Users, agents, a network and a clock none of which can be relied on; and what must hold all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from forebay.decide.grants import commands as co
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.control import Control
from forebay.decide.grants.grant_limits import GrantRules
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import ENDED, LIVE, ON_DISK, Ask, State
from support.grants import (
    ADMINISTRATOR,
    USER,
    Agent,
    Service,
    agent,
    ask,
    check,
    check_space,
    digest_of,
    disk,
    fold,
    grant_id,
)

Pick = Callable[[Sequence[Any]], Any]
NODES = ("n1", "n2")
CAPACITY = 100
POLICIES = ("forebay", "round-robin", "worst-fit", "best-bandwidth", "random", "fill", "first-fit", "best-fit")
_SIZES = (1, 7, 13, 20, 25, 33, 50, 60, 99, 100, 101, 250, 400, 401)


def always(value: object) -> Pick:
    return lambda _: value


class World:
    """Two nodes with two disks each. Every step is decided by `pick`, which takes one of several."""

    def __init__(self, pick: Pick) -> None:
        self.service = Service(now=1000.0)
        self.agents = {
            node: Agent(node=node, disks={name: disk(name, CAPACITY, fields={"tier": name}) for name in "ab"})
            for node in NODES
        }
        self.asked: dict[int, Ask] = {}
        self.over_full: set[str] = set()
        self.precious: set[tuple[str, str, str]] = set()  # node, disk and volume, from before the store was put back
        self.most = 0
        rules = GrantRules(
            split=pick([0, 20, 50]), tries=pick([0, 1, 3, 12]), interval=50.0, remember=2000.0, longest=1000.0
        )
        self.service.do(co.ChangeRules(caller=ADMINISTRATOR, rules=rules))
        self.service.do(co.ChangePolicy(caller=ADMINISTRATOR, policy=pick(POLICIES)))
        for own in self.agents.values():
            own.there = set(own.disks)
            self.service.do(own.description())

    @property
    def control(self) -> Control:
        return self.service.control

    def request(self, pick: Pick) -> None:
        for _ in range(pick([1, 1, 3])):
            number = self.most = self.most + 1
            ahead, tier = pick([None, None, None, 0.0, 40.0, 200.0]), pick(["", "", "", "a", "c"])
            self.asked[number] = ask(
                number,
                pick(_SIZES),
                float(pick([1, 30, 100, 300])),
                start=None if ahead is None else self.service.now + ahead,
                wants={"tier": tier} if tier else {},
            )
            assert self.service.kinds(co.Request(caller=USER, ask=self.asked[number])).count("Asked") == 1

    def request_again(self, pick: Pick) -> None:
        """Whoever asks with a known key gets nothing new, however often; and another request no answer at all."""
        numbers = [n for n in self.asked if self.control.by_key(1000, f"key-{n}")]
        if numbers:
            number = pick(numbers)
            again = self.service.kinds(co.Request(caller=USER, ask=self.asked[number]))
            assert "Asked" not in again
            if self.control.by_key(1000, f"key-{number}"):
                other = ask(number + 10**6, self.asked[number].size + 1, key=f"key-{number}")
                with pytest.raises(Refused, match="already used for another request"):
                    self.control.handle(co.Request(caller=USER, ask=other), self.service.now)

    def hold(self, pick: Pick) -> None:
        """A user releases, extends or uses a grant."""
        known = [g for g in sorted(self.control.tables.grants) if self.control.grant(g).state in LIVE]
        if not known:
            return
        name, what = pick(known), pick(["release", "extend", "use", "use"])
        if what == "release":
            self._may_go(lambda _, volume: volume.startswith(name))
            self.service.do(co.Release(caller=USER, grant=name))
        elif what == "use":
            self.service.do(co.Use(caller=USER, grant=name))
        else:
            end = self.control.grant(name).end
            wanted = end + pick([-20.0, 0.0, 10.0, 100.0, 300.0])
            self.service.do(co.Extend(caller=USER, grant=name, end=wanted))
            assert self.control.grant(name).end in (end, wanted, 0.0)

    def work(self, pick: Pick) -> None:
        """An agent does what it is to do, and all its reports arrive in order."""
        own = self.agents[pick(NODES)]
        own.orders = own.orders or self.control.actions(own.node)
        while own.orders:
            own.carry_out()
        for report in own.outbox:
            self._accept(report)
        own.outbox.clear()

    def stumble(self, pick: Pick) -> None:
        """An agent does one thing, or half of it, or finds that it can't."""
        own = self.agents[pick(NODES)]
        own.orders = own.orders or self.control.actions(own.node)
        if own.orders:
            how = pick(["done", "done", "halfway", "fails"])
            own.carry_out(halfway=how == "halfway", fails=how == "fails")

    def deliver(self, pick: Pick) -> None:
        """Any of an agent's reports: they overtake each other, come twice, or never."""
        outbox = self.agents[pick(NODES)].outbox
        if outbox:
            at, fate = pick(range(len(outbox))), pick(["once", "once", "twice", "lost"])
            if fate != "lost":
                self._accept(outbox[at])
            if fate != "twice":
                outbox.pop(at)

    def _accept(self, report: co.Command) -> None:
        try:
            self.service.do(report)
        except BadInput as error:  # it comes late: that disk was unplugged since
            assert isinstance(report, co.Found) and "is not registered" in str(error)

    def look(self, pick: Pick) -> None:
        """An agent looks at what it has; or starts anew, and then nothing is mounted."""
        own = self.agents[pick(NODES)]
        if pick([False, True]):
            report: co.Command = co.Found(
                caller=agent(own.node), node=own.node, volumes=own.found(), number=own.next_number()
            )
        else:
            own.volumes = {key: (size, False) for key, (size, _) in own.volumes.items()}
            own.outbox.clear()
            report = own.description()
        if pick([False, True]):
            own.outbox.append(report)
        else:
            self._accept(report)

    def trouble(self, pick: Pick) -> None:
        """Something happens to the machine, or is done by its administrator."""
        what: Callable[[Pick], None] = pick(
            [
                self._destroy,
                self._plug,
                self._plug,
                self._hide,
                self._break,
                self._resize,
                self._silence,
                self._drain,
                self._change,
            ]
        )
        what(pick)

    def _destroy(self, pick: Pick) -> None:
        """Somebody removes a volume behind its agent's back."""
        own = self.agents[pick(NODES)]
        if own.volumes:
            on, name = pick(sorted(own.volumes))
            del own.volumes[on, name]
            self.precious.discard((own.node, on, name))
            report = co.Lost(caller=agent(own.node), volume=name, because="not there", number=own.next_number())
            own.outbox.append(report)

    def _plug(self, pick: Pick) -> None:
        """A disk goes, or comes back with what was on it."""
        own = self.agents[pick(NODES)]
        own.there ^= {pick("ab")}
        self.service.do(own.description())

    def _hide(self, pick: Pick) -> None:
        """A disk is not mounted, or is again; until then nobody can say what is on it."""
        own = self.agents[pick(NODES)]
        own.unseen ^= {pick("ab")}
        self.service.do(own.description())

    def _break(self, pick: Pick) -> None:
        """For a while nothing can be made or removed on a disk, and its agent reports so."""
        own, broken = self.agents[pick(NODES)], pick("ab")
        for _ in range(pick([1, 4])):
            number = self.most = self.most + 1
            self.asked[number] = ask(number, 1, 100.0, wants={"tier": broken})
            self.service.do(co.Request(caller=USER, ask=self.asked[number]))
            own.orders = self.control.actions(own.node)
            while own.orders:
                own.carry_out(fails=own.orders[0].disk == broken)
            for report in own.outbox:
                self._accept(report)
            own.outbox.clear()

    def _resize(self, pick: Pick) -> None:
        own, name, capacity = self.agents[pick(NODES)], pick("ab"), pick([0, 60, 100, 150])
        if capacity < own.disks[name].capacity:
            self.over_full.add(f"{own.node}/{name}")
        own.disks[name] = disk(name, capacity, fields={"tier": name})
        self.service.do(own.description())

    def _silence(self, pick: Pick) -> None:
        node = pick(NODES)
        self.service.do(co.Silent(caller=ADMINISTRATOR, node=node))
        if pick([True, True, False]):
            self.service.do(co.Seen(caller=agent(node), node=node))

    def _drain(self, pick: Pick) -> None:
        what = pick(["n1", "n2/b"])
        if what == "n1" or what in self.control.tables.disks:
            self.service.do(co.Drain(caller=ADMINISTRATOR, what=what))
            if pick([True, True, False]):
                self.service.do(co.Undrain(caller=ADMINISTRATOR, what=what))

    def _change(self, pick: Pick) -> None:
        self.service.do(co.ChangePolicy(caller=ADMINISTRATOR, policy=pick(POLICIES)))
        self.service.rules(split=pick([0, 20, 50]))

    def restore(self, pick: Pick) -> None:
        """The store is put back to an earlier copy; what agents have in hand, and their messages, are as they were."""
        if pick([True, True, True, False]):
            return
        tables, lines, commits = self.control.tables, self.service.journal, self.service.commits
        for volume in tables.volumes.values():
            if volume.state in ON_DISK and tables.grants[volume.grant].state is not State.RELEASING:
                self.precious.add((volume.node, volume.disk.partition("/")[2], volume.name))
        self.precious = {
            (node, on, name) for node, on, name in self.precious if (on, name) in self.agents[node].volumes
        }
        commits = commits[: pick(range(3, len(commits))) + 1]  # what the rules are, and one node, is known at least
        self.service = Service(now=self.service.now, commits=commits)
        for line in lines[: commits[-1]]:
            self.service.journal.append(line)
            self.service.control.apply(from_line(line))
            self.service.mirror.apply(from_line(line))
        known = self.control.tables.grants.keys() | self._forgotten()
        self.asked = {number: own for number, own in self.asked.items() if own.grant in known}
        for own in self.agents.values():
            own.there, own.unseen, own.is_surprised = set(own.disks), set(), True
            self.service.do(replace(own.description(), ours=False))

    def decide(self, pick: Pick) -> None:
        """An administrator looks at what is kept, and has some of it removed, or made grants again."""
        strays = [stray for stray in self.control.tables.strays.values() if stray.held]
        kept = {volume.grant for volume in self.control.tables.kept_volumes()} | {stray.grant for stray in strays}
        what = pick(sorted(kept) if kept and pick([True, True, False]) else NODES)
        if pick([True, False]):
            self._may_go(lambda node, volume: node == what or volume.startswith(what))
            self.service.do(co.Discard(caller=ADMINISTRATOR, what=what))
        elif what in NODES or any(stray.grant == what for stray in strays):
            self._adopt(what)

    def _adopt(self, what: str) -> None:
        try:
            self.service.do(co.Adopt(caller=ADMINISTRATOR, what=what, seconds=100.0))
        except Refused as error:
            assert "cannot be adopted" in str(error)
        for name, own in self.control.tables.grants.items():
            if own.ask.key == name:  # it is one like any other from now on
                self.precious = {one for one in self.precious if not one[2].startswith(name)}
                self.asked[int(name, 16)] = own.ask

    def _may_go(self, which: Callable[[str, str], bool]) -> None:
        self.precious = {(node, on, name) for node, on, name in self.precious if not which(node, name)}

    def wait(self, pick: Pick) -> None:
        self.service.tick(self.service.now + pick([0.0, 1.0, 20.0, 50.0, 100.0]))

    def jump(self, pick: Pick) -> None:
        """The clock is put forward or back."""
        self.service.now = max(1.0, self.service.now + pick([-1e6, -300.0, -10.0, 1.0, 500.0, 5000.0]))

    def check(self) -> None:
        """What must hold after every step."""
        check(self.control)
        check_space(self.control, over_full=self.over_full)
        missing = {grant_id(n) for n in self.asked} - self.control.tables.grants.keys()
        assert missing == self._forgotten()
        for own in self.agents.values():
            assert {(on, name) for node, on, name in self.precious if node == own.node} <= own.volumes.keys()
            for name, said in own.disks.items():
                assert own.used(name) <= said.capacity or f"{own.node}/{name}" in self.over_full

    def _forgotten(self) -> set[str]:
        events: list[Any] = [from_line(line) for line in self.service.journal if '"Forgotten"' in line]
        return {name for event in events for name in event.grants}

    def finish(self) -> Counter[str]:
        """When all is over nothing is left, whatever happened before. Returns how often everything happened."""
        again = fold(from_line(line) for line in self.service.journal)
        assert digest_of(again) == digest_of(self.control)
        assert digest_of(Control.from_document(again.document())) == digest_of(again)
        happened = Counter(type(from_line(line)).__name__ for line in self.service.journal)
        for own in self.agents.values():
            own.outbox.clear()
            own.there, own.unseen = set(own.disks), set()
            self.service.do(own.description())
            self.service.do(co.Discard(caller=ADMINISTRATOR, what=own.node))
        for _ in range(self.control.rules.tries + 4):
            self.service.tick(max(1e7, self.service.now) + 10_000.0)
            for own in self.agents.values():
                own.outbox.append(own.description())
                self.work(always(own.node))
        tables = self.control.tables
        assert all(grant.state in ENDED for grant in tables.grants.values())
        assert not any(own.volumes for own in self.agents.values()), "a volume without an owner"
        assert not tables.space.holds and not tables.strays
        return happened
