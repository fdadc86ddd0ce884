"""What can happen. Each event is declared once: its fields, what it changes, how it reads, and how it is counted.

Events are values that go into a journal and come back from it (see `codec`).
"""

# isort: off
from forebay.decide.grants.events.base import EVENTS, Event, apply_event
from forebay.decide.grants.events.grant import (
    Asked, Declined, Ended, Extended, Forgotten, Granted, InUse, LetGo, Making, Queued, Ready, Releasing, Told,
    TurnedDown,
)  # fmt: skip
from forebay.decide.grants.events.machine import (
    DiskFailed, DiskRegistered, DiskResumed, DiskSuspended, DiskTried, DiskUnseen, DiskVanished, Drained, NodeAnswered,
    NodeDoubted, NodeRegistered, NodeSilent, NodeTrusted, PolicyChanged, Reported, RulesChanged, Swept, Undrained,
)  # fmt: skip
from forebay.decide.grants.events.volume import (
    StrayGone, Strayed, VolumeGone, VolumeHalf, VolumeLost, VolumeMade, VolumeMoved, VolumeStuck,
)  # fmt: skip

__all__ = [
    "EVENTS", "Asked", "Declined", "DiskFailed", "DiskRegistered", "DiskResumed", "DiskSuspended", "DiskTried",
    "DiskUnseen", "DiskVanished", "Drained", "Ended", "Event", "Extended", "Forgotten", "Granted", "InUse", "LetGo",
    "Making", "NodeAnswered", "NodeDoubted", "NodeRegistered", "NodeSilent", "NodeTrusted", "PolicyChanged", "Queued",
    "Ready", "Releasing", "Reported", "RulesChanged", "StrayGone", "Strayed", "Swept", "Told", "TurnedDown",
    "Undrained", "VolumeGone", "VolumeHalf", "VolumeLost", "VolumeMade", "VolumeMoved", "VolumeStuck", "apply_event",
]  # fmt: skip
