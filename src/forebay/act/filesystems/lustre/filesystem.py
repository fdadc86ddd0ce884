"""Lustre, through `lfs` and `lctl`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import CommandFailed, CommandHangs, ended, run
from forebay.act.filesystems.filesystem import (
    Command,
    FileSystem,
    Fitted,
    LayoutDiffers,
    as_argument,
    leave_out,
    listed,
    numbered,
    said,
)
from forebay.act.filesystems.lustre.output import (
    STATE_PARAMETERS,
    Component,
    Issues,
    Ost,
    Striped,
    parse_check,
    parse_df,
    parse_osts,
    parse_pool,
    parse_states,
    parse_stripe,
)
from forebay.history.run_fields import MOST_STRIPES
from forebay.history.toml import locate_errors
from forebay.model.errors import BadInput, UserError, why
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
        lost, drained = self._states()
        if lost:  # then `lfs df` would hang, if they are of this file system
            osts = self._osts(folder)
            if any((ost.system, ost.index) in lost for ost in osts):
                return _known_of(osts, (), {**drained, **lost})
        where = self._where(folder)
        try:
            done = ended(("lfs", "df", "-v", *where), timeout=self.timeout)
        except CommandHangs as hung:
            return self._targets_without_df(folder, parse_df(hung.out), drained)
        found = listed(done, parse_df(done.out))
        system = next((ost.system for ost in self._osts(folder)), "") if drained else ""
        return leave_out(found, {index: why for (of, index), why in drained.items() if of == system})

    def _targets_without_df(self, folder: Path | None, seen: Sequence[Target], drained: Issues) -> tuple[Target, ...]:
        """What is known while `lfs df` hangs, for which it takes one OST that is away."""
        osts = self._osts(folder)
        unreached = self._unreached()
        away = {key: unreached[key] for ost in osts if (key := (ost.system, ost.index)) in unreached}
        if not away and seen:  # df lists them in order, and waits for the first that is missing
            waits_for = [ost for ost in osts if ost.active and ost.index > seen[-1].index][:1]
            away = {(ost.system, ost.index): "does not answer" for ost in waits_for}
        return _known_of(osts, seen, {**drained, **away})

    def restrict(self, targets: Sequence[Target], folder: Path) -> tuple[Target, ...]:
        """A pool of the folder's leaves the other OSTs out; so does a `known_targets` that is too large."""
        pool = self._striped(folder).last.pool
        if not pool and self.known_targets is None:
            return tuple(targets)
        osts = self._osts(folder)
        existing = {ost.index for ost in osts}
        issues = {t.index: "there is no such OST" for t in targets if t.index not in existing}
        # Files of a folder whose pool is empty get any OST.
        if pool and (members := self._pool(osts[0].system, pool)):
            issues |= {t.index: f"not in pool {pool} of {folder}" for t in targets if t.index not in members}
        return leave_out(targets, issues)

    def layout(self, folder: Path) -> Layout:
        striped = self._striped(folder)
        last = striped.last
        every = sum(ost.active for ost in self._osts(folder)) if last.count < 0 else 1
        count = abs(last.count) * every or 1
        return locate_errors(
            striped.where, lambda: Layout(count=count, size=last.size or DEFAULT_SIZE, start=last.start)
        )

    def undo(self, folder: Path) -> tuple[Command, ...]:
        striped = self._striped(folder, "--raw")
        # What is not named stays (a pool) or is taken over, so everything goes first.
        clear = ("lfs", "setstripe", "-d", as_argument(folder))
        if striped.is_unset or self._is_inherited(striped, folder):
            return (clear,)
        return clear, ("lfs", "setstripe", *striped.options(), as_argument(folder))

    def confirm(self, layout: Layout, folder: Path, targets: Sequence[Target]) -> None:
        """The folder and a new file in it: pools, full and drained OSTs change what files get, and nothing says so."""
        FileSystem.confirm(self, layout, folder, targets)
        with _new_file(folder) as path:
            striped = self._striped_file(path)
        part = striped.components[0]
        start = part.osts[0] if part.osts and layout.start != ANY else ANY
        alike = (len(striped.components), part.count, part.size, start) == (1, layout.count, layout.size, layout.start)
        usable = [t.index for t in targets if t.usable]
        # Files with a first OST have those after it, and somebody may have been told which these are.
        following = sorted(usable, key=lambda index: (index < layout.start, index))[: layout.count]
        if alike and (layout.start == ANY or set(part.osts) == set(following)):
            return
        lost = frozenset(usable) - self._taking_files(folder, part)
        if alike and not lost:
            return  # it has one that nobody should be given, a degraded one for instance
        pool = f" of pool {part.pool}" if part.pool else ""
        on = f" on OST {', '.join(map(str, part.osts))}{pool}" if part.osts else ""
        gets = said(locate_errors(striped.where, lambda: Layout(count=part.count, size=part.size)))
        raise LayoutDiffers(f"a new file in {folder} gets {gets}{on}, not {said(layout)}", lost)

    def _taking_files(self, folder: Path, part: Component) -> frozenset[int]:
        """The OSTs that a file can get which asks for all of them, and those that `part` of another got."""
        pool = ("-p", part.pool) if part.pool else ()
        path = _new_path(folder)
        try:
            run(("lfs", "setstripe", "-c", "-1", *pool, as_argument(path)), timeout=self.timeout)
            return frozenset((*self._striped_file(path).components[0].osts, *part.osts))
        except UserError:
            return frozenset(part.osts)
        finally:
            _remove(path)

    def _is_inherited(self, striped: Striped, folder: Path) -> bool:
        """Whether it is what the file system's root has: every folder without a layout of its own shows that."""
        root = self.mount or _mount_of(folder)
        if root is None or _same(root, folder):
            return False
        try:
            above = self._striped(root, "--raw")
        except (CommandFailed, BadInput):
            return False
        return (above.components, above.mirrors) == (striped.components, striped.mirrors)

    def _striped(self, folder: Path, *options: str) -> Striped:
        command = ("lfs", "getstripe", "-d", *options, "-y", as_argument(folder))
        return parse_stripe(run(command, timeout=self.timeout), " ".join(command))

    def _striped_file(self, path: Path) -> Striped:
        command = ("lfs", "getstripe", "-y", as_argument(path))
        return parse_stripe(run(command, timeout=self.timeout), " ".join(command))

    def _states(self) -> tuple[Issues, Issues]:
        """As far as this machine and this user are told; see `parse_states`."""
        try:
            return parse_states(ended(("lctl", "get_param", *STATE_PARAMETERS), timeout=self.timeout).out)
        except CommandFailed:  # it is not on everybody's PATH
            return {}, {}

    def _unreached(self) -> Issues:
        try:
            return parse_check(ended(("lfs", "check", "osts"), timeout=self.timeout).err)
        except CommandFailed:
            return {}

    def _osts(self, folder: Path | None) -> tuple[Ost, ...]:
        done = ended(("lfs", "osts", *self._where(folder)), timeout=self.timeout)
        return listed(done, parse_osts(done.out))

    def _pool(self, system: str, pool: str) -> frozenset[int]:
        try:
            return parse_pool(run(("lfs", "pool_list", f"{system}.{pool}"), timeout=self.timeout))
        except CommandFailed:  # a new file tells as well
            return frozenset()

    def _where(self, folder: Path | None) -> tuple[str, ...]:
        """Where the file system is mounted, if that is known: the same for every folder."""
        where = self.mount or (folder and (_mount_of(folder) or folder))
        return (as_argument(where),) if where else ()


def _known_of(osts: Sequence[Ost], seen: Sequence[Target], issues: Issues) -> tuple[Target, ...]:
    """The OSTs as `lfs osts` lists them, with what was seen of them and what speaks against them."""
    inactive = {(ost.system, ost.index): "inactive device" for ost in osts if not ost.active}
    by_index = {t.index: t for t in seen}
    targets = [by_index.get(ost.index, Target(index=ost.index)) for ost in osts]
    issues = {**issues, **inactive}
    return leave_out(targets, {o.index: issues[o.system, o.index] for o in osts if (o.system, o.index) in issues})


def _new_path(folder: Path) -> Path:
    return folder / f".forebay-{secrets.token_hex(8)}"


@contextmanager
def _new_file(folder: Path) -> Iterator[Path]:
    """An empty file, for a moment. Nothing asks for its size: with an OST down, that would hang."""
    path = _new_path(folder)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise BadInput(str(folder), f"can't make a file there to see what new files get: {why(error)}") from None
    try:
        yield path
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):  # an empty file that stays is no reason to fail
        path.unlink()


def _mount_of(folder: Path) -> Path | None:
    found = Path(os.path.realpath(folder))
    while not os.path.ismount(found):
        found = found.parent
    return found if found != found.parent else None


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def size_text(size: int) -> str:
    """
    >>> size_text(64 << 10), size_text(4 << 20), size_text(3 << 30), size_text(1000)
    ('64K', '4M', '3G', '1000')
    """
    for power, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{suffix}"
    return str(size)
