"""A file system as an administrator describes it, in TOML. For example:

[filesystem]
kind = "lustre"          # or "beegfs7", "beegfs8"; "forebay" is a mount of the forwarding layer
name = "scratch"         # as in scratch-OST0000
mount = "/scratch"
timeout = "10 s"         # for each command
max_count = 64           # the largest stripe count to give anybody
prometheus = "http://metrics.example.org:9090"
window = "60 s"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from forebay.history.toml import Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput, UnknownName
from forebay.model.units import format_duration

Kind = Literal["lustre", "beegfs7", "beegfs8", "forebay"]
MOST_TARGETS = 65535
LONGEST = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One file system, and where its live state is to be had; durations in seconds.

    `targets` is how many there are where their state is not to be had. `window` is how far back a
    target counts as in use, `sample` how far apart two readings of the job statistics are.
    """

    kind: Kind
    name: str = ""
    mount: Path | None = None
    targets: int | None = None
    timeout: float = 10.0
    max_count: int | None = None
    prometheus: str = ""
    job_stats: bool = False
    window: float = 60.0
    sample: float = 1.0

    def __post_init__(self) -> None:
        if self.name and not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise ValueError(f"name: only letters, digits, '_', '.' and '-', not {self.name!r}")
        if self.mount is not None and not self.mount.is_absolute():
            raise ValueError(f"mount: must be a whole path, not {str(self.mount)!r}")
        for key, count in (("targets", self.targets), ("max_count", self.max_count)):
            if count is not None and not 1 <= count <= MOST_TARGETS:
                raise ValueError(f"{key}: must be between 1 and {MOST_TARGETS}, not {count}")
        for key, seconds in (("timeout", self.timeout), ("window", self.window), ("sample", self.sample)):
            if not 0 < seconds <= LONGEST:
                raise ValueError(f"{key}: must be longer than 0 s and at most a day, not {format_duration(seconds)}")
        if self.kind != "lustre" and (self.prometheus or self.job_stats):
            raise ValueError(f"{'prometheus' if self.prometheus else 'job_stats'}: is for kind 'lustre' only")
        if self.prometheus:
            _check_address(self.prometheus)


class _FileSystem(Table):
    kind: str
    """lustre, beegfs7 (beegfs-ctl), beegfs8 (beegfs), or forebay (a mounted forwarding layer)."""
    name: str = ""
    """Its name, as in scratch-OST0000."""
    mount: str | None = None
    """Where it is mounted: then its targets are asked for there."""
    targets: int | None = None
    """How many targets there are, where their state is not to be had."""
    timeout: Seconds = 10.0
    """For each command, and for Prometheus."""
    max_count: int | None = None
    """The largest stripe count to give anybody."""
    prometheus: str = ""
    """A Prometheus server that collects lustre_job_write_bytes_total (Lustre only)."""
    job_stats: bool = False
    """Read `lctl get_param obdfilter.*.job_stats` on the node that serves the OSTs (Lustre only)."""
    window: Seconds = 60.0
    """A job that moved nothing for so long does not count."""
    sample: Seconds = 1.0
    """Time between the two readings of the job statistics that give a rate."""


class _File(Table):
    filesystem: _FileSystem
    """A parallel file system."""


def read_settings(path: Path) -> Settings:
    """The file system that the file describes; an error says which key of it is wrong."""
    table = validate(path, load_toml(path), _File).filesystem
    kind = next((k for k in get_args(Kind) if k == table.kind), None)
    if kind is None:
        raise BadInput(f"{path}: filesystem.kind", str(UnknownName("kind of file system", table.kind, get_args(Kind))))
    mount = None if table.mount is None else Path(table.mount)
    values = table.model_dump() | {"kind": kind, "mount": mount}
    try:
        return Settings(**values)
    except ValueError as error:
        key, _, reason = str(error).partition(": ")
        raise BadInput(f"{path}: filesystem.{key}", reason) from None


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine or parts.query or parts.fragment or not address.isprintable() or " " in address:
        raise ValueError(f"prometheus: must be like http://host:9090, not {address!r}")
    if parts.username is not None:
        raise ValueError("prometheus: a user name or password in the address is not supported")
