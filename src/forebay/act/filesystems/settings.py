"""The settings of a file system, in TOML; examples/filesystem.toml explains them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from forebay.act.filesystems.beegfs import BeeGFS7, BeeGFS8
from forebay.act.filesystems.filesystem import FileSystem
from forebay.act.filesystems.forebay_mount import ForebayMount
from forebay.act.filesystems.lustre.filesystem import Lustre
from forebay.act.filesystems.pools import MEASURED
from forebay.history import toml
from forebay.model.units import parse_bandwidth

Kind = Literal["lustre", "beegfs7", "beegfs8", "forebay"]
MOST_TARGETS = 65535
_DAY = 86400.0
_Value = TypeVar("_Value")


def _check_lustre(value: _Value, info: toml.ValidationInfo) -> _Value:
    if value and info.data.get("kind", "lustre") != "lustre":
        raise ValueError("is only for kind 'lustre'; remove it")
    return value


def _check_address(address: str) -> str:
    if not address:
        return address
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.query or parts.fragment or not address.isprintable() or " " in address:
        raise ValueError(f"must be like http://host:9090, not {address!r}")
    if parts.username is not None:
        raise ValueError("must not contain a user name or password")
    return address


_Name = Annotated[str, toml.check_pattern(r"[A-Za-z0-9_.-]*", "only letters, digits, '_', '.' and '-'")]
_Count = Annotated[int, toml.Field(ge=1, le=MOST_TARGETS)]
_Duration = Annotated[toml.Seconds, toml.up_to(_DAY)]


def _parse_rate(value: object) -> float:
    """Parse the bandwidth of a pool's targets, of which 0 stands for the measured one."""
    if value == "measured":
        return MEASURED
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"must be a bandwidth such as '2 GB/s', or 'measured', not {value!r}")
    rate = parse_bandwidth(value)
    if not 0 < rate < math.inf:
        raise ValueError(f"must be more than 0 and finite, not {value!r}")
    return rate


_Rate = Annotated[float, toml.BeforeValidator(_parse_rate)]


class Settings(toml.Table):
    """A file system, and the sources of its live state. Durations are in seconds."""

    kind: Kind
    """lustre, beegfs7 (beegfs-ctl), beegfs8 (beegfs), or forebay (a mounted forwarding layer)."""
    name: _Name = ""
    """Its name, as in scratch-OST0000."""
    mount: toml.WholePath | None = None
    """Its mount point. Forebay lists the targets there."""
    targets: _Count | None = None
    """The number of targets, if no command lists them."""
    timeout: _Duration = 10.0
    """The time limit of each command and of each query to Prometheus."""
    max_count: _Count | None = None
    """The largest stripe count that Forebay advises."""
    pools: Annotated[dict[str, _Rate], toml.AfterValidator(_check_lustre)] = toml.Field(default_factory=dict)
    """The pools that Forebay may choose, with the bandwidth of one target, or "measured" (Lustre only)."""
    prometheus: Annotated[str, toml.AfterValidator(_check_address), toml.AfterValidator(_check_lustre)] = ""
    """A Prometheus server that has lustre_job_write_bytes_total (Lustre only)."""
    job_stats: Annotated[bool, toml.AfterValidator(_check_lustre)] = False
    """Read `lctl get_param obdfilter.*.job_stats` on the node that serves the OSTs (Lustre only)."""
    window: _Duration = 60.0
    """A job that moves no data for this long does not count."""
    sample: _Duration = 1.0
    """The time between two readings of the job statistics, which give a rate."""


class _File(toml.Table):
    filesystem: Settings
    """A parallel file system."""


def read_settings(path: Path) -> Settings:
    """Read the settings of a file system. An error names the file and the key."""
    return toml.validate(path, toml.load_toml(path), _File).filesystem


_KINDS: dict[Kind, type[Lustre | BeeGFS7 | BeeGFS8 | ForebayMount]] = {
    "lustre": Lustre,
    "beegfs7": BeeGFS7,
    "beegfs8": BeeGFS8,
    "forebay": ForebayMount,
}


def open_filesystem(settings: Settings) -> FileSystem:
    """
    >>> len(open_filesystem(Settings(kind="lustre", targets=4)).targets())
    4
    """
    files = _KINDS[settings.kind](mount=settings.mount, known_targets=settings.targets, timeout=settings.timeout)
    return replace(files, max_count=min(settings.max_count or files.max_count, files.max_count))
