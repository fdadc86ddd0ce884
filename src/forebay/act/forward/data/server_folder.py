"""The folder of a data server: which server it belongs to, and that only one process uses it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from forebay.act.forward.data.tree import Tree
from forebay.model.errors import BadInput, UserError, why

_LOCK, _IDENTITY = b"lock", b"server.json"


class ServerFolder:
    """Holds `folder` for server `index` of a layer of `servers`; raises a UserError if that is not possible."""

    def __init__(self, folder: Path, index: int, servers: int) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._tree = Tree(folder)
            try:
                self._lock = self._tree.open_file(_LOCK, os.O_RDWR | os.O_CREAT)
            except OSError:
                self._tree.close()
                raise
        except OSError as error:
            raise BadInput(str(folder), f"cannot be used as a server's folder: {why(error)}") from None
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
        self._tree.close()

    def _claim(self, identity: dict[str, int]) -> None:
        try:
            owner = json.loads(self._tree.read(_IDENTITY))
        except FileNotFoundError:
            others = sorted(set(self._tree.list(b".")) - {_LOCK, _IDENTITY + b".new"})
            if others:
                reason = f"is not empty (it contains {os.fsdecode(others[0])!r}) and does not belong to a server"
                raise BadInput(str(self.folder), reason) from None
            self._tree.replace(_IDENTITY, json.dumps(identity).encode() + b"\n")
            return
        except (OSError, ValueError):
            raise BadInput(str(self.folder / os.fsdecode(_IDENTITY)), "cannot be read") from None
        if owner != identity:
            raise BadInput(str(self.folder), f"belongs to {_describe(owner)}, not to {_describe(identity)}")


def _describe(identity: object) -> str:
    match identity:
        case {"format": 1, "index": int(index), "servers": int(servers)}:
            return f"server {index} of {servers}"
    return "something else"
