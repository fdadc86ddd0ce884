"""The first decision of a process compiles: that is done before anybody waits for one."""

from __future__ import annotations

from dataclasses import replace

from forebay.decide.grants import commands as co
from forebay.decide.grants.control import Control
from forebay.decide.grants.machine import DiskSpec
from forebay.decide.grants.rules import GrantRules
from forebay.model.grant import Ask

_SIZES = (10, 250, 900, 900, 10)  # whole, split, all that is left, more than is left, and again


def warm_up(policy: str) -> None:
    """Go once through all that a request can lead to, on a machine that is made up."""
    control = Control()
    rules = replace(GrantRules(), split=100, shadow=True)
    _do(control, co.ChangeRules(caller=co.SERVICE, rules=rules), 0.0)
    _do(control, co.ChangePolicy(caller=co.SERVICE, policy=policy), 0.0)
    for node in ("a", "b"):
        disks = tuple(DiskSpec(name=name, capacity=300, write_bandwidth=1.0, read_bandwidth=1.0) for name in "xy")
        caller = co.Caller(role="agent", node=node)
        _do(control, co.Register(caller=caller, node=node, network_bandwidth=1.0, disks=disks, volumes=()), 0.0)
    for number, size in enumerate(_SIZES):
        ask = Ask(grant=f"{number:032x}", key=str(number), uid=0, gid=0, size=size, seconds=60.0 + number)
        _do(control, co.Request(caller=co.SERVICE, ask=ask), 1.0)
    for number in range(len(_SIZES)):
        _do(control, co.Extend(caller=co.SERVICE, grant=f"{number:032x}", end=100.0), 1.5)
        _do(control, co.Release(caller=co.SERVICE, grant=f"{number:032x}"), 2.0)
    _do(control, co.Tick(caller=co.SERVICE), 1000.0)


def _do(control: Control, command: co.Command, now: float) -> None:
    for event in control.handle(command, now):
        control.apply(event)
