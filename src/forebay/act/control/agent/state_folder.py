"""The files in an agent's folder that survive a restart: numbers of reports, the agent's journal, marks of disks."""

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


def _read(file: Path) -> str:
    """The text of a file; "" if it does not exist."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise BadInput(str(file), f"cannot be read: {error}") from None


def _write(file: Path, text: str) -> None:
    try:
        write_file(file, text)
    except OSError as error:
        raise BadInput(str(file), f"cannot be written: {why(error)}") from None


class ReportNumbers:
    """Numbers that increase, also across restarts of the agent.

    The file contains a number that none in use exceeds, so that it is seldom written. If the file is lost, numbers
    continue from the clock.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file, self._lock = file, threading.Lock()
        try:
            self._last = max(int(_read(file) or 0), int(clock()) * _BLOCK)
        except ValueError:
            raise BadInput(str(file), "does not contain a number; if the clock is right, remove the file") from None
        self._most = self._last

    def next(self) -> int:
        with self._lock:
            self._last += 1
            if self._last > self._most:
                _write(self._file, f"{self._most + _BLOCK}\n")
                self._most += _BLOCK
            return self._last


class JournalMemory:
    """The journal that the agent acts on. It protects data if the service later has another journal."""

    def __init__(self, file: Path) -> None:
        self._file, self.seen = file, _read(file).strip()

    def keep(self, seen: str) -> None:
        """Store the journal's stamp, before the agent carries out the actions that came with it."""
        if seen != self.seen:
            _write(self._file, f"{seen}\n")
            self.seen = seen


class DiskMarks:
    """Recognizes disks by marks: one file on the disk, and one in `folder`, which has the marks of all disks ever used.

    A mount point whose disk is not mounted looks like an empty folder. Without marks, the agent would take it for an
    empty disk and give up all grants on it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file_of(self, disk: AgentDisk) -> Path:
        return self._folder / quote(disk.name, safe="")

    def is_known(self, disk: AgentDisk) -> bool:
        return self._file_of(disk).exists()

    def check(self, disk: AgentDisk) -> None:
        """Check that the disk works and has the known mark; mark a new disk."""
        disk.volumes.check()
        known, there = self.verify(disk)
        mark = there or f"{secrets.token_hex(8)}\n"
        if disk.root is not None and not there:
            _write(disk.root / HOME / "disk", mark)
        if disk.root is not None and not known:
            _write(self._file_of(disk), mark)

    def verify(self, disk: AgentDisk) -> tuple[str, str]:
        """The mark in the agent's folder and the mark on the disk; "" for none. Raises an error if they differ."""
        if disk.root is None:
            return "", ""
        known, there = _read(self._file_of(disk)), _read(disk.root / HOME / "disk")
        if known and known != there:
            way_out = f"is it mounted? If it was replaced, remove {self._file_of(disk)}"
            raise BadInput(f"disk {disk.name}", f"{disk.root} does not have the mark of this disk; {way_out}")
        return known, there
