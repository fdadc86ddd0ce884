"""What every file system offers: its targets, the layout of a folder, and a change of layout that a failure undoes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, TypeVar

from forebay.act.command import Completed, format_command, run
from forebay.decide.stripe.reasons import stripes
from forebay.history.run_fields import MOST_STRIPES
from forebay.model.errors import BadInput, UserError, name_errors
from forebay.model.layout import ANY, Layout, Target

Command = tuple[str, ...]
_Item = TypeVar("_Item")


class LayoutRefused(UserError):
    """The file system did not take a layout, or gives new files another one; `lost` targets proved to be unusable."""

    def __init__(self, message: str, lost: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.lost = lost


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLayout:
    """A layout as the file system can have it, and notes on what that changes."""

    layout: Layout
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileSystem(ABC):
    """A parallel file system behind its own commands.

    `known_targets` is the number of targets where nothing tells their state. `timeout` is in seconds, for each
    command. `max_count` is the largest stripe count. Layouts change under `identity`, a user's for example.
    """

    mount: Path | None = None
    known_targets: int | None = None
    timeout: float = 10.0
    max_count: int = MOST_STRIPES
    identity: Callable[[], AbstractContextManager[None]] = nullcontext
    note: ClassVar[str] = ""
    """What to know of every layout that is set."""

    def fit(self, layout: Layout) -> FittedLayout:
        """The nearest layout that this file system can have."""
        return FittedLayout(layout=layout, notes=(self.note,) if self.note else ())

    @abstractmethod
    def set_command(self, layout: Layout, folder: Path) -> Command:
        """The command that gives new files in `folder` this layout (as `fit` makes it)."""

    def targets(self, folder: Path | None = None) -> tuple[Target, ...]:
        """Every target in its current state, ascending by index."""
        return self._read_targets(folder) if self.known_targets is None else numbered_targets(self.known_targets)

    @abstractmethod
    def _read_targets(self, folder: Path | None) -> tuple[Target, ...]: ...

    @abstractmethod
    def layout(self, folder: Path) -> Layout:
        """The layout that a new file in `folder` would get."""

    def undo_commands(self, folder: Path) -> tuple[Command, ...]:
        """The commands that restore the layout that `folder` has now; raises UserError if nothing can."""
        return (self.set_command(self.layout(folder), folder),)

    def restrict(self, targets: Sequence[Target], folder: Path) -> tuple[Target, ...]:  # noqa: ARG002
        """The targets; those that a new file in `folder` cannot get are marked unusable."""
        return tuple(targets)

    def confirm(self, layout: Layout, folder: Path, targets: Sequence[Target]) -> None:  # noqa: ARG002
        """Raise LayoutRefused unless new files in `folder` get this layout, which was just set."""
        actual = self.layout(folder)
        if actual != layout:
            command = format_command(self.set_command(layout, folder))
            raise LayoutRefused(f"{command}: reads back as {describe_layout(actual)}, not {describe_layout(layout)}")

    def apply(self, layout: Layout, folder: Path, targets: Sequence[Target] | None = None) -> FittedLayout:
        """Set the layout of new files in `folder` and read it back; a refusal leaves everything as it was.

        `targets` are those of the file system, if the caller has just read them.
        """
        fitted = self.fit(layout)
        with self.identity(), name_errors(folder):
            if not folder.is_dir():
                raise BadInput(str(folder), "is not a folder" if folder.exists() else "no such folder")
        if targets is None:
            targets = self.targets(folder)  # not as the user: root sees more of their state
        with self.identity():
            usable = self.restrict(targets, folder)
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
        return fitted

    def _restore(self, undo: tuple[Command, ...], folder: Path) -> str:
        """Restore the earlier layout if it changed; the outcome, as the end of a sentence."""
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
        return f"the earlier layout could not be restored; try {commands}"


def describe_layout(layout: Layout) -> str:
    """
    >>> describe_layout(Layout(count=8, size=4 << 20, start=12))
    '8 stripes of 4 MiB from target 12'
    """
    start = "" if layout.start == ANY else f" from target {layout.start}"
    return f"{stripes(layout.count, layout.size)}{start}"


def path_argument(path: Path) -> str:
    """The path, written so that no command takes it for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def require_listed(completed: Completed, items: tuple[_Item, ...]) -> tuple[_Item, ...]:
    """The items that the command listed, of which there must be some."""
    # A single unreachable target makes a command fail, and the others are still of use.
    if not items:
        raise completed.error() if completed.code else BadInput(format_command(completed.argv), "lists no targets")
    return items


def exclude_targets(targets: Iterable[Target], issues: Mapping[int, str]) -> tuple[Target, ...]:
    """The targets, of which those with an issue (by index) become unusable."""
    return tuple(
        replace(t, usable=False, because=t.because or issues[t.index]) if t.index in issues else t for t in targets
    )


def numbered_targets(count: int) -> tuple[Target, ...]:
    """Targets of which only the number is known."""
    return tuple(Target(index=i) for i in range(count))


def _check_layout(layout: Layout, targets: Sequence[Target], max_count: int) -> None:
    usable = {t.index for t in targets if t.usable}
    if layout.count > len(usable):
        raise BadInput(f"stripe count {layout.count}", f"only {len(usable)} of {len(targets)} targets are usable")
    if layout.count > max_count:
        raise BadInput(f"stripe count {layout.count}", f"the file system allows at most {max_count}")
    if layout.start != ANY and layout.start not in usable:
        because = next((t.because for t in targets if t.index == layout.start), "no such target")
        raise BadInput(f"first target {layout.start}", because or "not usable now")
