"""What a copier has done, in a file from which the next copier goes on, whenever this one was killed.

Each line is a JSON list. A line counts only if the machine has not been started again since: a crash of the machine can
lose bytes that were copied before the line.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_BOOT = Path("/proc/sys/kernel/random/boot_id")
BOOT, BEGUN, OBJECTS, PART, DONE = "boot", "begun", "objects", "part", "done"


class Source(NamedTuple):
    """Identifies the content of a source: its path in the staging, size and mtime in nanoseconds."""

    path: str
    size: int
    mtime: int


class Journal:
    """`done` are the copied files, with the number of their copy; `parts` the offsets copied of large files.

    `numbers` are those of incomplete copies of large files; when one is complete, it keeps its number.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor, self._lock = descriptor, threading.Lock()
        self.done: dict[Source, int] = {}
        self.parts: dict[Source, set[int]] = {}
        self.numbers: dict[Source, int] = {}
        self.begun: dict[Source, str] = {}
        """Files that may have an incomplete copy, with the end of its name."""
        self.objects: list[tuple[int, int]] = []
        """The server and number of objects that were written for files which may not have got their names."""
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
                        self.numbers.clear()
                elif kind == BEGUN:
                    self.begun[Source(*fields[:3])] = fields[3]
                elif kind == OBJECTS:
                    self.objects += ((server, number) for server, number in fields[0])
                elif kind == PART:
                    self.parts.setdefault(source := Source(*fields[:3]), set()).add(fields[3])
                    self.numbers[source] = fields[4]
                elif kind == DONE:
                    self.done[source := Source(*fields[:3])] = fields[3]
                    self.begun.pop(source, None)
        if not text.endswith(b"\n") and text:
            self._write_bytes(b"\n")
        if not is_same_boot:
            self._write((BOOT, boot))

    def note_begun(self, sources: Iterable[Source], tag: str) -> None:
        """Note that incomplete copies of these files may exist from now on."""
        with self._lock:
            self.begun |= (begun := dict.fromkeys(sources, tag))
        self._write(*((BEGUN, *source, tag) for source in begun))

    def note_objects(self, objects: Sequence[tuple[int, int]]) -> None:
        self._write((OBJECTS, objects))

    def note_part(self, source: Source, offset: int, number: int) -> None:
        self._write((PART, *source, offset, number))

    def note_done(self, numbers: Mapping[Source, int]) -> None:
        with self._lock:
            self.done |= numbers
            for source in numbers:
                self.begun.pop(source, None)
        self._write(*((DONE, *source, number) for source, number in numbers.items()))

    def _write(self, *lines: Sequence[object]) -> None:
        if self._descriptor is not None:
            self._write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def _write_bytes(self, lines: bytes) -> None:
        assert self._descriptor is not None
        with self._lock:
            os.write(self._descriptor, lines)  # appends


def _read_boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
