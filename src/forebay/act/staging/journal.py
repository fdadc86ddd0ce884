"""What a copier has done, in a file from which the next copier goes on, whenever this one was killed.

Each line is a JSON list. A line counts only if the machine has not been started again since: a crash of the machine can
lose bytes that were copied before the line.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_BOOT = Path("/proc/sys/kernel/random/boot_id")
BOOT, BEGUN, PART, DONE = "boot", "begun", "part", "done"


class Source(NamedTuple):
    """Identifies the content of a source: its path in the staging, size and mtime in nanoseconds."""

    path: str
    size: int
    mtime: int


class Journal:
    """`done` are the copied files, with the number of their copy; `parts` the offsets copied of large files."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor, self._lock = descriptor, threading.Lock()
        self.done: dict[Source, int] = {}
        self.parts: dict[Source, set[int]] = {}
        self.begun: set[str] = set()
        """Paths of files that may have an incomplete copy."""
        if descriptor is not None:
            self._read(descriptor)

    def _read(self, descriptor: int) -> None:
        text = b""
        while piece := os.pread(descriptor, 1 << 20, len(text)):
            text += piece
        boot = _read_boot()
        is_same_boot = False
        for line in text.split(b"\n")[:-1]:  # the last line may be incomplete
            with suppress(ValueError, TypeError, IndexError):
                kind, *fields = json.loads(line)
                if kind == BOOT:
                    is_same_boot = fields[0] == boot
                    if not is_same_boot:
                        self.done.clear()
                        self.parts.clear()
                elif kind == BEGUN:
                    self.begun.add(fields[0])
                elif kind == PART:
                    self.parts.setdefault(Source(*fields[:3]), set()).add(fields[3])
                elif kind == DONE:
                    self.done[Source(*fields[:3])] = fields[3]
                    self.begun.discard(fields[0])
        if not text.endswith(b"\n") and text:
            self._write_bytes(b"\n")
        if not is_same_boot:
            self._write(BOOT, boot)

    def note_begun(self, path: str) -> None:
        """Note that an incomplete copy of this file may exist from now on."""
        with self._lock:
            self.begun.add(path)
        self._write(BEGUN, path)

    def note_part(self, source: Source, offset: int) -> None:
        self._write(PART, *source, offset)

    def note_done(self, source: Source, number: int) -> None:
        with self._lock:
            self.done[source] = number
            self.begun.discard(source.path)
        self._write(DONE, *source, number)

    def _write(self, *fields: object) -> None:
        if self._descriptor is not None:
            self._write_bytes(json.dumps(fields).encode() + b"\n")

    def _write_bytes(self, line: bytes) -> None:
        assert self._descriptor is not None
        with self._lock:
            os.write(self._descriptor, line)  # appends


def _read_boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
