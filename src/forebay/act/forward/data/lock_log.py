"""The file in which the server of the locks keeps what is held, so that a server that is killed grants nothing twice.

Each change is one record at the end of the file: a lock that a client got or released, a client that began, or one that
ended. A record is on disk some time later only: if the machine stops, all leases end before it is back.
"""

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from forebay.act.forward.data.lock_table import Lock, LockTable
from forebay.act.forward.data.untrusted_tree import Tree
from forebay.act.forward.net.payloads import UNLOCKED
from forebay.act.forward.net.wire import BadMessage, pack, unpack_as

_NAME = b"locks"
_LENGTH = struct.Struct("<I")
_MOST_OLD = 4096
"""With more obsolete records than this, the file is rewritten."""


class _Record(NamedTuple):
    """A lock that is set on a file; or the epoch of a client, 0 if it has ended and all its locks are released."""

    file: int
    lock: Lock | None
    client: int = 0
    epoch: int = 0


class LockLog:
    """Restores `locks` and `epochs` (by client) from `folder`, and records their changes; these raise OSErrors."""

    def __init__(self, folder: Path) -> None:
        self.locks, self.epochs = LockTable(), dict[int, int]()
        self._tree = Tree(folder)
        with suppress(FileNotFoundError):
            for record in _read_records(self._tree.read(_NAME)):
                self._apply(record)
        self._incomplete = False
        self._file = self._rewrite()

    def set(self, file: int, lock: Lock) -> None:
        self._change(_Record(file, lock), must=lock.kind != UNLOCKED)

    def begin_client(self, client: int, epoch: int) -> None:
        self._change(_Record(0, None, client, epoch), must=True)

    def end_client(self, client: int) -> None:
        self._change(_Record(0, None, client, 0), must=False)

    def close(self) -> None:
        os.close(self._file)
        self._tree.close()

    def _change(self, record: _Record, *, must: bool) -> None:
        """Record a change, and make it. A release is made even if it cannot be recorded now."""
        try:
            self._append(_frame(record))
        except OSError:
            self._incomplete = True
            if must:
                raise OSError(errno.ENOLCK, "the server cannot record the lock: its disk is full or failing") from None
        self._apply(record)

    def _append(self, content: bytes) -> None:
        if self._incomplete or self._records > _MOST_OLD + 2 * (len(self.locks) + len(self.epochs)):
            new = self._rewrite()
            os.close(self._file)
            self._file = new
        if os.write(self._file, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._records += 1

    def _apply(self, record: _Record) -> None:
        if record.lock is not None:
            self.locks.set(record.file, record.lock)
        elif record.epoch:
            self.epochs[record.client] = record.epoch
        else:
            self.epochs.pop(record.client, None)
            self.locks.drop_client(record.client)

    def _rewrite(self) -> int:
        records: list[_Record] = [_Record(0, None, *item) for item in self.epochs.items()]
        records += (_Record(file, lock) for file, lock in self.locks)
        self._tree.replace(_NAME, b"".join(map(_frame, records)))
        self._incomplete = False
        self._records = len(records)
        return self._tree.open_file(_NAME, os.O_WRONLY | os.O_APPEND)


def _frame(record: _Record) -> bytes:
    content = pack(record)
    return _LENGTH.pack(len(content)) + content


def _read_records(data: bytes) -> Iterator[_Record]:
    """Read all records; the last one may be cut off."""
    at = 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        with suppress(BadMessage):
            yield unpack_as(_Record, data[at : at + length])
        at += length
