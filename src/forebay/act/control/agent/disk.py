"""A disk as its agent describes it to the service: its capacity, and Forebay's volumes on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forebay.act.control.api.forms import DiskForm, VolumeForm
from forebay.act.control.auth.volume_keys import without_key
from forebay.act.volumes.exposure import Exposures
from forebay.act.volumes.volume import Volume
from forebay.act.volumes.volume_lifecycle import Volumes
from forebay.model.units import format_size

EXPOSE = "expose"
"""The field of every disk that says how clients reach its volumes; "none": the node mounts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDisk:
    """One disk. `capacity` is in bytes (None: all usable space), bandwidths in bytes per second.

    `expose` says how clients reach its volumes; "none": the node mounts them. `root` is the folder that shows whether
    the disk is present.
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

    def describe(self, before: int = 0) -> DiskForm:
        """The disk for the service; `before` is the capacity that it reported last."""
        return DiskForm(
            name=self.name, capacity=self._capacity(before), read_bandwidth=self.read_bandwidth,
            write_bandwidth=self.write_bandwidth, kind=self.volumes.kind, identity=self.identity,
            fields={EXPOSE: self.expose, "kind": self.volumes.kind, **self.fields},
        )  # fmt: skip

    def describe_shortage(self) -> str:
        """Say that the disk offers less than its settings promise; "" if it does not."""
        if self.capacity is None or self.capacity <= self.volumes.usable():
            return ""
        promised, offered = format_size(self.capacity), format_size(self._capacity(0))
        return f"disk {self.name}: capacity is {promised}, but only {offered} are usable and offered"

    def _capacity(self, before: int) -> int:
        """The capacity, at most the usable space. Small changes of the usable space do not change it."""
        usable = self.volumes.usable()
        if self.capacity is not None and self.capacity <= usable:
            return self.capacity
        step = 1 << max(0, usable.bit_length() - 8)
        return before if before <= usable < before + 2 * step else usable // step * step

    def place_of(self, volume: Volume) -> tuple[str, str]:
        """The path and device of a volume for users; empty for an exposed one, which has settings instead."""
        return (str(volume.path), volume.device) if self.expose == "none" else ("", "")

    def find_volumes(self, exposures: Exposures) -> list[VolumeForm]:
        """All of Forebay's volumes on the disk. A volume that should be exposed and is not is incomplete."""
        exposed = {each.name: each for each in exposures.list()}
        forms = []
        for volume in self.volumes.find():
            path, device = self.place_of(volume)
            served = exposed.get(volume.name)
            is_served = self.expose == "none" if served is None else served.state == "whole"
            form = VolumeForm(
                name=volume.name, disk=self.name, size=volume.size, path=path, device=device,
                state="whole" if volume.state == "whole" and is_served else "half",
                settings={} if served is None else without_key(served.settings),
                uid=volume.uid, gid=volume.gid, mode=volume.mode, ceiling=volume.asked_ceiling, since=volume.since,
            )  # fmt: skip
            forms.append(form)
        return forms
