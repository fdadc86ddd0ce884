"""A volume, the record of a request for one, and the errors of both."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forebay.model.errors import BadInput, UserError
from forebay.model.units import format_size

State = Literal["whole", "half"]
Stage = Literal["begun", "making", "whole", "releasing", "unreadable"]
"""`begun`: the mark is not in place yet, so nothing else of the volume exists."""
_NAME = re.compile(r"[0-9a-f]{32}\.(0|[1-9][0-9]{0,5})")
_MOST = 1 << 60  # bytes; no disk is larger, so a larger size is a typing error
_NOBODY = (1 << 32) - 1  # the id that makes chown leave the owner unchanged


class BadRequest(BadInput):
    """A request for a volume that no disk can satisfy."""


class VolumeFailed(UserError):
    """A volume cannot be made or released. The message is one line, and the disk is unchanged."""


class NoRoom(VolumeFailed):
    """The disk has less room than the volume needs."""


class WrongOwner(VolumeFailed):
    """An agent without root cannot make volumes for other users."""


class NotOurs(VolumeFailed):
    """Something without Forebay's mark is in the place of a volume. Forebay leaves it unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The state of a volume on the disk."""

    name: str
    size: int
    """Bytes that the user can write."""
    path: Path
    """Its mount point; or its image or device, if it is not mounted on this node."""
    device: str = ""
    """Its block device, if it has one."""
    enforced: bool
    """Whether the disk stops the user at the size (or within about one percent, where overheads are not exact)."""
    state: State
    """`half`: partly made or released, or not mounted since the node started; call `make` or `release`."""
    ceiling: float | None = None
    """Bytes per second, for reads and for writes; None: not limited."""
    uid: int
    """Its owner; -1 if its mark is unreadable."""
    gid: int
    mode: int
    asked_ceiling: float
    """The ceiling that was requested; 0: none."""
    since: float = 0.0
    """When `make` began it, in seconds since 1970; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Forebay's mark of a volume: the request and its stage.

    Sizes in bytes, `ceiling` in bytes per second. If the mark is unreadable, only the name is known.
    """

    name: str
    size: int = 0
    uid: int = -1
    gid: int = -1
    mode: int = 0o700
    ceiling: int | None = None
    stage: Stage = "making"


def is_name(name: str) -> bool:
    """Return whether the name consists of a grant's id and a volume's number.

    >>> is_name("00f3e7a1c4b25d8890a1b2c3d4e5f607.0")
    True
    """
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """Return the name; raise BadInput if it is invalid."""
    if not is_name(name):
        raise BadInput(f"volume {name[:80]!r}", "is not a volume name (32 hexadecimal digits, a dot, a number)")
    return name


def check_request(name: str, size: int, uid: int, gid: int, mode: int, ceiling: float | None) -> Record:
    """Return the record of a new volume. Raise BadRequest if no disk can satisfy the request."""
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
