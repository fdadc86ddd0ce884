"""Carries out the actions of the service on the disks of a storage node: makes, exposes and removes volumes."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from forebay.act.control.agent.disk import AgentDisk
from forebay.act.control.api.forms import ReportForm
from forebay.act.control.auth.volume_keys import without_key
from forebay.act.volumes.data_server import DataServers, Log
from forebay.act.volumes.exposure import Exposures
from forebay.act.volumes.volume import BadRequest, NoRoom, WrongOwner, check_name
from forebay.decide.grants.machine import Action
from forebay.model.errors import BadInput, UnknownName, UserError
from forebay.model.grant import SHARED

LONGEST_REASON = 1000  # characters of a reported reason


def read_action(document: Mapping[str, Any]) -> Action:
    """An action as the service sends it; fields of later versions are ignored."""
    known = {name: value for name, value in document.items() if name in Action.__slots__ and value is not None}
    return Action(**known | {"hosts": tuple(known.get("hosts", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The disks and exposures of an agent. At most one action may run on a volume at a time."""

    disks: Mapping[str, AgentDisk]
    exposures: Exposures

    def resume(self, log: Log) -> None:
        """Start the data servers of an earlier run again; `log` gets a line when one of them ends."""
        servers = self._servers
        servers.log = log
        plans = {plan.name: plan for plan in self.exposures.list() if plan.kind == SHARED}
        for disk in self.disks.values() if plans else ():
            with suppress(UserError):  # the agent reports a disk that it cannot read
                for volume in disk.volumes.find():
                    if volume.name in plans and volume.state == "whole":
                        servers.resume(plans[volume.name])

    def close(self) -> None:
        """End the data servers; the next run starts them again."""
        self._servers.close()

    @property
    def _servers(self) -> DataServers:
        servers = self.exposures.exposers[SHARED]
        assert isinstance(servers, DataServers)
        return servers

    def disk(self, name: str) -> AgentDisk:
        if name not in self.disks:
            raise UnknownName("disk", name, self.disks)
        return self.disks[name]

    def find_path(self, volume: str) -> str:
        """The path of a volume that is mounted here."""
        for disk in self.disks.values():
            for known in disk.volumes.find():
                if known.name == volume and known.state == "whole" and disk.expose == "none":
                    return str(known.path)
        raise UserError(f"volume {volume} is not mounted on this node")

    def do(self, action: Action) -> ReportForm:
        return self.make(action) if action.kind == "make" else self.release(action)

    def make(self, action: Action) -> ReportForm:
        """Make, mount and expose a volume; returns the report. A failure leaves nothing new behind.

        If a volume that exists cannot be brought up, raise an error, because its user's data is worth another try.
        """
        is_new = not self.is_there(action)
        try:
            return self._make(self.disk(action.disk), action, is_new)
        except UserError as error:
            if self.is_there(action):
                raise
            return report_trouble("failed", action, error)

    def is_there(self, action: Action) -> bool:
        disk = self.disks.get(action.disk)
        return disk is not None and any(volume.name == action.volume for volume in disk.volumes.find())

    def _make(self, disk: AgentDisk, action: Action, is_new: bool) -> ReportForm:
        means, settings = action.expose or "none", {}
        if (means if means != SHARED else "none") != disk.expose:
            where = "are mounted on the node" if disk.expose == "none" else f"are exposed by {disk.expose}"
            raise BadInput(f"disk {disk.name}", f"its volumes {where}; {means} is not possible there")
        volume = disk.volumes.make(
            action.volume, action.size, uid=action.uid, gid=action.gid, mode=action.mode, ceiling=action.ceiling or None
        )
        if means != "none":
            try:
                more = {"index": str(action.index), "servers": str(action.servers)} if means == SHARED else {}
                exposed = self.exposures.expose(volume, means, action.hosts, key=action.key, more=more)
            except UserError:
                if is_new:  # nobody has written to it yet
                    disk.volumes.release(action.volume)
                raise
            settings = without_key(exposed.settings)  # the service derives the key itself
        path, device = disk.place_of(volume)
        return ReportForm(
            kind="made", volume=action.volume, disk=action.disk, path=path, device=device, settings=settings
        )

    def release(self, action: Action) -> ReportForm:
        """Withdraw a volume from all hosts and remove it; returns the report. Raises an error if that fails."""
        disk = self.disk(action.disk)
        self.exposures.withdraw(check_name(action.volume))
        disk.volumes.release(action.volume)
        return ReportForm(kind="gone", volume=action.volume, disk=action.disk)


def report_trouble(kind: Literal["failed", "stuck"], action: Action, error: UserError) -> ReportForm:
    """The report of a volume that cannot be made or removed, with the fault, if it is not the disk's."""
    report = ReportForm(kind=kind, volume=action.volume, disk=action.disk, because=str(error)[:LONGEST_REASON])
    if kind == "failed" and isinstance(error, NoRoom):
        report.fault = "room"
    elif kind == "failed" and isinstance(error, WrongOwner | BadRequest):
        report.fault = "request"
    return report
