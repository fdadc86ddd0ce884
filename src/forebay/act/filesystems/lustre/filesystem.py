"""Lustre, through `lfs` and `lctl`."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from forebay.act.command import CommandFailed, CommandHangs, run, run_unchecked
from forebay.act.filesystems.filesystem import (
    Command,
    FileSystem,
    LayoutRefused,
    describe_layout,
    exclude_targets,
    path_argument,
    require_listed,
)
from forebay.act.filesystems.lustre import layouts
from forebay.act.filesystems.lustre.targets import (
    STATE_PARAMETERS,
    Issues,
    Ost,
    parse_check,
    parse_df,
    parse_mdts,
    parse_osts,
    parse_pool,
    parse_pools,
    parse_states,
)
from forebay.decide.stripe.view import Features
from forebay.history.toml import locate_errors
from forebay.model.errors import BadInput, UserError, why
from forebay.model.layout import ANY, DEFAULT_SIZE, TO_THE_END, Component, Layout, Target

_FIRST_PROGRESSIVE, _FIRST_ON_MDT = (2, 10), (2, 11)  # releases


@dataclass(frozen=True, kw_only=True)
class Lustre(FileSystem):
    """A Lustre file system. Lustre cannot restripe in place, so an existing file keeps its layout."""

    note = "new files only: an existing file keeps its layout (lfs migrate would copy it)"

    def set_command(self, layout: Layout, folder: Path) -> Command:
        """
        >>> " ".join(Lustre().set_command(Layout(count=8, size=4 << 20, start=12), Path("/scratch/run")))
        'lfs setstripe -c 8 -S 4M -i 12 /scratch/run'
        >>> " ".join(Lustre().set_command(Layout(count=8, before=(Component(end=65536, count=0),)), Path("/scratch")))
        'lfs setstripe -E 64K -L mdt -E -1 -c 8 -S 1M /scratch'
        """
        options: tuple[str, ...] = ()
        for component in layout.components:
            end = "-1" if component.end == TO_THE_END else format_size_option(component.end)
            options += ("-E", end) if layout.before else ()
            if not component.count:
                options += "-L", "mdt"
                continue
            # A component inherits what it does not name from the one before it.
            pool = ("-p", layout.pool) if layout.pool else ()
            options += "-c", str(component.count), "-S", format_size_option(component.size), *pool
        start = () if layout.start == ANY else ("-i", str(layout.start))
        return "lfs", "setstripe", *options, *start, path_argument(folder)

    def features(self, folder: Path | None) -> Features:
        """Ask the file system, if this machine has it; else assume a release that has progressive layouts."""
        if folder is None and (self.mount is None or self.known_targets is not None):
            return Features(progressive=True, no_mdt="the free space of the MDTs is not known")
        try:
            version = layouts.parse_version(run(("lfs", "--version"), timeout=self.timeout))
            pool = self._read_layout(folder, "-d").last.pool if folder else ""
        except UserError as error:
            return Features(no_progressive=f"the release of Lustre is not known ({error})", no_mdt=str(error))
        release = ".".join(map(str, version)) or "unknown"
        if version < _FIRST_PROGRESSIVE:
            because = f"release {release} of Lustre has no progressive layouts"
            return Features(no_progressive=because, no_mdt=because, pool=pool)
        if version < _FIRST_ON_MDT:
            return Features(progressive=True, no_mdt=f"release {release} of Lustre has no data on MDTs", pool=pool)
        if self._read_states()[0]:
            because = "the free space of the MDTs is not known, as lfs df hangs while this client has lost an OST"
            return Features(progressive=True, no_mdt=because, pool=pool)
        try:
            free = parse_mdts(run_unchecked(("lfs", "df", "-v", *self._where(folder)), timeout=self.timeout).out)
        except CommandFailed as error:
            return Features(progressive=True, no_mdt=f"the free space of the MDTs is not known ({error})", pool=pool)
        no_mdt = "" if free else "lfs df shows no free space of an MDT"
        return Features(progressive=True, mdt_free=min(free, default=0), no_mdt=no_mdt, pool=pool)

    def pool_targets(self, pool: str, folder: Path | None) -> frozenset[int]:
        """Ask `lfs pool_list`. An empty pool is refused, because Lustre lets its files use any OST."""
        system = self._osts(folder)[0].system
        known = parse_pools(run(("lfs", "pool_list", system), timeout=self.timeout))
        if pool not in known:
            others = f"it has {', '.join(known)}" if known else "it has no pools"
            raise BadInput(f"--pool {pool}", f"file system {system} has no such pool; {others}")
        members = parse_pool(run(("lfs", "pool_list", f"{system}.{pool}"), timeout=self.timeout))
        if not members:
            raise BadInput(f"--pool {pool}", "the pool has no OST; choose another one")
        return members

    def _read_targets(self, folder: Path | None) -> tuple[Target, ...]:
        lost, drained = self._read_states()
        if lost:  # then `lfs df` hangs, if the OSTs belong to this file system
            osts = self._osts(folder)
            if any(ost.key in lost for ost in osts):
                return _merge_targets(osts, (), {**drained, **lost})
        try:
            completed = run_unchecked(("lfs", "df", "-v", *self._where(folder)), timeout=self.timeout)
        except CommandHangs as hung:
            return self._targets_without_df(folder, parse_df(hung.out), drained)
        targets = require_listed(completed, parse_df(completed.out))
        system = next((ost.system for ost in self._osts(folder)), "") if drained else ""
        return exclude_targets(targets, {index: why for (of, index), why in drained.items() if of == system})

    def _read_states(self) -> tuple[Issues, Issues]:
        """Return the OSTs that this client has lost, and those where the MDS creates no objects."""
        with suppress(CommandFailed):  # lctl may not be on the PATH, and shows only what this machine and user can see
            states = run_unchecked(("lctl", "get_param", *STATE_PARAMETERS), timeout=self.timeout)
            return parse_states(states.out)
        return {}, {}

    def _targets_without_df(self, folder: Path | None, listed: Sequence[Target], drained: Issues) -> tuple[Target, ...]:
        """Return the targets while `lfs df` hangs, as it does if an OST is unreachable; it printed those `listed`."""
        osts = self._osts(folder)
        issues: Issues = {}
        with suppress(CommandFailed):
            issues = parse_check(run_unchecked(("lfs", "check", "osts"), timeout=self.timeout).err)
        if listed and not any(ost.key in issues for ost in osts):
            # `lfs df` lists OSTs in order, and waits for the first one that does not answer
            awaited = [ost for ost in osts if ost.active and ost.index > listed[-1].index][:1]
            issues = {ost.key: "does not answer" for ost in awaited}
        return _merge_targets(osts, listed, {**drained, **issues})

    def restrict(self, targets: Sequence[Target], folder: Path, pool: str = "") -> tuple[Target, ...]:
        """Exclude OSTs outside the pool, and those that do not exist if `known_targets` is too large."""
        pool = pool or self._read_layout(folder, "-d").last.pool
        if not pool and self.known_targets is None:
            return tuple(targets)
        osts = self._osts(folder)
        existing = {ost.index for ost in osts}
        issues = {t.index: "no such OST" for t in targets if t.index not in existing}
        if pool:
            with suppress(CommandFailed):  # `confirm` checks it again with a new file
                listed = run(("lfs", "pool_list", f"{osts[0].system}.{pool}"), timeout=self.timeout)
                members = parse_pool(listed) or existing  # with an empty pool, new files get any OST
                issues |= {t.index: f"not in pool {pool}" for t in targets if t.index not in members}
        return exclude_targets(targets, issues)

    def layout(self, folder: Path) -> Layout:
        striped = self._read_layout(folder, "-d")
        active = sum(ost.active for ost in self._osts(folder)) if any(c.count < 0 for c in striped.components) else 1
        return _convert(striped, active)

    def undo_commands(self, folder: Path) -> tuple[Command, ...]:
        striped = self._read_layout(folder, "-d", "--raw")
        # An option that setstripe does not name stays (the pool) or is inherited, so everything is cleared first.
        clear = ("lfs", "setstripe", "-d", path_argument(folder))
        if striped.is_unset or self._is_inherited(striped, folder):
            return (clear,)
        return clear, ("lfs", "setstripe", *striped.options(), path_argument(folder))

    def confirm(self, layout: Layout, folder: Path, targets: Sequence[Target]) -> None:
        """Check the folder and a new file in it: pools and full or drained OSTs silently change a file's layout."""
        super().confirm(layout, folder, targets)
        with _new_path(folder) as path:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except OSError as error:
                reason = f"cannot create a file to check the layout of new files: {why(error)}"
                raise BadInput(str(folder), reason) from None
            striped = self._read_layout(path)
        if layout.before:
            self._confirm_components(layout, folder, targets, striped)
            return
        component = striped.components[0]
        start = component.osts[0] if component.osts and layout.start != ANY else ANY
        is_same = (component.count, component.size, start) == (layout.count, layout.size, layout.start)
        in_pool = not layout.pool or component.pool == layout.pool
        matches = is_same and in_pool and len(striped.components) == 1
        usable = [t.index for t in targets if t.usable]
        # A file with a first OST gets the OSTs that follow it, and the caller may rely on that.
        following = sorted(usable, key=lambda index: (index < layout.start, index))[: layout.count]
        if matches and (layout.start == ANY or set(component.osts) == set(following)):
            return
        lost = frozenset(usable) - self._find_accepting(folder, component)
        if matches and not lost:
            return  # it has an excluded OST, such as a degraded one
        pool = f" of pool {component.pool}" if component.pool else ""
        on = f" on OST {', '.join(map(str, component.osts))}{pool}" if component.osts else ""
        gets = describe_layout(locate_errors(striped.where, lambda: Layout(count=component.count, size=component.size)))
        raise LayoutRefused(f"a new file in {folder} gets {gets}{on}, not {describe_layout(layout)}", lost)

    def _confirm_components(
        self, layout: Layout, folder: Path, targets: Sequence[Target], striped: layouts.StripedLayout
    ) -> None:
        """Check the layout of a new file, in which only the first component has objects yet.

        The others get theirs when something is written there, on OSTs that no earlier component has. So there must be
        as many OSTs that accept new files.
        """
        actual = _convert(striped, 1)
        if replace(actual, start=ANY, pool=layout.pool and actual.pool) != layout:
            raise LayoutRefused(
                f"a new file in {folder} gets {describe_layout(replace(actual, start=ANY))}, not "
                f"{describe_layout(layout)}"
            )
        usable = frozenset(t.index for t in targets if t.usable)
        accepting = self._find_accepting(folder, striped.components[-1]) | frozenset(striped.components[0].osts)
        if len(accepting & usable) < layout.most_targets:
            raise LayoutRefused(
                f"files in {folder} need {layout.most_targets} OSTs for all components, and {len(accepting & usable)} "
                "accept new files",
                usable - accepting,
            )

    def _find_accepting(self, folder: Path, component: layouts.Component) -> frozenset[int]:
        """Find the OSTs that accept new files: those of a file striped over all OSTs, and those of `component`."""
        pool = ("-p", component.pool) if component.pool else ()
        with _new_path(folder) as path:
            try:
                run(("lfs", "setstripe", "-c", "-1", *pool, path_argument(path)), timeout=self.timeout)
                return frozenset((*self._read_layout(path).components[0].osts, *component.osts))
            except UserError:
                return frozenset(component.osts)

    def _is_inherited(self, striped: layouts.StripedLayout, folder: Path) -> bool:
        """Return whether the root has the same layout: `lfs getstripe` prints it for folders without one."""
        root = self.mount or _mount_of(folder)
        if root is None or os.path.realpath(root) == os.path.realpath(folder):
            return False
        try:
            default = self._read_layout(root, "-d", "--raw")
        except (CommandFailed, BadInput):
            return False
        return (default.components, default.mirrors) == (striped.components, striped.mirrors)

    def _read_layout(self, path: Path, *options: str) -> layouts.StripedLayout:
        command = ("lfs", "getstripe", *options, "-y", path_argument(path))
        return layouts.parse_stripe(run(command, timeout=self.timeout), " ".join(command))

    def _osts(self, folder: Path | None) -> tuple[Ost, ...]:
        completed = run_unchecked(("lfs", "osts", *self._where(folder)), timeout=self.timeout)
        return require_listed(completed, parse_osts(completed.out))

    def _where(self, folder: Path | None) -> tuple[str, ...]:
        """Return the mount point as an argument, if it is known."""
        where = self.mount or (folder and (_mount_of(folder) or folder))
        return (path_argument(where),) if where else ()


def _convert(striped: layouts.StripedLayout, osts: int) -> Layout:
    """Convert a layout as `lfs` prints it; a negative count stands for that many times all `osts`.

    Of mirrored and self-extending layouts, and of those that end on an MDT, only the last objects count.
    """

    def stripes(part: layouts.Component) -> int:
        return abs(part.count) * (osts if part.count < 0 else 1) or 1

    last, parts = striped.last, striped.components
    is_sequence = striped.mirrors <= 1 and parts[-1] is last and not any(part.extension for part in parts)
    return locate_errors(
        striped.where,
        lambda: Layout(
            count=stripes(last),
            size=last.size or DEFAULT_SIZE,
            start=last.start,
            before=tuple(
                Component(
                    end=int(part.end),
                    count=0 if part.pattern == layouts.ON_MDT else stripes(part),
                    size=part.size or DEFAULT_SIZE,
                )
                for part in (parts[:-1] if is_sequence else ())
            ),
            pool=last.pool,
        ),
    )


def _merge_targets(osts: Sequence[Ost], listed: Sequence[Target], issues: Issues) -> tuple[Target, ...]:
    """Merge the OSTs of `lfs osts` with the targets that `lfs df` listed and with their issues."""
    issues = {**issues, **{ost.key: "inactive device" for ost in osts if not ost.active}}
    by_index = {t.index: t for t in listed}
    targets = [by_index.get(ost.index, Target(index=ost.index)) for ost in osts]
    return exclude_targets(targets, {ost.index: issues[ost.key] for ost in osts if ost.key in issues})


@contextmanager
def _new_path(folder: Path) -> Iterator[Path]:
    """Give a path for an empty file, and remove the file. Nothing reads its size: with an OST down, that would hang."""
    path = folder / f".forebay-{secrets.token_hex(8)}"
    try:
        yield path
    finally:
        with suppress(OSError):  # an empty file left behind is not worth a failure
            path.unlink()


def _mount_of(folder: Path) -> Path | None:
    mount = Path(os.path.realpath(folder))
    while not os.path.ismount(mount):
        mount = mount.parent
    return mount if mount != mount.parent else None


def format_size_option(size: int) -> str:
    """
    >>> format_size_option(64 << 10), format_size_option(4 << 20), format_size_option(3 << 30), format_size_option(1000)
    ('64K', '4M', '3G', '1000')
    """
    for power, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{suffix}"
    return str(size)
