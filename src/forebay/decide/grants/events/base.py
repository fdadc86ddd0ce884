"""What every event is and declares, and where all kinds of them are listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar, dataclass_transform

from forebay.decide.grants.state import BrokenJournal, Tables
from forebay.model.grant import node_of

Group = Literal["decisions", "grants", "machine", "settings"]
EVENTS: dict[str, type[Event]] = {}
"""All kinds of events by their names in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a time (seconds since 1970).

    Each kind says here all there is to know about it: what it changes, how it reads, whom it concerns, where it shows,
    and how it is counted.
    """

    at: float
    says: ClassVar[str] = ""
    """What happened, for people; `self` is the event."""
    group: ClassVar[Group | None] = None
    """Under which of its filters the page shows it; None if the page does not."""
    is_logged: ClassVar[bool] = True
    """Whether the service's log has a line for it; those without one follow from another that has."""
    is_warning: ClassVar[bool] = False
    is_refusal: ClassVar[bool] = False
    is_decision: ClassVar[bool] = False
    """Whether the policy decided it."""
    frees_space: ClassVar[bool] = False
    """Whether somebody in the queue may find space after it."""

    def apply(self, tables: Tables) -> None:
        """Change the state. Nothing is decided here."""
        raise NotImplementedError

    def sentence(self) -> str:
        """What happened, for people."""
        return self.says.format(self=self)

    @property
    def grant_id(self) -> str:
        """The grant that it is about; "" if it is about none."""
        return ""

    @property
    def node_name(self) -> str:
        """The node that it is about; "" if it is about none."""
        return ""

    @property
    def counted_as(self) -> str:
        """The name under which the metrics count it: few names, whatever the event says."""
        return type(self).__name__


E = TypeVar("E", bound=Event)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(kind: type[E]) -> type[E]:
    """Make a class an event that the journal knows by the name of the class."""
    made: type[E] = dataclass(frozen=True, slots=True, kw_only=True)(kind)
    EVENTS[made.__name__] = made
    return made


def apply_event(tables: Tables, event: Event) -> None:
    """Change the state by one event."""
    try:
        event.apply(tables)
    except KeyError as error:
        raise BrokenJournal(
            f"{type(event).__name__} at {event.at:g} refers to {error}, which the journal does not know"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantEvent(Event):
    grant: str
    group: ClassVar[Group | None] = "grants"

    @property
    def grant_id(self) -> str:
        return self.grant


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent(Event):
    node: str
    group: ClassVar[Group | None] = "machine"

    @property
    def node_name(self) -> str:
        return self.node


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskEvent(Event):
    """`disk` is its node's name, a slash, and its own."""

    disk: str
    group: ClassVar[Group | None] = "machine"

    @property
    def node_name(self) -> str:
        return node_of(self.disk)
