"""The state of a service that changes by commands, without a service."""

from __future__ import annotations

from forebay.act.control.service.live_state import EventRecord, Live
from forebay.decide.grants import commands as co
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import DiskSpec
from forebay.model.grant import Ask

ANN, BEN = 1001, 1002


class PageWorld:
    """Disks of 100 bytes; requests above 60 are split. `now` is seconds since 1970."""

    def __init__(self) -> None:
        self.live = Live()
        self.now = 1000.0
        self.do(co.ChangeRules(caller=co.SERVICE, rules=GrantRules(split=60, tries=2, interval=50.0, remember=500.0)))

    def do(self, command: co.Command) -> None:
        for event in self.live.control.handle(command, self.now):
            self.live.apply(EventRecord.of(self.live.last + 1, event))

    def node(self, name: str, *disks: str, fields: dict[str, object] | None = None) -> None:
        said = tuple(
            DiskSpec(name=disk, capacity=100, write_bandwidth=2.0, read_bandwidth=3.0, fields=fields or {})
            for disk in disks
        )
        caller = co.Caller(role="agent", node=name)
        self.do(co.Register(caller=caller, node=name, network_bandwidth=1.0, disks=said, volumes=None))

    def ask(self, uid: int, size: int, seconds: float = 100.0, start: float | None = None, job: str = "") -> str:
        """The grant; they are numbered from 1."""
        grant = f"{self.live.control.tables.facts.asked + 1:032x}"
        wish = Ask(grant=grant, key=grant, uid=uid, gid=1, size=size, seconds=seconds, start=start, job=job)
        self.do(co.Request(caller=co.Caller(role="user", uid=uid), ask=wish))
        return grant

    def release(self, number: int) -> None:
        self.do(co.Release(caller=co.SERVICE, grant=f"{number:032x}"))

    def drain(self, what: str) -> None:
        self.do(co.Drain(caller=co.SERVICE, what=what))

    def carry_out(self) -> None:
        """All agents do what they are to do."""
        for node in list(self.live.control.tables.nodes):
            caller = co.Caller(role="agent", node=node)
            for action in self.live.control.actions(node):
                if action.kind == "make":
                    self.do(co.Made(caller=caller, volume=action.volume))
                else:
                    self.do(co.Gone(caller=caller, volume=action.volume, disk=action.disk))
