"""A volume, and the errors of making and releasing one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forebay.model.errors import BadInput, UserError

State = Literal["whole", "half"]
_NAME = re.compile(r"[0-9a-f]{32}\.(0|[1-9][0-9]{0,5})")


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
    uid: int = -1
    """Its owner; -1: its mark cannot be read."""
    gid: int = -1
    mode: int = 0o700
    asked_ceiling: float = 0.0
    """The ceiling that was requested; 0: none."""
    since: float = 0.0
    """When it was begun, in seconds since 1970; 0: unknown."""


def check_name(name: str) -> str:
    """`name`, if it is valid: the grant's id and the volume's number.

    >>> check_name("00f3e7a1c4b25d8890a1b2c3d4e5f607.0")
    '00f3e7a1c4b25d8890a1b2c3d4e5f607.0'
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"volume {name[:80]!r}", "is not a volume name (32 hexadecimal digits, a dot, a number)")
    return name


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
