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


def _read(file: Path) -> str:
    """The text of a file; "" if there is none."""
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
    """Numbers that rise, also from one start of the agent to the next.

    The file contains the highest number that may be in use, so that it is seldom written. If it is lost, the clock
    replaces it: a start is taken to be later than the last one.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file, self._lock = file, threading.Lock()
        try:
            self._last = max(int(_read(file) or 0), int(clock()) * _BLOCK)
        except ValueError:
            raise BadInput(str(file), "is not an agent's file; remove it if the clock is right") from None
        self._most = self._last

    def next(self) -> int:
        with self._lock:
            self._last += 1
            if self._last > self._most:
                _write(self._file, f"{self._most + _BLOCK}\n")
                self._most += _BLOCK
            return self._last


class JournalMemory:
    """The journal that the agent acts on. Should the service ever have another one, nobody loses data."""

    def __init__(self, file: Path) -> None:
        self._file, self.seen = file, _read(file).strip()

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

    def _file_of(self, disk: AgentDisk) -> Path:
        return self._folder / quote(disk.name, safe="")

    def is_known(self, disk: AgentDisk) -> bool:
        return self._file_of(disk).exists()

    def check(self, disk: AgentDisk) -> None:
        """Check that the disk works and is the one that it was; mark a new one."""
        disk.volumes.check()
        known, there = self.verify(disk)
        mark = there or f"{secrets.token_hex(8)}\n"
        if disk.root is not None and not there:
            _write(disk.root / HOME / "disk", mark)
        if disk.root is not None and not known:
            _write(self._file_of(disk), mark)

    def verify(self, disk: AgentDisk) -> tuple[str, str]:
        """The mark that the agent remembers and the one on the disk; "" for none. An error if it is another disk."""
        if disk.root is None:
            return "", ""
        known, there = _read(self._file_of(disk)), _read(disk.root / HOME / "disk")
        if known and known != there:
            way_out = f"is it mounted? If it was replaced, remove {self._file_of(disk)}"
            raise BadInput(f"disk {disk.name}", f"{disk.root} is not the disk that was there; {way_out}")
        return known, there
