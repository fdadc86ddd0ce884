"""The first decision of a process compiles: that is done before anybody waits for one."""

from forebay.decide.grants import commands as co
from forebay.decide.grants.control import Control
from forebay.decide.grants.machine import DiskSpec
from forebay.decide.grants.rules import GrantRules
from forebay.model.grant import Ask

_SIZES = (10, 250, 900, 900, 10)  # whole, split, all that is left, more than is left, and again


def warm_up(policy: str) -> None:
    """Go once through all that a request can lead to, on a machine that is made up."""
    control, service = Control(), co.SERVICE
    rules = GrantRules(split=100, shadow=True)
    control.do(co.ChangeRules(caller=service, rules=rules), 0.0)
    control.do(co.ChangePolicy(caller=service, policy=policy), 0.0)
    disks = tuple(DiskSpec(name=name, capacity=300, write_bandwidth=1.0, read_bandwidth=1.0) for name in "xy")
    for node in ("a", "b"):
        caller = co.Caller(role="agent", node=node)
        control.do(co.Register(caller=caller, node=node, network_bandwidth=1.0, disks=disks, volumes=()), 0.0)
    for number, size in enumerate(_SIZES):
        ask = Ask(grant=f"{number:032x}", key=str(number), uid=0, gid=0, size=size, seconds=60.0 + number)
        control.do(co.Request(caller=service, ask=ask), 1.0)
    for number in range(len(_SIZES)):
        control.do(co.Extend(caller=service, grant=f"{number:032x}", end=100.0), 1.5)
        control.do(co.Release(caller=service, grant=f"{number:032x}"), 2.0)
    control.do(co.Tick(caller=service), 1000.0)
