"""The sessions that a data server refuses: their clients have left the I/O node that may still send requests."""

import os
from array import array
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from forebay.act.forward.data.untrusted_tree import Tree


class Fences:
    """The sessions that a data server refuses: the last `most`, in a file with 8 bytes for each.

    They outlive the process, because an I/O node that is cut off from its client may delay a write until after the
    server has restarted.
    """

    def __init__(self, path: Path, most: int = 1 << 16) -> None:
        self._name, self._most = os.fsencode(path.name), most
        self._tree = Tree(path.parent)
        known = array("Q")
        with suppress(FileNotFoundError):
            data = self._tree.read(self._name)
            known.frombytes(data[: len(data) // known.itemsize * known.itemsize])
        self._sessions: OrderedDict[int, None] = OrderedDict()
        for session in known:
            self._remember(session)
        self._file = self._rewrite()
        self._written = len(self._sessions)

    def __contains__(self, session: int) -> bool:
        return session in self._sessions

    def add(self, session: int) -> None:
        """Refuse the session. If the disk is full, only this process remembers it, so that clients can go on."""
        self._remember(session)
        with suppress(OSError):
            if self._written >= 2 * self._most:
                new = self._rewrite()
                os.close(self._file)
                self._file, self._written = new, len(self._sessions)
            else:
                os.write(self._file, array("Q", (session,)).tobytes())
                self._written += 1

    def close(self) -> None:
        os.close(self._file)
        self._tree.close()

    def _remember(self, session: int) -> None:
        self._sessions[session] = None
        self._sessions.move_to_end(session)
        if len(self._sessions) > self._most:
            self._sessions.popitem(last=False)

    def _rewrite(self) -> int:
        self._tree.replace(self._name, array("Q", self._sessions).tobytes())
        return self._tree.open_file(self._name, os.O_WRONLY | os.O_APPEND)
