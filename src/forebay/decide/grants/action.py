"""What the control service has the agents do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What an agent is to do for one volume; to do it again is harmless.

    "make" is all of it: made, mounted, the user's, and exposed if that is asked for. `disk` is the disk's own name.
    """

    kind: Literal["make", "release"]
    volume: str
    disk: str
    size: int
    uid: int = 0
    gid: int = 0
    mode: int = 0o700
    ceiling: float = 0.0
    expose: str = ""
    hosts: tuple[str, ...] = ()
