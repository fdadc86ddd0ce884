"""What every event is and declares, and where all kinds of them are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

from forebay.decide.grants.state import Tables
from forebay.decide.grants.tables import BrokenJournal, Table
from forebay.model.grant import node_of

_ROWS: dict[str, Any] = {name: table.kind for name, table in vars(Tables()).items() if isinstance(table, Table)}
EVENTS: dict[str, type[Event]] = {}  # all kinds of events by their names in the journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a time (seconds since 1970). Each kind declares what differs from these defaults."""

    at: float
    says: ClassVar[str] = ""  # what happened, for people; `self` is the event
    table: ClassVar[str] = ""  # with the row that it changes
    key: ClassVar[str] = ""  # the field with the key of that row
    copies: ClassVar[tuple[str, ...]] = ()  # fields that the row takes over: those that both have
    changes: ClassVar[Mapping[str, object]] = {}  # what else changes in the row
    grant_in: ClassVar[str] = ""  # the field with the grant that it is about, or with a volume of that
    node_in: ClassVar[str] = ""  # the field with the node that it is about, or with a disk of that
    group: ClassVar[Literal["decisions", "grants", "machine", "settings"] | None] = None  # a filter of the page
    is_logged: ClassVar[bool] = True  # an event that is not follows from another that is
    is_warning: ClassVar[bool] = False
    is_refusal: ClassVar[bool] = False
    is_decision: ClassVar[bool] = False  # of the policy
    frees_space: ClassVar[bool] = False  # somebody in the queue may find space after it

    def apply(self, tables: Tables) -> None:
        """Change the state. Nothing is decided here."""
        self.change_row(tables)

    def change_row(self, tables: Tables, **more: Any) -> Any:
        """The row that it is about, changed as declared."""
        copied = {name: getattr(self, name) for name in self.copies}
        return getattr(tables, self.table).change(getattr(self, self.key), **self.changes, **copied, **more)

    def sentence(self) -> str:
        return self.says.format(self=self)

    @property
    def grant_id(self) -> str:
        """The grant that it is about; "" if it is about none."""
        return str(attrgetter(self.grant_in)(self)).partition(".")[0] if self.grant_in else ""

    @property
    def node_name(self) -> str:
        """The node that it is about; "" if it is about none."""
        return node_of(attrgetter(self.node_in)(self)) if self.node_in else ""

    @property
    def counted_as(self) -> str:
        """The name under which the metrics count it: few names, whatever the event says."""
        return type(self).__name__


E = TypeVar("E", bound=Event)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(says: str = "", **declared: object) -> Callable[[type[E]], type[E]]:
    """Make a class an event that the journal knows by the name of the class; `declared` is what `Event` lists."""

    def make(kind: type[E]) -> type[E]:
        made: type[E] = dataclass(frozen=True, slots=True, kw_only=True)(kind)
        if made.table:
            row = {field.name for field in fields(_ROWS[made.table])}
            made.copies = tuple(field.name for field in fields(made) if field.name in row and field.name != made.key)
        for name, value in {"says": says, **declared}.items():
            setattr(made, name, value)
        EVENTS[made.__name__] = made
        return made

    return make


def apply_event(tables: Tables, event: Event) -> None:
    try:
        event.apply(tables)
    except KeyError as error:
        what = f"{type(event).__name__} at {event.at:g}"
        raise BrokenJournal(f"{what} refers to {error}, which the journal does not know") from error
