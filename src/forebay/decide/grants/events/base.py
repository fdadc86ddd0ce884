"""The base of all events, and the list of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

from forebay.decide.grants.state import Tables
from forebay.decide.grants.state_tables import BrokenJournal, Table
from forebay.model.grant import node_of

_ROWS: dict[str, Any] = {name: table.kind for name, table in vars(Tables()).items() if isinstance(table, Table)}
EVENTS: dict[str, type[Event]] = {}  # all kinds of events by their names in the journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a time (seconds since 1970). Each kind overrides some of these defaults."""

    at: float
    says: ClassVar[str] = ""  # a sentence for people; `self` is the event
    table: ClassVar[str] = ""  # the table whose row it changes
    key: ClassVar[str] = ""  # the field with the key of that row
    copies: ClassVar[tuple[str, ...]] = ()  # fields that are copied to the row: those that both have
    changes: ClassVar[Mapping[str, object]] = {}  # what else changes in the row
    grant_in: ClassVar[str] = ""  # the field that names its grant, or a volume of the grant
    node_in: ClassVar[str] = ""  # the field that names its node, or a disk of the node
    group: ClassVar[Literal["decisions", "grants", "machine", "settings"] | None] = None  # a filter of the page
    is_logged: ClassVar[bool] = True  # False if it follows from another event, which is logged
    is_warning: ClassVar[bool] = False
    is_refusal: ClassVar[bool] = False
    is_decision: ClassVar[bool] = False  # of the policy
    frees_space: ClassVar[bool] = False  # a queued request may find space after it

    def apply(self, tables: Tables) -> None:
        """Change the state. This decides nothing."""
        self.change_row(tables)

    def change_row(self, tables: Tables, **more: Any) -> Any:
        """Change the row as declared; returns the new row."""
        copied = {name: getattr(self, name) for name in self.copies}
        return getattr(tables, self.table).change(getattr(self, self.key), **self.changes, **copied, **more)

    def sentence(self) -> str:
        return self.says.format(self=self)

    @property
    def grant_id(self) -> str:
        """The grant that the event is about; "" for none."""
        return str(attrgetter(self.grant_in)(self)).partition(".")[0] if self.grant_in else ""

    @property
    def node_name(self) -> str:
        """The node that the event is about; "" for none."""
        return node_of(attrgetter(self.node_in)(self)) if self.node_in else ""

    @property
    def counted_as(self) -> str:
        """The name under which the metrics count it; there are only a few such names."""
        return type(self).__name__


E = TypeVar("E", bound=Event)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def event(says: str = "", **declared: object) -> Callable[[type[E]], type[E]]:
    """Make a class an event, with the class's name in the journal; `declared` overrides attributes of `Event`."""

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
        raise BrokenJournal(f"{what} refers to {error}, which is not in the journal before it") from error
