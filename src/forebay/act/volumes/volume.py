"""A volume, the record of a request for one, and the errors of making and releasing one."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forebay.model.errors import BadInput, UserError
from forebay.model.units import format_size

State = Literal["whole", "half"]
Stage = Literal["begun", "making", "whole", "releasing", "unreadable"]
"""`begun`: the mark itself is not in place yet, so nothing else of the volume exists."""
_NAME = re.compile(r"[0-9a-f]{32}\.(0|[1-9][0-9]{0,5})")
_MOST = 1 << 60  # bytes that no disk has: more is a slip of the pen
_NOBODY = (1 << 32) - 1  # the id that chown takes for "leave it"


class BadRequest(BadInput):
    """A request for a volume that no disk can satisfy."""


class VolumeFailed(UserError):
    """A volume that cannot be made or released; the message is one line, and the disk is unchanged."""


class NoRoom(VolumeFailed):
    """The disk has less room than the volume needs."""


class WrongOwner(VolumeFailed):
    """An agent without root cannot make volumes for other users."""


class NotOurs(VolumeFailed):
    """Something without Forebay's mark is where a volume is or would be; it was left unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume as it is on the disk."""

    name: str
    size: int
    """Bytes that the user can write."""
    path: Path
    """Where it is mounted; or its image or device, if it is not mounted on this node."""
    device: str = ""
    """Its block device, if it has one."""
    enforced: bool
    """Whether the user cannot write more (or about one percent more, where overheads are not exact)."""
    state: State
    """`half`: partly made, partly released, or not mounted since the node started; `make` or `release` ends that."""
    ceiling: float | None = None
    """Bytes per second, for reads and for writes; None: not limited."""
    uid: int
    """Its owner; -1: its mark cannot be read."""
    gid: int
    mode: int
    asked_ceiling: float
    """The ceiling that was requested; 0: none."""
    since: float = 0.0
    """When it was begun, in seconds since 1970; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Forebay's mark of a volume: what was requested, and how far it got.

    Sizes in bytes, `ceiling` in bytes per second. Of an unreadable mark, only the name is known.
    """

    name: str
    size: int = 0
    uid: int = -1
    gid: int = -1
    mode: int = 0o700
    ceiling: int | None = None
    stage: Stage = "making"


def is_name(name: str) -> bool:
    """Whether it is a grant's id and a volume's number.

    >>> is_name("00f3e7a1c4b25d8890a1b2c3d4e5f607.0")
    True
    """
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """`name`, if it is valid."""
    if not is_name(name):
        raise BadInput(f"volume {name[:80]!r}", "is not a volume name (32 hexadecimal digits, a dot, a number)")
    return name


def check_request(name: str, size: int, uid: int, gid: int, mode: int, ceiling: float | None) -> Record:
    """The record of a new volume; raises BadRequest for what is impossible on every disk."""
    where = f"volume {check_name(name)}"
    if not isinstance(size, int) or not 0 < size <= _MOST:
        raise BadRequest(where, f"size must be from 1 byte to {format_size(_MOST)}, not {size!r}")
    for label, number in (("uid", uid), ("gid", gid)):
        if not 0 <= number < _NOBODY:
            raise BadRequest(where, f"{label} must be from 0 to {_NOBODY - 1}, not {number!r}")
    if not 0 <= mode <= 0o777:
        raise BadRequest(where, f"mode must be from 0 to 0777, not {mode:o}")
    if ceiling is not None and not (math.isfinite(ceiling) and ceiling >= 1):
        raise BadRequest(where, f"ceiling must be at least one byte per second, not {ceiling!r}")
    return Record(name=name, size=size, uid=uid, gid=gid, mode=mode, ceiling=None if ceiling is None else int(ceiling))
