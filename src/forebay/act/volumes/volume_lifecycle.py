"""The life cycle of every volume: first the mark, then the volume itself, then the stage `whole`; and in reverse.

A crash at any point leaves a mark, so the next agent knows that Forebay made what is beside it. A volume that never
became whole holds no user data and is made again; a whole volume is never formatted again, only brought up.

The mark is a small file beside the volumes, unless a kind has a better place. The suffix of the file's name is the
stage: a change of stage needs no space, so a full disk can be emptied.
"""

import json
import os
import shutil
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

from forebay.act.command import format_command, run
from forebay.act.files import open_folder, sync_folder, write_synced
from forebay.act.volumes.mounts import Mount, mounted_below
from forebay.act.volumes.volume import (
    NoRoom,
    NotOurs,
    Record,
    Stage,
    Volume,
    VolumeFailed,
    WrongOwner,
    check_name,
    check_request,
    is_name,
)
from forebay.model.errors import BadInput, UserError, why
from forebay.model.units import format_size

HOME = ".forebay"
"""The folder in a disk's root that holds marks and files that users need not see. Only root can enter it."""
PLACED: tuple[Stage, ...] = ("making", "whole", "releasing")
_LONGEST = 200  # characters of a path that an error repeats: users can create longer ones


def ignore_step(_step: str) -> None:
    """Do nothing after a step; tests simulate crashes there."""


@dataclass(frozen=True, kw_only=True)
class Volumes(ABC):
    """The volumes on one disk. Users find them in the folder `root`, one entry per volume.

    The caller ensures that no two calls work on one volume at the same time.
    """

    kind: ClassVar[str]
    enforces: ClassVar[bool] = True
    """Whether the disk stops users at the size of a volume."""

    root: Path
    timeout: float = 60.0
    """The time limit of each command, in seconds."""
    after: Callable[[str], None] = ignore_step
    """Called after each step; a test that raises here leaves everything as a crash would."""

    def make(
        self, name: str, size: int, *, uid: int, gid: int, mode: int = 0o700, ceiling: float | None = None
    ) -> Volume:
        """Make a volume of `size` bytes for `uid`, or return the existing one if its request was the same.

        Complete a volume that a crash left half made. After a failure, leave nothing behind.
        """
        wanted = check_request(name, size, uid, gid, mode, ceiling)
        with wrap_errors(name):
            known = self.read_record(name)
            if known is not None and known.stage == "releasing":
                self._remove(known)
                known = None
            if known is None:
                known = wanted
                self._begin(wanted)
            if known.stage == "unreadable":
                raise BadInput(f"volume {name}", "exists with an unreadable mark; release it first")
            if replace(known, stage=wanted.stage) != wanted:
                existing = f"{known.size} bytes for {known.uid}:{known.gid} with mode {known.mode:o}"
                reason = f"exists and differs from the request: {existing}, ceiling {known.ceiling}"
                raise BadInput(f"volume {name}", f"{reason}; release it first")
            return self._complete(known)

    def find(self) -> list[Volume]:
        """List all volumes on this disk that carry Forebay's mark, by name, including half-made ones."""
        with wrap_errors():
            return [self._describe(record) for record in self.list_records()]

    def release(self, name: str) -> None:
        """Remove the volume, if it exists, and nothing else. Programs lose the files that they have open."""
        with wrap_errors(check_name(name)):
            for record in self.list_records():
                if record.name == name:
                    self._remove(record)

    def usable(self) -> int:
        """Return the bytes that this disk can grant in total, including those granted already."""
        with wrap_errors():
            return self._net_size(self._free_bytes() + sum(map(self._occupied_bytes, self.list_records())))

    def path(self, name: str) -> Path:
        """Return where the user finds the volume."""
        return self.root / name

    @property
    def home(self) -> Path:
        return self.root / HOME

    def _begin(self, record: Record) -> None:
        self._check_vacant(record)
        gross, left = self._gross_size(record.size), self._free_bytes()
        if gross > left:
            needed = f"needs {format_size(gross)} with file system overhead, {format_size(max(left, 0))} free"
            raise NoRoom(f"volume {record.name}: not enough space in {self.root}: {needed}. Release grants there")
        try:
            self.write_mark(record)
        except (OSError, UserError):
            self.remove_mark(record)
            raise

    def _complete(self, record: Record) -> Volume:
        fresh = record.stage == "making"
        used = not fresh and self._is_up(record)
        try:
            if fresh:
                self._take_down(record)
                self._delete(record)
                self._create(record)
                record = self.change_stage(record, "whole")
            self._bring_up(record)
        except (OSError, UserError) as error:
            if isinstance(error, OSError):
                error = VolumeFailed(f"volume {record.name}: {describe_error(error)}")
            raise error if used else self._undo(record, error, fresh) from None
        return self._describe(record)

    def _undo(self, record: Record, error: UserError, fresh: bool) -> UserError:
        """Undo an incomplete `make` and return the error to raise. A whole volume keeps the user's data."""
        try:
            if fresh:
                self._remove(self.read_record(record.name) or record)  # its stage may have changed
            else:
                self._take_down(record)
        except (OSError, UserError) as second:
            if describe_error(second) != str(error):  # otherwise undoing failed for the same reason
                return VolumeFailed(f"{error}; its cleanup failed, too: {describe_error(second)}; release it again")
        return error

    def _remove(self, record: Record) -> None:
        if record.stage in ("making", "whole"):
            record = self.change_stage(record, "releasing")
        if record.stage != "begun":
            self._take_down(record)
            self._delete(record)
        self.remove_mark(record)

    def _describe(self, record: Record) -> Volume:
        volume = Volume(
            name=record.name,
            size=record.size,
            path=self.path(record.name),
            enforced=self.enforces,
            state="whole" if record.stage == "whole" and self._is_up(record) else "half",
            uid=record.uid,
            gid=record.gid,
            mode=record.mode,
            asked_ceiling=float(record.ceiling or 0),
        )
        with suppress(OSError):
            return replace(volume, since=self._mark_file(record.name, record.stage).stat().st_mtime)
        return volume

    def _run(self, *argv: str | Path, seconds: float = 0.0) -> str:
        """Run a command, which may take `seconds` longer than others, and return its output."""
        command = [str(word) for word in argv]
        output = run(command, timeout=self.timeout + seconds)
        self.after(format_command(command))
        return output

    def _hand_over(self, record: Record) -> None:
        """Give the volume's top folder to the user, with its mode, and wait until that is on the disk."""
        with open_folder(self.path(record.name), os.O_NOFOLLOW) as descriptor:
            try:
                os.fchown(descriptor, record.uid, record.gid)
                self.after(f"chown {record.name}")
                os.fchmod(descriptor, record.mode)
                os.fsync(descriptor)
            except PermissionError:
                owner = f"cannot give it to uid {record.uid}, gid {record.gid}: the agent runs as uid {os.geteuid()}"
                raise WrongOwner(f"volume {record.name}: {owner}. Run the agent as root to serve other users") from None
        self.after(f"chmod {record.name}")

    def _net_size(self, gross: int) -> int:
        """Return the bytes that `gross` bytes of disk can grant as one volume, less 1/50 for overhead of several."""

        def size_taken(size: int) -> int:
            try:
                return self._gross_size(size)
            except BadInput:  # too small
                return 0

        largest = bisect_right(range(max(0, gross) + 1), gross * 49 // 50, key=size_taken) - 1
        return largest if largest > 0 and size_taken(largest) else 0

    def _check_root(self, *commands: str) -> None:
        """Raise BadInput unless `root` exists, only its owner can change it, and root can run the commands."""
        if commands and os.geteuid() != 0:
            raise BadInput(f"{self.kind} volumes", "need root; run the agent as root")
        for command in commands:
            if shutil.which(command, os.F_OK) is None:
                raise BadInput(f"{self.kind} volumes", f"command {command} is not installed")
        if not self.root.is_dir():
            raise BadInput(str(self.root), "is not a folder; create it, owned by the user who runs the agent")
        status = self.root.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise BadInput(str(self.root), "must belong to the user who runs the agent and be writable by nobody else")

    # The mark.

    def list_records(self) -> list[Record]:
        """Return all marks, by name."""
        if not self.home.is_dir():
            return []
        names = {file.stem for stage in ("begun", *PLACED) for file in self.home.glob(f"*.{stage}")}
        return [self.read_record(name) or Record(name=name, stage="begun") for name in sorted(filter(is_name, names))]

    def read_record(self, name: str) -> Record | None:
        for stage in PLACED:
            with suppress(FileNotFoundError):
                return _parse_record(name, stage, self._mark_file(name, stage).read_text())
        return None

    def write_mark(self, record: Record) -> None:
        """Write the mark to the disk atomically: the first step."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        fields = {key: value for key, value in asdict(record).items() if key != "stage"}
        write_synced(self._mark_file(record.name, "begun"), json.dumps(fields), 0o600)
        self.after(f"begin the mark of {record.name}")
        self.change_stage(replace(record, stage="begun"), record.stage)

    def change_stage(self, record: Record, stage: Stage) -> Record:
        self._mark_file(record.name, record.stage).rename(self._mark_file(record.name, stage))
        sync_folder(self.home)
        self.after(f"mark {record.name}: {stage}")
        return replace(record, stage=stage)

    def remove_mark(self, record: Record) -> None:
        """Remove the mark: the last step."""
        for stage in ("begun", *PLACED):
            self._mark_file(record.name, stage).unlink(missing_ok=True)
        if self.home.is_dir():
            sync_folder(self.home)
        self.after(f"remove the mark of {record.name}")

    def _mark_file(self, name: str, stage: str) -> Path:
        return self.home / f"{name}.{stage}"

    # What differs from kind to kind.

    def check(self) -> None:
        """Raise BadInput unless this kind of volume works here."""
        self._check_root()

    def _check_vacant(self, record: Record, *more: Path) -> None:
        """Raise NotOurs if something is in the place of the new volume."""
        for place in filter(os.path.lexists, (self.path(record.name), *more)):
            raise NotOurs(f"{place}: exists without Forebay's mark, so Forebay left it unchanged; move it away")

    @abstractmethod
    def _create(self, record: Record) -> None:
        """Create everything that survives a restart of the node. Nothing of it exists yet."""

    def _bring_up(self, record: Record) -> None:  # noqa: B027 - some kinds lose nothing at a restart
        """Create what a restart of the node removes. Some or all of it may exist."""

    def _take_down(self, record: Record) -> None:
        """Undo `_bring_up`, complete or not. Raise NotOurs if others have mounted something inside."""
        for mount in mounted_below(self.path(record.name)):
            raise foreign_mount(mount)

    @abstractmethod
    def _delete(self, record: Record) -> None:
        """Undo `_create`, complete or not."""

    @abstractmethod
    def _is_up(self, record: Record) -> bool: ...

    @abstractmethod
    def _gross_size(self, size: int) -> int:
        """Return the bytes of disk that a volume of `size` bytes takes."""

    def _free_bytes(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize

    @abstractmethod
    def _occupied_bytes(self, record: Record) -> int:
        """Return the bytes of disk that the volume uses, written or not."""


def foreign_mount(mount: Mount) -> NotOurs:
    return NotOurs(f"{mount.point}: something without Forebay's mark is mounted there; unmount it first")


def _parse_record(name: str, stage: Stage, text: str) -> Record:
    with suppress(ValueError, TypeError, AttributeError, BadInput):
        record = check_request(**json.loads(text))
        if record.name == name:
            return replace(record, stage=stage)
    return Record(name=name, stage="unreadable")


@contextmanager
def wrap_errors(name: str = "") -> Iterator[None]:
    """Raise system errors as VolumeFailed, in one line."""
    try:
        yield
    except OSError as error:
        raise VolumeFailed(f"volume {name}: {describe_error(error)}" if name else describe_error(error)) from None


def describe_error(error: Exception) -> str:
    """Describe the error in one line, with its path."""
    if not isinstance(error, OSError):
        return str(error)
    return f"{str(error.filename)[:_LONGEST]}: {why(error)}" if error.filename else why(error)
