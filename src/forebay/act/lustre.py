"""Lustre, through `lfs`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import ended, run
from forebay.act.filesystem import Command, FileSystem, Fitted, as_argument, listed, numbered
from forebay.act.lustre_text import Striped, parse_df, parse_stripe
from forebay.history.limits import MOST_STRIPES
from forebay.history.toml import located
from forebay.model.layout import ANY, DEFAULT_SIZE, Layout, Target

# Lustre can't restripe in place, so a file that exists keeps its layout.
_NEW_FILES_ONLY = "new files only: a file that exists keeps its layout (lfs migrate would copy it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lustre(FileSystem):
    """One Lustre file system; `known_targets` is how many OSTs it has where their state is not to be had."""

    mount: Path | None = None
    known_targets: int | None = None
    timeout: float = 10.0
    max_count: int = MOST_STRIPES

    def fitted(self, layout: Layout) -> Fitted:
        return Fitted(layout=layout, notes=(_NEW_FILES_ONLY,))

    def set_command(self, layout: Layout, folder: Path) -> Command:
        """
        >>> " ".join(Lustre().set_command(Layout(count=8, size=4 << 20, start=12), Path("/scratch/run")))
        'lfs setstripe -c 8 -S 4M -i 12 /scratch/run'
        """
        start = () if layout.start == ANY else ("-i", str(layout.start))
        return "lfs", "setstripe", "-c", str(layout.count), "-S", size_text(layout.size), *start, as_argument(folder)

    def targets(self, folder: Path | None = None) -> tuple[Target, ...]:
        if self.known_targets is not None:
            return numbered(self.known_targets)
        where = self.mount or folder
        done = ended(("lfs", "df", "-v", *((as_argument(where),) if where else ())), timeout=self.timeout)
        return listed(done, parse_df(done.out))

    def layout(self, folder: Path) -> Layout:
        striped = self._striped(folder)
        last = striped.last
        every = sum(t.usable for t in self.targets(folder)) if last.count < 0 else 1
        count = abs(last.count) * every or 1
        return located(striped.where, lambda: Layout(count=count, size=last.size or DEFAULT_SIZE, start=last.start))

    def undo(self, folder: Path) -> Command:
        return "lfs", "setstripe", *self._striped(folder, "--raw").options(), as_argument(folder)

    def _striped(self, folder: Path, *options: str) -> Striped:
        command = ("lfs", "getstripe", "-d", "-y", *options, as_argument(folder))
        return parse_stripe(run(command, timeout=self.timeout), " ".join(command))


def size_text(size: int) -> str:
    """
    >>> size_text(64 << 10), size_text(4 << 20), size_text(3 << 30), size_text(1000)
    ('64K', '4M', '3G', '1000')
    """
    for power, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{suffix}"
    return str(size)
