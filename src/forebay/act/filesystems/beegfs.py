"""BeeGFS, through `beegfs-ctl` (version 7) or `beegfs` (version 8)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import ended, run
from forebay.act.filesystems.beegfs_output import parse_entry7, parse_entry8, parse_targets7, parse_targets8
from forebay.act.filesystems.filesystem import Command, FileSystem, Fitted, as_argument, leave_out, listed, numbered
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import ANY, KIB, MIB, Layout, Target

MOST_TARGETS = 65535
"""Target numbers have 16 bits."""
_LARGEST = 1 << 31
"""Chunk sizes have 32 bits and are powers of two."""
_NEW_FILES_ONLY = "new files only: a file that exists keeps its layout"
_NO_START = "BeeGFS chooses the targets itself: the first target can't be set"


@dataclass(frozen=True, slots=True, kw_only=True)
class _BeeGFS(FileSystem):
    """What both versions share; `known_targets` is how many there are where their state is not to be had."""

    mount: Path | None = None
    known_targets: int | None = None
    timeout: float = 10.0
    max_count: int = MOST_TARGETS

    def fitted(self, layout: Layout) -> Fitted:
        size = power_of_two(layout.size)
        notes = [_NEW_FILES_ONLY]
        if layout.start != ANY:
            notes.append(_NO_START)
        if size != layout.size:
            notes.append(f"a chunk size must be a power of two: {size} bytes instead of {layout.size}")
        return Fitted(layout=Layout(count=layout.count, size=size), notes=tuple(notes))

    def targets(self, folder: Path | None = None) -> tuple[Target, ...]:  # noqa: ARG002 - all mounts have the same
        if self.known_targets is not None:
            return numbered(self.known_targets)
        done = ended(self._list_command(), timeout=self.timeout)
        try:
            return listed(done, self._listed(done.out))
        except BadInput:
            if done.code:
                raise done.failed() from None
            raise

    def restrict(self, targets: Sequence[Target], folder: Path) -> tuple[Target, ...]:  # noqa: ARG002 - nor pools
        """A `known_targets` that is too large does not count, where the targets can be listed after all."""
        if self.known_targets is None:
            return tuple(targets)
        try:
            existing = len(self._listed(run(self._list_command(), timeout=self.timeout)))
        except UserError:
            return tuple(targets)
        return leave_out(targets, {t.index: "there is no such target" for t in targets[existing:]})

    def undo(self, folder: Path) -> tuple[Command, ...]:
        # Every BeeGFS folder has a pattern of its own, and what is not named (pool, mirroring) stays as it is.
        return (self.set_command(self.layout(folder), folder),)

    @abstractmethod
    def _list_command(self) -> Command:
        """The command that lists the storage targets."""

    @abstractmethod
    def _listed(self, text: str) -> tuple[Target, ...]:
        """What that command prints, as targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeeGFS7(_BeeGFS):
    def set_command(self, layout: Layout, folder: Path) -> Command:
        """
        >>> " ".join(BeeGFS7().set_command(Layout(count=8, size=4 << 20), Path("/beegfs/run")))
        'beegfs-ctl --setpattern --numtargets=8 --chunksize=4m /beegfs/run'
        """
        fitted = self.fitted(layout).layout
        size = f"{fitted.size // MIB}m" if fitted.size >= MIB else f"{fitted.size // KIB}k"
        numbers = f"--numtargets={fitted.count}", f"--chunksize={size}"
        return "beegfs-ctl", "--setpattern", *numbers, as_argument(folder)

    def layout(self, folder: Path) -> Layout:
        command = ("beegfs-ctl", "--getentryinfo", as_argument(folder))
        return parse_entry7(run(command, timeout=self.timeout), " ".join(command))

    def _list_command(self) -> Command:
        mount = (f"--mount={self.mount}",) if self.mount else ()
        return "beegfs-ctl", "--listtargets", "--nodetype=storage", "--state", "--pools", "--spaceinfo", *mount

    def _listed(self, text: str) -> tuple[Target, ...]:
        return parse_targets7(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeeGFS8(_BeeGFS):
    def set_command(self, layout: Layout, folder: Path) -> Command:
        """
        >>> " ".join(BeeGFS8().set_command(Layout(count=8, size=4 << 20), Path("/beegfs/run")))
        'beegfs entry set --num-targets 8 --chunk-size 4MiB /beegfs/run'
        """
        fitted = self.fitted(layout).layout
        # Unlike version 7, version 8 reads k and M as powers of ten, and m not at all.
        size = f"{fitted.size // MIB}MiB" if fitted.size >= MIB else f"{fitted.size // KIB}KiB"
        numbers = "--num-targets", str(fitted.count), "--chunk-size", size
        return "beegfs", "entry", "set", *numbers, as_argument(folder)

    def layout(self, folder: Path) -> Layout:
        command = ("beegfs", "entry", "info", "--raw", "--output", "json", as_argument(folder))
        return parse_entry8(run(command, timeout=self.timeout), " ".join(command))

    def _list_command(self) -> Command:
        wanted = "--node-type", "storage", "--state", "--capacity", "--raw", "--output", "json"
        return "beegfs", "target", "list", *wanted

    def _listed(self, text: str) -> tuple[Target, ...]:
        return parse_targets8(text, "beegfs target list")


def power_of_two(size: int) -> int:
    """The nearest power of two by ratio, as BeeGFS can have it.

    >>> power_of_two(3 << 20) >> 20, power_of_two(5 << 20) >> 20
    (4, 4)
    """
    below: int = 1 << (size.bit_length() - 1)
    return below if size * size < 2 * below * below or below == _LARGEST else 2 * below
