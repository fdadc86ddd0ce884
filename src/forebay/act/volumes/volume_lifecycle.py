"""The life of a volume, the same for every kind: the mark first, then the things, then `whole`; backwards to the end.

A crash leaves a mark at every point, so whoever comes next knows whose the things beside it are. A volume that never
became whole holds nothing of value and is begun again; a whole one is never formatted again, only brought up.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from forebay.act.command import format_command, run
from forebay.act.volumes.record import Record, Stage, check_request
from forebay.act.volumes.volume import NoRoom, NotOurs, Volume, VolumeFailed, WrongOwner, check_name
from forebay.model.errors import BadInput, UserError, why
from forebay.model.units import format_size

_LONGEST = 200
"""Characters of a path that an error repeats: users can make longer ones."""


def ignore_step(_step: str) -> None:
    """What is done after each step, outside tests."""


@dataclass(frozen=True, kw_only=True)
class VolumeLifecycle(ABC):
    """What all kinds share. `root` is the folder in which users find their volumes, one entry a volume."""

    kind: ClassVar[str]
    enforces: ClassVar[bool]

    root: Path
    timeout: float = 60.0
    """Seconds that each outside command may take."""
    after: Callable[[str], None] = ignore_step
    """Told of each step as soon as it is done; a test that raises here leaves all as a crash would."""

    def make(
        self, name: str, size: int, *, uid: int, gid: int, mode: int = 0o700, ceiling: float | None = None
    ) -> Volume:
        wanted = check_request(name, size, uid, gid, mode, ceiling)
        with _wrap_errors(name):
            known = self._record(name)
            if known is not None and known.stage == "releasing":
                self._remove(known)
                known = None
            return self._completed(self._begun(wanted) if known is None else _match_record(known, wanted))

    def find(self) -> list[Volume]:
        with _wrap_errors():
            return [self._made(record) for record in self._records()]

    def release(self, name: str) -> None:
        with _wrap_errors(check_name(name)):
            for record in self._records():
                if record.name == name:
                    self._remove(record)

    def usable(self) -> int:
        with _wrap_errors():
            return self._net(self._bytes_free() + sum(map(self._held, self._records())))

    def free(self) -> int:
        with _wrap_errors():
            return self._net(self._bytes_free())

    def path(self, name: str) -> Path:
        """Where the user finds the volume."""
        return self.root / name

    def _begun(self, record: Record) -> Record:
        self._check_vacant(record)
        gross, left = self._gross(record.size), self._bytes_free()
        if gross > left:
            needs = f"{format_size(record.size)} needs {format_size(gross)} with what the file system takes"
            raise NoRoom(f"volume {record.name}: {needs}; {self.root} has {format_size(max(left, 0))} left")
        try:
            self._begin(record)
        except (OSError, UserError):
            self._forget(record)
            raise
        return record

    def _completed(self, record: Record) -> Volume:
        fresh = record.stage == "making"
        used = not fresh and self._is_up(record)
        try:
            if fresh:
                self._down(record)
                self._clear(record)
                self._create(record)
                record = self._mark(record, "whole")
            self._up(record)
        except (OSError, UserError) as error:
            says = (
                error
                if isinstance(error, UserError)
                else VolumeFailed(f"volume {record.name}: {describe_error(error)}")
            )
            raise says if used else self._undone(record, says, fresh) from None
        return self._made(record)

    def _undone(self, record: Record, says: UserError, fresh: bool) -> UserError:
        """The error to raise, once all is as it was before; a whole volume keeps what the user wrote."""
        try:
            if fresh:
                self._remove(self._record(record.name) or record)  # its stage may have changed
            else:
                self._down(record)
        except (OSError, UserError) as second:
            if describe_error(second) != str(says):  # else it could not begin, for the same reason
                return VolumeFailed(f"{says}; what was made is still there: {describe_error(second)}")
        return says

    def _remove(self, record: Record) -> None:
        if record.stage in ("making", "whole"):
            record = self._mark(record, "releasing")
        if record.stage != "begun":
            self._down(record)
            self._clear(record)
        self._forget(record)

    def _made(self, record: Record) -> Volume:
        whole = record.stage == "whole" and self._is_up(record)
        return Volume(
            name=record.name,
            size=record.size,
            path=self._place(record),
            device=self._device(record),
            enforced=self.enforces and self._enforced(record),
            state="whole" if whole else "half",
            ceiling=self._ceiling(record) if whole else None,
            since=self._since(record),
            **({} if record.stage in ("begun", "unreadable") else _whose(record)),
        )

    def _do(self, *argv: str | Path, seconds: float = 0.0) -> str:
        """Run a command, which may take so many seconds more than others; what it prints."""
        out = run([str(word) for word in argv], timeout=self.timeout + seconds)
        self.after(format_command([str(word) for word in argv]))
        return out

    def _hand_over(self, record: Record) -> None:
        """Owner and mode of the volume's top are the user's, and on the disk."""
        descriptor = os.open(self.path(record.name), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            self._give(descriptor, record)
            self.after(f"chown {record.name}")
            os.fchmod(descriptor, record.mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.after(f"chmod {record.name}")

    def _give(self, descriptor: int, record: Record) -> None:
        try:
            os.fchown(descriptor, record.uid, record.gid)
        except PermissionError:
            owner = f"can't give it to uid {record.uid}, gid {record.gid}: the agent runs as uid {os.geteuid()}"
            raise WrongOwner(f"volume {record.name}: {owner}. Run the agent as root to serve other users") from None

    def _check_root(self, *commands: str) -> None:
        """The folder is there, only its owner can change it, and the commands are installed."""
        self._check_commands(*commands)
        if not self.root.is_dir():
            raise BadInput(str(self.root), "is no folder; make it, owned by whoever runs the agent")
        found = self.root.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise BadInput(str(self.root), "must belong to whoever runs the agent, and be writable by nobody else")

    def _check_commands(self, *commands: str) -> None:
        for command in commands:
            if not any(Path(folder, command).exists() for folder in os.get_exec_path()):
                raise BadInput(f"{self.kind} volumes", f"need the command {command}, which is not installed")

    def _needs_root(self) -> None:
        if os.geteuid() != 0:
            raise BadInput(f"{self.kind} volumes", "need root")

    @abstractmethod
    def _records(self) -> list[Record]:
        """Every mark, by name."""

    def _record(self, name: str) -> Record | None:
        return next((record for record in self._records() if record.name == name), None)

    @abstractmethod
    def _check_vacant(self, record: Record) -> None:
        """NotOurs, if anything stands where the new volume would."""

    @abstractmethod
    def _begin(self, record: Record) -> None:
        """Put the mark on the disk."""

    @abstractmethod
    def _mark(self, record: Record, stage: Stage) -> Record:
        """Change the mark's stage."""

    @abstractmethod
    def _forget(self, record: Record) -> None:
        """Take the mark away: the last step."""

    @abstractmethod
    def _create(self, record: Record) -> None:
        """Make all that outlives a restart of the node; nothing of it is there yet."""

    @abstractmethod
    def _up(self, record: Record) -> None:
        """Make what a restart of the node takes away; some or all of it may be there."""

    @abstractmethod
    def _down(self, record: Record) -> None:
        """Undo `_up`, as far as it got."""

    @abstractmethod
    def _clear(self, record: Record) -> None:
        """Undo `_create`, as far as it got."""

    @abstractmethod
    def _is_up(self, record: Record) -> bool: ...

    @abstractmethod
    def _gross(self, size: int) -> int:
        """Bytes of the disk that a volume takes in which `size` bytes can be written."""

    def _net(self, gross: int) -> int:
        """Bytes that can be granted on so many bytes of disk: as one volume, less a part in 50 for more than one."""
        room, low, high = gross * 49 // 50, 0, max(0, gross)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._takes(middle) <= room else (low, middle - 1)
        return low if low and self._takes(low) else 0

    def _takes(self, size: int) -> int:
        """As `_gross`; 0 for what is too small to be made."""
        try:
            return self._gross(size)
        except BadInput:
            return 0

    @abstractmethod
    def _bytes_free(self) -> int:
        """Bytes of the disk that no volume and nobody else has."""

    @abstractmethod
    def _held(self, record: Record) -> int:
        """Bytes of the disk that the volume has, written or not."""

    def _place(self, record: Record) -> Path:
        return self.path(record.name)

    def _device(self, _record: Record) -> str:
        return ""

    def _enforced(self, _record: Record) -> bool:
        return self.enforces

    def _since(self, _record: Record) -> float:
        return 0.0

    def _ceiling(self, _record: Record) -> float | None:
        return None


def _whose(record: Record) -> dict[str, Any]:
    return {"uid": record.uid, "gid": record.gid, "mode": record.mode, "asked_ceiling": float(record.ceiling or 0)}


def check_vacant(*places: Path) -> None:
    """NotOurs, if one of them is there."""
    for place in places:
        if os.path.lexists(place):
            raise NotOurs(f"{place}: is there already and does not carry Forebay's mark; it was not touched")


def _match_record(known: Record, wanted: Record) -> Record:
    if known.stage == "unreadable":
        raise BadInput(f"volume {wanted.name}", "is there with a mark that can't be read; release it first")
    if known.asked() != wanted.asked():
        has = f"{known.size} bytes for {known.uid}:{known.gid} with mode {known.mode:o}, ceiling {known.ceiling}"
        raise BadInput(f"volume {wanted.name}", f"is there already and not the one asked: {has}")
    return replace(wanted, stage=known.stage)


@contextmanager
def _wrap_errors(name: str = "") -> Iterator[None]:
    """What the system refuses is told in one line."""
    try:
        yield
    except OSError as error:
        raise VolumeFailed(f"volume {name}: {describe_error(error)}" if name else describe_error(error)) from None


def describe_error(error: Exception) -> str:
    """What is wrong, in one line."""
    if not isinstance(error, OSError):
        return str(error)
    return f"{str(error.filename)[:_LONGEST]}: {why(error)}" if error.filename else why(error)
