"""The folder of a data server: whose it is, and that only one process uses it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from forebay.act.forward.data.tree import list_folder, open_file, read_file, replace_file
from forebay.model.errors import BadInput, UserError, why

_LOCK, _IDENTITY = b"lock", b"server.json"


class Place:
    """Holds `folder` for server `index` of a layer of `servers`; raises one line where that can't be."""

    def __init__(self, folder: Path, index: int, servers: int) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._base = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._lock = open_file(self._base, _LOCK, os.O_RDWR | os.O_CREAT)
            except OSError:
                os.close(self._base)
                raise
        except OSError as error:
            raise BadInput(str(folder), f"can't be used: {why(error)}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._claim({"format": 1, "index": index, "servers": servers})
        except BlockingIOError:
            self.close()
            raise UserError(f"{folder}: another server uses this folder") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._lock)
        os.close(self._base)

    def _claim(self, mine: dict[str, int]) -> None:
        try:
            theirs = json.loads(read_file(self._base, _IDENTITY))
        except FileNotFoundError:
            self._settle(mine)
            return
        except (OSError, ValueError):
            raise BadInput(str(self.folder / os.fsdecode(_IDENTITY)), "can't be read") from None
        if theirs != mine:
            raise BadInput(str(self.folder), f"belongs to {_words(theirs)}, not to {_words(mine)}")

    def _settle(self, mine: dict[str, int]) -> None:
        others = sorted(set(list_folder(self._base, b".")) - {_LOCK, _IDENTITY + b".new"})
        if others:
            first = os.fsdecode(others[0])
            raise BadInput(str(self.folder), f"is not empty ({first!r} is in it) and no server's folder")
        replace_file(self._base, _IDENTITY, json.dumps(mine).encode() + b"\n")


def _words(identity: object) -> str:
    match identity:
        case {"format": 1, "index": int(index), "servers": int(servers)}:
            return f"server {index} of {servers}"
    return "something else"
