"""The disks of a storage node as its agent's file describes them, and what is on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forebay.act.control.agent.reports import DiskReport, FoundVolume, Reached
from forebay.act.control.auth.volume_keys import without_key
from forebay.act.volumes.exposure import Exposure, Exposures
from forebay.act.volumes.volume import Volume
from forebay.act.volumes.volume_lifecycle import Volumes
from forebay.model.errors import BadInput

FIELD = "expose"
"""The field of every disk that says how its volumes are reached: "none" is where they are mounted on the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDisk:
    """One disk. `capacity` in bytes, None for all that is usable; bandwidths in bytes per second.

    `expose` is the one means by which its volumes are reached: "none" if they are mounted on the node. `root` is
    the folder on it that shows whether it is there.
    """

    name: str
    volumes: Volumes
    read_bandwidth: float
    write_bandwidth: float
    capacity: int | None = None
    identity: str = ""
    expose: str = "none"
    root: Path | None = None
    fields: Mapping[str, object] = field(default_factory=dict)

    def describe(self, before: int = 0) -> DiskReport:
        """The disk for the service; `before` is the capacity that it reported last."""
        return {
            "name": self.name,
            "capacity": self._capacity(before),
            "read_bandwidth": self.read_bandwidth,
            "write_bandwidth": self.write_bandwidth,
            "kind": self.volumes.kind,
            "identity": self.identity,
            "fields": {FIELD: self.expose, "kind": self.volumes.kind, **self.fields},
        }

    def _capacity(self, before: int) -> int:
        """At most what is usable. A few bytes more or less are not worth a report."""
        usable = self.volumes.usable()
        if self.capacity is not None and self.capacity <= usable:
            return self.capacity
        step = 1 << max(0, usable.bit_length() - 8)
        return before if before <= usable < before + 2 * step else usable // step * step

    def reached(self, made: Volume) -> Reached:
        """Where users find a volume. An exposed one has settings instead."""
        mounted = self.expose == "none"
        return {"path": str(made.path) if mounted else "", "device": made.device if mounted else ""}

    def check_means(self, how: str) -> None:
        """Whether a volume on this disk can be exposed that way."""
        if (how or "none") != self.expose:
            where = "are mounted on the node" if self.expose == "none" else f"are exposed by {self.expose}"
            raise BadInput(f"disk {self.name}", f"its volumes {where}; {how or 'none'} is not possible there")


def find_volumes(disk: AgentDisk, exposures: Exposures) -> list[FoundVolume]:
    """All of Forebay's volumes on the disk. A volume that should be exposed and is not is only half there."""
    served = {each.name: each for each in exposures.list()}
    return [_found(disk, made, served.get(made.name)) for made in disk.volumes.find()]


def _found(disk: AgentDisk, made: Volume, exposed: Exposure | None) -> FoundVolume:
    served = disk.expose == "none" or (exposed is not None and exposed.state == "whole")
    return {
        "name": made.name,
        "disk": disk.name,
        "size": made.size,
        "state": "whole" if made.state == "whole" and served else "half",
        **disk.reached(made),
        "settings": {} if exposed is None else without_key(exposed.settings),
        "uid": made.uid,
        "gid": made.gid,
        "mode": made.mode,
        "ceiling": made.asked_ceiling,
        "since": made.since,
    }
