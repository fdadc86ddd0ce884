"""The closed list of reasons: why a request waits, is refused or declined, a grant ends, a volume or a disk is lost."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """A code with its meaning. The codes are part of the API: programs read the code, people the sentence beside it.

    A code that this version does not know reads as OTHER.

    >>> Reason("no-room").meaning, Reason("from a later version")
    ('The disks have too little free space for that time.', <Reason.OTHER: 'other'>)
    """

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Reason:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    @classmethod
    def _missing_(cls, value: object) -> Reason | None:
        return cls.OTHER if isinstance(value, str) else None

    NONE = "", "No code is recorded."
    NO_ROOM = "no-room", "The disks have too little free space for that time."
    CLOSED = "closed", "Every suitable disk is drained, suspended, silent or gone."
    TOO_LARGE = "too-large", "The machine could not hold this even if it were empty."
    NO_SUCH_DISK = "no-such-disk", "No disk has the tier or field that the request wants."
    WRONG_STATE = "wrong-state", "The state of the grant does not permit this."
    ENDS_LATER = "ends-later", "The grant already ends later."
    TOO_LONG = "too-long", "The grant would last longer than the rules permit."
    OWNER = "owner", "The owner released the grant."
    ADMINISTRATOR = "administrator", "An administrator did this."
    TIME_OVER = "time-over", "The time of the grant is over."
    VOLUME_LOST = "volume-lost", "The grant has lost a volume that it needs."
    NOT_MADE = "not-made", "A volume could not be made."
    NOT_REPAIRED = "not-repaired", "An incomplete volume could not be repaired."
    NOT_FOUND = "not-found", "The agent did not find the volume."
    REMOVED = "removed", "Something other than Forebay removed the volume."
    REPORTED = "reported", "The agent reported the loss; the sentence says why."
    DISK_GONE = "disk-gone", "The node no longer has the disk."
    DISK_SMALLER = "disk-smaller", "The disk has less capacity than before."
    OTHER = "other", "Another reason."


REFUSALS = (Reason.NO_ROOM, Reason.CLOSED, Reason.TOO_LARGE, Reason.NO_SUCH_DISK, Reason.OTHER)
"""The reasons by which the metrics count refused requests."""


class Because(NamedTuple):
    """A reason with the sentence that explains it."""

    reason: Reason
    text: str
