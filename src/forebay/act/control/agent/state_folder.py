"""What an agent keeps in its folder over a restart: numbers of reports, the journal it acts on, and marks of disks."""

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from forebay.act.control.agent.node import AgentDisk
from forebay.act.files import write_file
from forebay.act.volumes.volume_lifecycle import HOME
from forebay.model.errors import BadInput, why

_BLOCK = 1 << 20


def _write(file: Path, text: str) -> None:
    try:
        write_file(file, text)
    except OSError as error:
        raise BadInput(str(file), f"cannot be written: {why(error)}") from None


class ReportNumbers:
    """Numbers that rise, also from one start of the agent to the next.

    The file contains the highest number that may be in use, so that it is seldom written. If it is lost, the clock
    replaces it: a start is taken to be later than the last one.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file, self._lock = file, threading.Lock()
        self._last = max(self._read(), int(clock()) * _BLOCK)
        self._most = self._last

    def next(self) -> int:
        with self._lock:
            self._last += 1
            if self._last > self._most:
                _write(self._file, f"{self._most + _BLOCK}\n")
                self._most += _BLOCK
            return self._last

    def _read(self) -> int:
        try:
            return int(self._file.read_text())
        except FileNotFoundError:
            return 0
        except (OSError, ValueError):
            raise BadInput(str(self._file), "is not an agent's file; remove it if the clock is right") from None


class JournalMemory:
    """The journal that the agent acts on. Should the service ever have another one, nobody loses data."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self.seen = file.read_text().strip() if file.exists() else ""
        except (OSError, ValueError) as error:
            raise BadInput(str(file), f"cannot be read: {error}") from None

    def keep(self, seen: str) -> None:
        """Store it before anything is done that came with it."""
        if seen != self.seen:
            _write(self._file, f"{seen}\n")
            self.seen = seen


class DiskMarks:
    """Whether a disk is the one that it was. Each disk gets a mark in a file, and the agent remembers it.

    A mount point whose disk is not mounted is a folder like any other. An agent that took it for an empty disk would
    give up all grants on it. `folder` keeps the marks of all disks that this agent has ever worked with.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_known(self, disk: AgentDisk) -> bool:
        return self._file_of(disk).exists()

    def check(self, disk: AgentDisk) -> None:
        """Check that the disk works and is the one that it was; mark a new one."""
        disk.volumes.check()
        if disk.root is None:
            return
        known, there = self._read(disk, disk.root)
        mark = there or f"{secrets.token_hex(8)}\n"
        try:
            if not there:
                write_file(disk.root / HOME / "disk", mark)
            if not known:
                write_file(self._file_of(disk), mark)
        except OSError as error:
            raise BadInput(f"disk {disk.name}", f"its mark cannot be written: {why(error)}") from None

    def verify(self, disk: AgentDisk) -> None:
        """Check that the disk is the one that it was: else volumes would land on another disk or in an empty folder."""
        if disk.root is not None:
            self._read(disk, disk.root)

    def _read(self, disk: AgentDisk, root: Path) -> tuple[str, str]:
        """The mark that the agent remembers and the one on the disk; "" for none."""
        file, mark = self._file_of(disk), root / HOME / "disk"
        try:
            known = file.read_text() if file.exists() else ""
            there = mark.read_text() if mark.exists() else ""
        except OSError as error:
            raise BadInput(f"disk {disk.name}", f"its mark cannot be read: {why(error)}") from None
        if known and known != there:
            way_out = f"is it mounted? If it was replaced, remove {file}"
            raise BadInput(f"disk {disk.name}", f"{root} is not the disk that was there; {way_out}")
        return known, there

    def _file_of(self, disk: AgentDisk) -> Path:
        return self._folder / quote(disk.name, safe="")
