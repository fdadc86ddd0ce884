"""Numbers that rise, also from one start of the agent to the next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from forebay.act.volumes.record import write_file
from forebay.model.errors import BadInput, why

_BLOCK = 1 << 20


class Numbers:
    """Each is higher than all before. The file says up to where they may have been used, so it is seldom written.

    Where the file is lost, the clock helps: a start is taken to be later than the last one.
    """

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file, self._lock = file, threading.Lock()
        self._last = max(self._kept(), int(clock()) * _BLOCK)
        self._most = self._last

    def next(self) -> int:
        with self._lock:
            self._last += 1
            if self._last > self._most:
                self._keep(self._most + _BLOCK)
            return self._last

    def _kept(self) -> int:
        try:
            return int(self._file.read_text())
        except FileNotFoundError:
            return 0
        except (OSError, ValueError):
            raise BadInput(
                str(self._file), "is not what an agent wrote there; remove it if the clock is right"
            ) from None

    def _keep(self, most: int) -> None:
        try:
            write_file(self._file, f"{most}\n")
        except OSError as error:
            raise BadInput(str(self._file), f"can't be written: {why(error)}") from None
        self._most = most
