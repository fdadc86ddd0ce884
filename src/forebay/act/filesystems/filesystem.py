"""What every file system offers: targets, the layout of a folder, and setting it, or leaving all as it was."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from forebay.act.command import Done, run, shown
from forebay.decide.stripe.words import stripes
from forebay.model.errors import BadInput, UserError, why
from forebay.model.layout import ANY, Layout, Target

Command = tuple[str, ...]
_Listed = TypeVar("_Listed")


class LayoutDiffers(UserError):
    """The file system took the layout, and gives files another; `lost` are targets that turned out not to be usable."""

    def __init__(self, message: str, lost: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.lost = lost


class LayoutRefused(UserError):
    """The file system did not take the layout; the message has its words and says that all is as before.

    `lost` are targets that seemed usable, and turned out not to be.
    """

    def __init__(self, message: str, lost: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.lost = lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A layout as this file system can have it, and what had to be said about that."""

    layout: Layout
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was set, and how; `before` is what new files in the folder would have got."""

    layout: Layout
    before: Layout
    command: Command
    notes: tuple[str, ...]


class FileSystem(Protocol):
    """A parallel file system behind its own commands. `timeout` is in seconds, for each command."""

    @property
    def timeout(self) -> float: ...

    @property
    def max_count(self) -> int:
        """The largest stripe count allowed here."""

    @abstractmethod
    def fitted(self, layout: Layout) -> Fitted:
        """The nearest layout that this file system can have."""

    @abstractmethod
    def set_command(self, layout: Layout, folder: Path) -> Command:
        """The command that gives new files in `folder` this layout (as `fitted` makes it)."""

    @abstractmethod
    def targets(self, folder: Path | None = None) -> tuple[Target, ...]:
        """Every target as it is now, ascending by index."""

    @abstractmethod
    def layout(self, folder: Path) -> Layout:
        """What a new file in `folder` would get."""

    @abstractmethod
    def undo(self, folder: Path) -> tuple[Command, ...]:
        """The commands that bring back the layout that `folder` has now; raises UserError if nothing can."""

    def restrict(self, targets: Sequence[Target], folder: Path) -> tuple[Target, ...]:  # noqa: ARG002
        """Those targets, without the use of those that a new file in `folder` can't get."""
        return tuple(targets)

    def confirm(self, layout: Layout, folder: Path, targets: Sequence[Target]) -> None:  # noqa: ARG002
        """Raise LayoutDiffers unless new files in `folder` get this layout, which was just set."""
        found = self.layout(folder)
        if found != layout:
            says = f"{shown(self.set_command(layout, folder))}: reads back as {said(found)}, not {said(layout)}"
            raise LayoutDiffers(says)

    def most(self, targets: Sequence[Target]) -> int:
        """The largest stripe count possible on these targets."""
        return min(self.max_count, sum(t.usable for t in targets))

    def apply(self, layout: Layout, folder: Path, targets: Sequence[Target] | None = None) -> Applied:
        """Set the layout of new files in `folder` and read it back; a refusal leaves everything as it was.

        `targets` are those of the file system, where somebody has just asked for them.
        """
        fitted = self.fitted(layout)
        _check_folder(folder)
        usable = self.restrict(self.targets(folder) if targets is None else targets, folder)
        _check(fitted.layout, usable, self.max_count)
        before, undo = self.layout(folder), self.undo(folder)
        command = self.set_command(fitted.layout, folder)
        try:
            run(command, timeout=self.timeout)
            self.confirm(fitted.layout, folder, usable)
        except UserError as error:
            lost = error.lost if isinstance(error, LayoutDiffers) else frozenset()
            raise LayoutRefused(f"{error}; {self._put_back(undo, folder)}", lost) from None
        except BaseException:
            self._put_back(undo, folder)
            raise
        return Applied(layout=fitted.layout, before=before, command=command, notes=fitted.notes)

    def _put_back(self, undo: tuple[Command, ...], folder: Path) -> str:
        """Back to the earlier layout, if it is another by now; how that went, as the end of a sentence."""
        commands = " && ".join(map(shown, undo))
        try:
            if self.undo(folder) == undo:
                return "the layout is as it was"
            for command in undo:
                run(command, timeout=self.timeout)
            if self.undo(folder) == undo:
                return "the earlier layout is back in place"
        except UserError as error:
            return f"whether the earlier layout is in place is not known ({error}): {commands} puts it there"
        return f"the earlier layout could not be put back: try {commands}"


def said(layout: Layout) -> str:
    """
    >>> said(Layout(count=8, size=4 << 20, start=12))
    '8 stripes of 4 MiB from target 12'
    """
    start = "" if layout.start == ANY else f" from target {layout.start}"
    return f"{stripes(layout.count, layout.size)}{start}"


def as_argument(folder: Path) -> str:
    """The folder, such that no command takes it for an option."""
    return f"./{folder}" if str(folder).startswith("-") else str(folder)


def listed(done: Done, found: tuple[_Listed, ...]) -> tuple[_Listed, ...]:
    """The targets that the command listed, of which there must be some."""
    # One target that is away makes a command end badly, and is no reason to do without the others.
    if not found:
        raise done.failed() if done.code else BadInput(shown(done.argv), "lists no targets")
    return found


def leave_out(targets: Iterable[Target], issues: Mapping[int, str]) -> tuple[Target, ...]:
    """The targets, of which those with an issue (by index) can't be used."""
    return tuple(
        replace(t, usable=False, because=t.because or issues[t.index]) if t.index in issues else t for t in targets
    )


def numbered(count: int) -> tuple[Target, ...]:
    """Targets of which no more is known than how many there are."""
    return tuple(Target(index=i) for i in range(count))


def _check_folder(folder: Path) -> None:
    try:
        if not folder.is_dir():
            raise BadInput(str(folder), "is not a folder" if folder.exists() else "there is no such folder")
    except OSError as error:
        raise BadInput(str(folder), why(error)) from None


def _check(layout: Layout, targets: Sequence[Target], max_count: int) -> None:
    usable = {t.index for t in targets if t.usable}
    if layout.count > len(usable):
        raise BadInput(f"stripe count {layout.count}", f"there are {len(usable)} usable targets of {len(targets)}")
    if layout.count > max_count:
        raise BadInput(f"stripe count {layout.count}", f"the file system allows at most {max_count}")
    if layout.start != ANY and layout.start not in usable:
        because = next((t.because for t in targets if t.index == layout.start), "there is no such target")
        raise BadInput(f"first target {layout.start}", because or "can't be used now")
