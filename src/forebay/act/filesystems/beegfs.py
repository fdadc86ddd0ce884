"""BeeGFS, through `beegfs-ctl` (version 7) or `beegfs` (version 8)."""

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from forebay.act.command import run, run_unchecked
from forebay.act.filesystems.filesystem import (
    Command,
    FileSystem,
    FittedLayout,
    exclude_targets,
    path_argument,
    require_listed,
)
from forebay.history.toml import locate_errors
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import ANY, KIB, MIB, Layout, Target
from forebay.model.units import parse_size

MOST_TARGETS = 65535  # target numbers have 16 bits
_LARGEST = 1 << 31  # chunk sizes have 32 bits and are powers of two
_NO_START = "BeeGFS chooses the targets itself: the first target cannot be set"
_GIB = 1 << 30
_CHUNK = re.compile(r"^\+ Chunksize:\s*(?P<size>\S+)", re.MULTILINE)
_DESIRED = re.compile(r"^\+ Number of storage targets:\s*desired:\s*(?P<count>\d+)", re.MULTILINE)
_PATTERN = re.compile(r"\((?P<count>\d+)\s*x\s*(?P<size>[^\s)]+)\)")
_ID = re.compile(r"(?:[a-z]+:)?(\d{1,9})", re.IGNORECASE)
_ROW = re.compile(r"^\s*(\d{1,9})\s+(\S.*?)\s+[\d.]+GiB\s+(\d{1,12}(?:\.\d+)?)GiB\s")
_ISSUES = {
    "offline": "offline",
    "probably-offline": "probably offline",
    "needs-resync": "needs a resync",
    "resyncing": "resyncing",
    "bad": "its data is bad",
    "emergency": "almost full (capacity pool emergency)",
}
_LISTING = "beegfs target list"
_FINE = {"online", "good", "normal", "low"}


def power_of_two(size: int) -> int:
    """Return the power of two nearest by ratio, as BeeGFS requires.

    >>> power_of_two(3 << 20) >> 20, power_of_two(5 << 20) >> 20
    (4, 4)
    """
    below: int = 1 << (size.bit_length() - 1)
    return below if size * size < 2 * below * below or below == _LARGEST else 2 * below


def _make_target(index: int, states: list[str], free_bytes: int) -> Target:
    issues = [_ISSUES.get(s.lower(), f"state {s}") for s in states if s.lower() not in _FINE]
    return Target(index=index, free_bytes=free_bytes, usable=not issues, because=", ".join(issues))


def _parse_target(row: Mapping[str, object], where: str) -> Target:
    """Parse a row of version 8. Its number is 101, "101", "s:101", "storage:101" or {"num_id": 101}."""
    number = row.get("id")
    if isinstance(number, dict):
        number = number.get("num_id", number.get("NumId"))
    match = _ID.fullmatch(str(number))
    states = [str(row.get(key, "unknown")) for key in ("reachability", "consistency")]
    pool = row.get("cap_pool") or row.get("capacity_pool")
    free = str(row.get("space_free", row.get("sfree", "-")))
    size = locate_errors(where, lambda: parse_size(free)) if free != "-" else 0
    if not 0 <= size < 1e30:
        raise BadInput(where, f"invalid free space {free!r}")
    if not match:
        raise BadInput(where, f"invalid target number {number!r}")
    return _make_target(int(match[1]), [*states, *([str(pool)] if pool else [])], int(size))


def _sort_targets(targets: Iterable[Target]) -> tuple[Target, ...]:
    return tuple(sorted(targets, key=lambda t: t.index))


def _parse_layout(count: re.Match[str] | None, size: re.Match[str] | None, where: str) -> Layout:
    """Parse a size such as 1m, 512k, 1M, 1MiB or 1048576: all units are binary."""
    if not count or not size:
        raise BadInput(where, "printed no stripe pattern; check that the folder is on BeeGFS")
    match = re.fullmatch(r"(\d{1,12})([kmgt]?)i?b?", size["size"].lower())
    if not match:
        raise BadInput(where, f"invalid chunk size {size['size']!r}")
    size_bytes = int(match[1]) << 10 * ("", "k", "m", "g", "t").index(match[2])
    return locate_errors(where, lambda: Layout(count=int(count["count"]), size=size_bytes))


def _parse_rows(text: str, where: str) -> list[dict[str, object]]:
    """Parse the rows of the output, which has one JSON document for every hundred rows."""
    decoder, at, rows = json.JSONDecoder(), 0, []
    text = text.strip()
    try:
        while at < len(text):
            document, end = decoder.raw_decode(text, at)
            rows += document if isinstance(document, list) else [document]
            at = end + len(text[end:]) - len(text[end:].lstrip())
    except (ValueError, RecursionError) as error:
        raise BadInput(where, f"printed invalid JSON: {error}") from None
    if not all(isinstance(row, dict) for row in rows):
        raise BadInput(where, "printed rows that are not JSON objects")
    return rows


@dataclass(frozen=True, kw_only=True)
class _BeeGFS(FileSystem):
    """The base of both versions.

    Every folder has its own pattern, and a command changes only what it names, not the pool or mirroring. So setting
    the earlier pattern undoes a change.
    """

    note = "new files only: an existing file keeps its layout"
    no_components = "BeeGFS has no progressive layouts: a folder has one pattern for all its files"
    max_count: int = MOST_TARGETS
    set: ClassVar[Command]
    """The command that sets the pattern of a folder, with {count} and {size} in it."""
    units: ClassVar[tuple[str, str]]
    """The suffixes for KiB and MiB."""
    show: ClassVar[Command]
    """The command that shows the pattern of a path."""
    list: ClassVar[Command]
    """The command that lists the storage targets."""

    @staticmethod
    @abstractmethod
    def parse_entry(text: str, where: str) -> Layout:
        """Parse the layout in the output of `show`; `where` names the command in errors."""

    @staticmethod
    @abstractmethod
    def parse_targets(text: str, where: str) -> tuple[Target, ...]:
        """Parse the targets in the output of `list`, in ascending order."""

    def fit(self, layout: Layout) -> FittedLayout:
        size = power_of_two(layout.size)
        notes = [self.note]
        if layout.start != ANY:
            notes.append(_NO_START)
        if size != layout.size:
            notes.append(f"the chunk size must be a power of two: {size} bytes instead of {layout.size}")
        return FittedLayout(layout=Layout(count=layout.count, size=size), notes=tuple(notes))

    def set_command(self, layout: Layout, folder: Path) -> Command:
        fitted, (kib, mib) = self.fit(layout).layout, self.units
        size = f"{fitted.size // MIB}{mib}" if fitted.size >= MIB else f"{fitted.size // KIB}{kib}"
        return (*(word.format(count=fitted.count, size=size) for word in self.set), path_argument(folder))

    def layout(self, folder: Path) -> Layout:
        command = (*self.show, path_argument(folder))
        return self.parse_entry(run(command, timeout=self.timeout), " ".join(command))

    def _read_targets(self, folder: Path | None) -> tuple[Target, ...]:  # noqa: ARG002 - the same for all mounts
        completed = run_unchecked(self._list_command(), timeout=self.timeout)
        try:
            return require_listed(completed, self.parse_targets(completed.out, _LISTING))
        except BadInput:
            if completed.code:
                raise completed.error() from None
            raise

    def restrict(self, targets: Sequence[Target], folder: Path, pool: str = "") -> tuple[Target, ...]:  # noqa: ARG002
        """Exclude targets that do not exist, if the existing ones can be listed: `known_targets` may be too large."""
        if self.known_targets is None:
            return tuple(targets)
        try:
            existing = len(self.parse_targets(run(self._list_command(), timeout=self.timeout), _LISTING))
        except UserError:
            return tuple(targets)
        return exclude_targets(targets, {t.index: "no such target" for t in targets[existing:]})

    def _list_command(self) -> Command:
        return self.list


@dataclass(frozen=True, kw_only=True)
class BeeGFS7(_BeeGFS):
    """
    >>> " ".join(BeeGFS7().set_command(Layout(count=8, size=4 << 20), Path("/beegfs/run")))
    'beegfs-ctl --setpattern --numtargets=8 --chunksize=4m /beegfs/run'
    """

    set = ("beegfs-ctl", "--setpattern", "--numtargets={count}", "--chunksize={size}")
    units = ("k", "m")
    show = ("beegfs-ctl", "--getentryinfo")
    list = ("beegfs-ctl", "--listtargets", "--nodetype=storage", "--state", "--pools", "--spaceinfo")

    @staticmethod
    def parse_entry(text: str, where: str) -> Layout:
        return _parse_layout(_DESIRED.search(text), _CHUNK.search(text), where)

    @staticmethod
    def parse_targets(text: str, where: str) -> tuple[Target, ...]:  # noqa: ARG004 - it skips lines that are not rows
        rows = [row for line in text.splitlines() if (row := _ROW.match(line))]
        return _sort_targets(_make_target(int(r[1]), r[2].split(), int(float(r[3]) * _GIB)) for r in rows)

    def _list_command(self) -> Command:
        return (*self.list, f"--mount={self.mount}") if self.mount else self.list


@dataclass(frozen=True, kw_only=True)
class BeeGFS8(_BeeGFS):
    """
    >>> " ".join(BeeGFS8().set_command(Layout(count=8, size=4 << 20), Path("/beegfs/run")))
    'beegfs entry set --num-targets 8 --chunk-size 4MiB /beegfs/run'
    """

    set = ("beegfs", "entry", "set", "--num-targets", "{count}", "--chunk-size", "{size}")
    units = ("KiB", "MiB")  # unlike version 7, version 8 reads k and M as powers of ten, and rejects m
    show = ("beegfs", "entry", "info", "--raw", "--output", "json")
    list = ("beegfs", "target", "list", "--node-type", "storage", "--state", "--capacity", "--raw", "--output", "json")

    @staticmethod
    def parse_entry(text: str, where: str) -> Layout:
        rows = _parse_rows(text, where)
        pattern = _PATTERN.search(str(rows[0].get("stripe_pattern", ""))) if rows else None
        return _parse_layout(pattern, pattern, where)

    @staticmethod
    def parse_targets(text: str, where: str) -> tuple[Target, ...]:
        return _sort_targets(_parse_target(row, where) for row in _parse_rows(text, where))
