"""The folder of a data server: its identity and its lock."""

import json
import os
from contextlib import ExitStack
from pathlib import Path

from forebay.act.files import try_lock
from forebay.act.forward.data.untrusted_tree import Tree
from forebay.model.errors import BadInput, UserError, why

_LOCK, _IDENTITY = b"lock", b"server.json"
_FORMAT = 3
"""Format 1 kept names as a tree of files (old_names.py). In format 2, server 0 had all names; it still has them in a
folder of format 3 that is not `sharded`. An earlier release refuses later formats."""


class ServerFolder:
    """Locks `folder` for server `index` of a layer of `servers`; raises UserError if that is not possible."""

    def __init__(self, folder: Path, index: int, servers: int) -> None:
        self.folder = folder
        with ExitStack() as held:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._tree = Tree(folder)
                held.callback(self._tree.close)
                lock = self._tree.open_file(_LOCK, os.O_RDWR | os.O_CREAT)
                held.callback(os.close, lock)
            except OSError as error:
                raise BadInput(str(folder), f"cannot use it as a server's folder: {why(error)}") from None
            if not try_lock(lock):
                raise UserError(f"{folder}: another server uses this folder; stop it or choose another")
            self.sharded = self._claim({"format": _FORMAT, "index": index, "servers": servers})
            self.close = held.pop_all().close

    def _claim(self, identity: dict[str, int]) -> bool:
        """Make the folder that of this server; return whether the names of the layer are spread over its servers."""
        try:
            owner = json.loads(self._tree.read(_IDENTITY))
        except FileNotFoundError:
            others = sorted(set(self._tree.list(b".")) - {_LOCK, _IDENTITY + b".new"})
            if others:
                reason = f"contains {os.fsdecode(others[0])!r}, but is not a server's folder; choose an empty folder"
                raise BadInput(str(self.folder), reason) from None
            self._write(identity | {"sharded": True})
            return True
        except (OSError, ValueError):
            raise BadInput(str(self.folder / os.fsdecode(_IDENTITY)), "is unreadable or damaged") from None
        if owner in (identity | {"format": 1}, identity | {"format": 2}):
            self._write(identity | {"sharded": False})
            return False
        if owner not in (identity | {"sharded": True}, identity | {"sharded": False}):
            raise BadInput(str(self.folder), f"belongs to {_describe(owner)}, not to {_describe(identity)}")
        return bool(owner["sharded"])

    def _write(self, identity: dict[str, int]) -> None:
        self._tree.replace(_IDENTITY, json.dumps(identity).encode() + b"\n")


def _describe(identity: object) -> str:
    match identity:
        case {"format": 1 | 2 | 3, "index": int(index), "servers": int(servers)}:
            return f"server {index} of {servers}"
        case {"format": int(number)}:
            return f"a later release (format {number})"
    return "something else"
