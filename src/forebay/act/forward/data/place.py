"""The folder of a data server: whose it is, and that only one process uses it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from forebay.model.errors import BadInput, UserError, why

_LOCK, _IDENTITY = "lock", "server.json"


class Place:
    """Holds `folder` for server `index` of a layer of `servers`; raises one line where that can't be."""

    def __init__(self, folder: Path, index: int, servers: int) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadInput(str(folder), f"can't be used: {why(error)}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._claim({"format": 1, "index": index, "servers": servers})
        except BlockingIOError:
            os.close(self._lock)
            raise UserError(f"{folder}: another server uses this folder") from None
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        os.close(self._lock)

    def _claim(self, mine: dict[str, int]) -> None:
        identity = self.folder / _IDENTITY
        try:
            theirs = json.loads(identity.read_text())
        except FileNotFoundError:
            self._settle(identity, mine)
            return
        except (OSError, ValueError):
            raise BadInput(str(identity), "can't be read") from None
        if theirs != mine:
            raise BadInput(str(self.folder), f"belongs to {_words(theirs)}, not to {_words(mine)}")

    def _settle(self, identity: Path, mine: dict[str, int]) -> None:
        others = sorted({entry.name for entry in self.folder.iterdir()} - {_LOCK, f"{_IDENTITY}.new"})
        if others:
            raise BadInput(str(self.folder), f"is not empty ({others[0]!r} is in it) and no server's folder")
        new = identity.with_name(f"{_IDENTITY}.new")
        new.write_text(json.dumps(mine) + "\n")
        new.replace(identity)


def _words(identity: object) -> str:
    match identity:
        case {"format": 1, "index": int(index), "servers": int(servers)}:
            return f"server {index} of {servers}"
    return "something else"
