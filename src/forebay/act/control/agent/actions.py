"""Actions of the control service, carried out on the node: make a volume, or release it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from forebay.act.control.agent.disks import AgentDisk
from forebay.act.control.agent.reports import VolumeReport
from forebay.act.control.auth.volume_keys import without_key
from forebay.act.volumes.exposure import Exposures
from forebay.act.volumes.volume import BadRequest, NoRoom, Volume, WrongOwner, check_name
from forebay.decide.grants.action import Action
from forebay.model.errors import UnknownName, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Action):
    """An action with the key of the volume, for means of exposure that need one."""

    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What an agent works on. At most one action may run on a volume at a time."""

    disks: Mapping[str, AgentDisk]
    exposures: Exposures

    def disk(self, name: str) -> AgentDisk:
        if name not in self.disks:
            raise UnknownName("disk", name, self.disks)
        return self.disks[name]

    def make(self, action: Order) -> VolumeReport:
        """Make, mount and expose it; the report. If that fails, nothing new is left behind.

        An error if it can't be brought up, but is there: what its user wrote is not given up at the first try.
        """
        try:
            disk = self.disk(action.disk)
            disk.check_means(action.expose)
            return self._made(disk, action)
        except UserError as error:
            if self.is_there(action):
                raise
            return failed(action, error)

    def is_there(self, action: Action) -> bool:
        """Whether any of the volume is on its disk."""
        disk = self.disks.get(action.disk)
        return disk is not None and any(made.name == action.volume for made in disk.volumes.find())

    def _made(self, disk: AgentDisk, action: Order) -> VolumeReport:
        fresh = not self.is_there(action)
        made = disk.volumes.make(
            action.volume, action.size, uid=action.uid, gid=action.gid, mode=action.mode,
            ceiling=action.ceiling or None,
        )  # fmt: skip
        try:
            settings = self._settings(made, action)
        except UserError:
            if fresh:  # nobody wrote into it yet
                disk.volumes.release(action.volume)
            raise
        where = disk.reached(made)
        return VolumeReport(
            kind="made", volume=action.volume, disk=action.disk, path=where["path"], device=where["device"],
            settings=settings,
        )  # fmt: skip

    def _settings(self, made: Volume, action: Order) -> dict[str, str]:
        if action.expose in ("", "none"):
            return {}
        exposed = self.exposures.expose(made, action.expose, action.hosts, key=action.key)
        return without_key(exposed.settings)  # the service knows the key

    def release(self, action: Action) -> VolumeReport:
        """Withdraw it from all hosts and take it away; the report. An error if it is still there."""
        disk = self.disk(action.disk)
        self.exposures.withdraw(check_name(action.volume))
        disk.volumes.release(action.volume)
        return {"kind": "gone", "volume": action.volume, "disk": action.disk}

    def do(self, action: Order) -> VolumeReport:
        return self.make(action) if action.kind == "make" else self.release(action)


def failed(action: Action, error: UserError) -> VolumeReport:
    """The report of a volume that can't be made; if that is not the disk's fault, whose it is."""
    fault = "room" if isinstance(error, NoRoom) else "request" if isinstance(error, WrongOwner | BadRequest) else "disk"
    report = _report("failed", action, error)
    if fault != "disk":
        report["fault"] = fault
    return report


def stuck(action: Action, error: UserError) -> VolumeReport:
    """The report of a volume that can't be removed."""
    return _report("stuck", action, error)


def _report(kind: Literal["failed", "stuck"], action: Action, error: UserError) -> VolumeReport:
    return {"kind": kind, "volume": action.volume, "disk": action.disk, "because": str(error)[:LONGEST_REASON]}


LONGEST_REASON = 1000
"""Characters of a reason that are reported."""
_NAMES = {each.name for each in fields(Order)}


def action_of(document: Mapping[str, Any]) -> Order:
    """An action as the service sends it; fields of later versions are ignored."""
    known = {name: value for name, value in document.items() if name in _NAMES and value is not None}
    return Order(**known | {"hosts": tuple(known.get("hosts", ()))})
