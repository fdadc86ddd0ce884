"""Values in which a field is changed that a test knows only by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Value = TypeVar("Value", bound=DataclassInstance)


def replace_field(value: Value, name: str, content: object) -> Value:
    """A copy that has this content in the field; it may be of a wrong type."""
    changes: dict[str, Any] = {name: content}
    return replace(value, **changes)
