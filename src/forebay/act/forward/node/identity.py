"""For whom a client of an I/O node may make requests."""

import os
from typing import Any

from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.payloads import Caller

_NOBODY = (1 << 32) - 2
_MOST_GROUPS = 256


def identify_client(connection: Connection) -> tuple[Caller, bool]:
    """The user of a client that has proved itself, and whether it may make requests for all other users too.

    On a UNIX socket, the kernel says who has connected. Only root and this node's own user may speak for others. By
    TCP, the layer's key is the proof: only root should be able to read it.
    """
    process, facts = connection.process_at_other_end(), connection.peer.facts
    holder = facts.get("holder")
    if not isinstance(holder, int) or not 0 <= holder < 1 << 63:
        holder = 0
    if process is not None and process.uid not in (0, os.geteuid()):
        return Caller(process.uid, process.gid, process.groups, process.uid, holder), False
    if process is not None and "uid" not in facts:
        return Caller(process.uid, process.gid, process.groups, process.uid, holder), True
    uid, gid = _number(facts.get("uid")), _number(facts.get("gid"))
    groups = facts.get("groups")
    known = tuple(map(_number, groups[:_MOST_GROUPS])) if isinstance(groups, list) else ()
    return Caller(uid, gid, known, uid, holder), True


def _number(value: Any) -> int:
    """A user or a group, as the client has announced it."""
    return value if isinstance(value, int) and 0 <= value <= _NOBODY else _NOBODY
