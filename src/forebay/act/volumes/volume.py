"""What a volume is, and what every kind of them offers."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from forebay.model.errors import BadInput, UserError

State = Literal["whole", "half"]
_NAME = re.compile(r"[0-9a-f]{32}\.(0|[1-9][0-9]{0,5})")


class BadRequest(BadInput):
    """What is asked of a volume can't be had, whichever disk it is on."""


class VolumeFailed(UserError):
    """A volume that can't be made or released; the message is one line, and the disk is as it was before."""


class NoRoom(VolumeFailed):
    """The disk has less room than the volume needs."""


class WrongOwner(VolumeFailed):
    """An agent without root can't make volumes for other users."""


class NotOurs(VolumeFailed):
    """Something without Forebay's mark stands where a volume is or would be; it was not touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume as it is on the disk."""

    name: str
    size: int
    """Bytes that the user can write."""
    path: Path
    """Where it is mounted; or where it lies, if it is not to be mounted on this node."""
    device: str = ""
    """The block device under it, where there is one of its own."""
    enforced: bool
    """Whether the user is kept from writing more (where overheads can't be met to the byte, about one percent more)."""
    state: State
    """`half`: made in part, released in part, or not mounted since the node started; `make` or `release` ends that."""
    ceiling: float | None = None
    """Bytes per second, reading and writing each; None: not limited, be it that none was asked or can't be had."""
    uid: int = -1
    """Whose it is; -1: its mark can't be read."""
    gid: int = -1
    mode: int = 0o700
    asked_ceiling: float = 0.0
    """Bytes per second that were asked for; 0: none."""
    since: float = 0.0
    """When it was begun, in seconds since 1970; 0: nobody knows."""


class Volumes(Protocol):
    """The volumes on one disk. Whoever calls makes sure that no two calls work on one name at the same time."""

    @property
    def kind(self) -> str: ...

    @property
    def enforces(self) -> bool:
        """Whether the sizes asked are kept."""

    @abstractmethod
    def make(
        self, name: str, size: int, *, uid: int, gid: int, mode: int = 0o700, ceiling: float | None = None
    ) -> Volume:
        """A volume into which `uid` can write `size` bytes; the same again if it is there, whole, and alike.

        One that a crash left half made is finished. If it fails, nothing is left behind.
        """

    @abstractmethod
    def find(self) -> list[Volume]:
        """Everything on this disk that carries Forebay's mark, by name; half-made things too."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Take away all of the volume and nothing else; whoever still has files open in it loses them.

        A volume that is not there is no error.
        """

    @abstractmethod
    def usable(self) -> int:
        """Bytes that can be granted on this disk in all, those granted already included."""

    @abstractmethod
    def free(self) -> int:
        """Bytes that can be granted on this disk now, besides those granted already."""

    @abstractmethod
    def check(self) -> None:
        """Whether this kind can work here; what is in its way, in one line, if not."""


def check_name(name: str) -> str:
    """`name`, if it is one of Forebay's: the grant's id and the volume's number.

    >>> check_name("00f3e7a1c4b25d8890a1b2c3d4e5f607.0")
    '00f3e7a1c4b25d8890a1b2c3d4e5f607.0'
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"volume {name[:80]!r}", "is not a volume of Forebay's: 32 hexadecimal digits, a dot, a number")
    return name


def is_name(name: str) -> bool:
    """Whether it could be a volume's."""
    return _NAME.fullmatch(name) is not None
