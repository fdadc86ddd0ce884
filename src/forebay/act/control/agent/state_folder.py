"""The files in an agent's folder that survive a restart: numbers of reports, and the agent's journal."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from forebay.act.files import write_file
from forebay.model.errors import BadInput, why

_BLOCK = 1 << 20


def read_state(file: Path) -> str:
    """The text of a file; "" if it does not exist."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise BadInput(str(file), f"cannot be read: {error}") from None


def write_state(file: Path, text: str) -> None:
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
            self._last = max(int(read_state(file) or 0), int(clock()) * _BLOCK)
        except ValueError:
            raise BadInput(str(file), "does not contain a number; if the clock is right, remove the file") from None
        self._most = self._last

    def next(self) -> int:
        with self._lock:
            self._last += 1
            if self._last > self._most:
                write_state(self._file, f"{self._most + _BLOCK}\n")
                self._most += _BLOCK
            return self._last


class JournalMemory:
    """The journal that the agent acts on. It protects data if the service later has another journal."""

    def __init__(self, file: Path) -> None:
        self._file, self.seen = file, read_state(file).strip()

    def keep(self, seen: str) -> None:
        """Store the journal's stamp, before the agent carries out the actions that came with it."""
        if seen != self.seen:
            write_state(self._file, f"{seen}\n")
            self.seen = seen
