"""The interface of every file system: its targets, a folder's layout, and changes of layout that undo themselves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, TypeVar

from forebay.act.command import Completed, format_command, run
from forebay.decide.stripe.phrases import describe_components
from forebay.decide.stripe.view import Features
from forebay.history.run_fields import MOST_STRIPES
from forebay.model.errors import BadInput, UserError, name_errors
from forebay.model.layout import ANY, Layout, Target

Command = tuple[str, ...]
_Item = TypeVar("_Item")


class LayoutRefused(UserError):
    """The file system refuses a layout, or gives new files another one. `lost` targets turned out to be unusable."""

    def __init__(self, message: str, lost: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.lost = lost


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLayout:
    """The nearest layout that the file system supports, and notes on the differences.

    After it was set, the commands in `undo` restore the earlier one.
    """

    layout: Layout
    notes: tuple[str, ...] = ()
    undo: tuple[Command, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileSystem(ABC):
    """A parallel file system, controlled by its own commands.

    `known_targets` is the number of targets where no command lists them. `timeout` is the time limit of each command,
    in seconds. `max_count` is the largest stripe count. Layouts change under `identity`, such as a user's.
    """

    mount: Path | None = None
    known_targets: int | None = None
    timeout: float = 10.0
    max_count: int = MOST_STRIPES
    identity: Callable[[], AbstractContextManager[None]] = nullcontext
    note: ClassVar[str] = ""
    """A note on every layout that is set."""
    no_components: ClassVar[str] = "this file system gives all parts of a file the same stripes"
    """Why it has no progressive layouts."""

    def fit(self, layout: Layout) -> FittedLayout:
        """Return the nearest layout that this file system supports."""
        return FittedLayout(layout=layout, notes=(self.note,) if self.note else ())

    def features(self, folder: Path | None) -> Features:  # noqa: ARG002
        """Return what layouts this file system has for new files in `folder`; None if the folder is not known yet."""
        return Features(no_progressive=self.no_components, no_mdt=self.no_components)

    def pool_targets(self, pool: str, folder: Path | None) -> frozenset[int]:  # noqa: ARG002
        """Return the indices of the targets in a pool. Raise BadInput if there is no such pool."""
        raise BadInput(f"pool {pool}", "Forebay sets pools only on Lustre; leave --pool out")

    @abstractmethod
    def set_command(self, layout: Layout, folder: Path) -> Command:
        """Return the command that gives new files in `folder` this layout (as `fit` returns it)."""

    def targets(self, folder: Path | None = None) -> tuple[Target, ...]:
        """Return all targets in their current state, ascending by index."""
        return self._read_targets(folder) if self.known_targets is None else numbered_targets(self.known_targets)

    @abstractmethod
    def _read_targets(self, folder: Path | None) -> tuple[Target, ...]: ...

    @abstractmethod
    def layout(self, folder: Path) -> Layout:
        """Return the layout that a new file in `folder` would get."""

    def undo_commands(self, folder: Path) -> tuple[Command, ...]:
        """Return the commands that restore the current layout of `folder`. Raise UserError if none can."""
        return (self.set_command(self.layout(folder), folder),)

    def restrict(self, targets: Sequence[Target], folder: Path, pool: str = "") -> tuple[Target, ...]:  # noqa: ARG002
        """Mark targets that new files in `folder` cannot get as unusable. They are those of its pool, or of `pool`."""
        return tuple(targets)

    def confirm(self, layout: Layout, folder: Path, targets: Sequence[Target]) -> None:  # noqa: ARG002
        """Raise LayoutRefused unless new files in `folder` get the layout that was just set."""
        actual = self.layout(folder)
        if actual != (layout if layout.pool else replace(layout, pool=actual.pool)):
            command = format_command(self.set_command(layout, folder))
            raise LayoutRefused(f"{command}: reads back as {describe_layout(actual)}, not {describe_layout(layout)}")

    def apply(self, layout: Layout, folder: Path, targets: Sequence[Target] | None = None) -> FittedLayout:
        """Set the layout of new files in `folder` and read it back; undo the change if that fails.

        `targets` are the file system's targets, if the caller has just read them.
        """
        fitted = self.fit(layout)
        with self.identity(), name_errors(folder):
            if not folder.is_dir():
                raise BadInput(str(folder), "is not a folder" if folder.exists() else "no such folder")
        if targets is None:
            targets = self.targets(folder)  # not as the user: root can read more of their state
        with self.identity():
            usable = self.restrict(targets, folder, fitted.layout.pool)
            _check_layout(fitted.layout, usable, self.max_count)
            undo = self.undo_commands(folder)
            try:
                run(self.set_command(fitted.layout, folder), timeout=self.timeout)
                self.confirm(fitted.layout, folder, usable)
            except UserError as error:
                lost = error.lost if isinstance(error, LayoutRefused) else frozenset()
                raise LayoutRefused(f"{error}; {self._restore(undo, folder)}", lost) from None
            except BaseException:
                self._restore(undo, folder)
                raise
        return replace(fitted, undo=undo)

    def _restore(self, undo: tuple[Command, ...], folder: Path) -> str:
        """Restore the earlier layout if it changed; return the outcome as the end of a sentence."""
        commands = " && ".join(map(format_command, undo))
        try:
            if self.undo_commands(folder) == undo:
                return "the layout is unchanged"
            for command in undo:
                run(command, timeout=self.timeout)
            if self.undo_commands(folder) == undo:
                return "the earlier layout is restored"
        except UserError as error:
            return f"the current layout is unknown ({error}); to restore the earlier one: {commands}"
        return f"cannot restore the earlier layout; try {commands}"


def describe_layout(layout: Layout) -> str:
    """
    >>> describe_layout(Layout(count=8, size=4 << 20, start=12))
    '8 stripes of 4 MiB from target 12'
    """
    start = "" if layout.start == ANY else f" from target {layout.start}"
    pool = f" in pool {layout.pool}" if layout.pool else ""
    return f"{describe_components(layout)}{start}{pool}"


def path_argument(path: Path) -> str:
    """Format the path so that no command takes it for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def require_listed(completed: Completed, items: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """Return the items that the command listed; raise an error if it listed none."""
    # One unreachable target makes a command fail, but the others are still usable.
    if not items:
        raise completed.error() if completed.code else BadInput(format_command(completed.argv), "lists no targets")
    return items


def exclude_targets(targets: Iterable[Target], issues: Mapping[int, str]) -> tuple[Target, ...]:
    """Mark targets that have an issue, by index, as unusable."""
    return tuple(
        replace(t, usable=False, because=t.because or issues[t.index]) if t.index in issues else t for t in targets
    )


def numbered_targets(count: int) -> tuple[Target, ...]:
    """Return `count` targets of which nothing else is known."""
    return tuple(Target(index=i) for i in range(count))


def _check_layout(layout: Layout, targets: Sequence[Target], max_count: int) -> None:
    usable = {t.index for t in targets if t.usable}
    if layout.most_targets > len(usable):
        count = " + ".join(str(component.count) for component in layout.components if component.count)
        raise BadInput(f"stripe count {count}", f"only {len(usable)} of {len(targets)} targets are usable")
    if layout.count > max_count:
        raise BadInput(f"stripe count {layout.count}", f"the file system allows at most {max_count}")
    if layout.start != ANY and layout.start not in usable:
        because = next((t.because for t in targets if t.index == layout.start), "no such target")
        raise BadInput(f"first target {layout.start}", because or "not usable now")
