"""What every reader of traces returns, and the values that they have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.model.request import Floats, Ints
from forebay.model.system import MOST_BYTES
from forebay.model.units import plural

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_LONGEST_ID = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of `Requests`, and a phrase that says what of the file is left out."""

    ids: NDArray[Any]
    submitted: Floats
    start: Floats
    duration: Floats
    bytes: Ints
    volume: Floats
    left_out: str


def id_column(ids: Sequence[str]) -> NDArray[Any]:
    """An array of whole numbers if all ids are, else of text.

    >>> id_column(["12", "7"]), id_column(["12", "7a"])
    (array([12,  7]), array(['12', '7a'], dtype='<U2'))
    """
    if all(map(_WHOLE.fullmatch, ids)):
        return np.array([int(text) for text in ids], dtype=np.int64)
    return np.array(ids, dtype=np.str_)


def check_id(text: str) -> str:
    """The same text if it can be an id; the array of ids is as wide as the longest."""
    if not 1 <= len(text) <= _LONGEST_ID:
        raise ValueError(f"must have from 1 to {_LONGEST_ID} characters, not {len(text):,}")
    return text


def parse_time(text: str) -> float:
    """Seconds since 1970 of a time, which is UTC without an offset.

    >>> parse_time("1970-01-02 00:00:01")
    86401.0
    """
    try:
        if text[4:5] != "-":
            raise ValueError
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"must be a time like '2020-01-31 23:59:59', not {quote(text)}") from None
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH).total_seconds()


def parse_bytes(text: str) -> int:
    """A whole number of bytes; `12.0` is one.

    >>> parse_bytes("12")
    12
    """
    try:
        value = int(text) if text.isdecimal() else _whole(float(text))
    except ValueError:
        raise ValueError(f"must be a whole number of bytes, not {quote(text)}") from None
    if not 0 <= value <= MOST_BYTES:
        raise ValueError(f"must be from 0 to {MOST_BYTES:,} bytes, not {quote(text)}")
    return value


def _whole(value: float) -> int:
    if not value.is_integer():  # also for nan and inf
        raise ValueError
    return int(value)


def quote(text: str) -> str:
    """The text in quotes, shortened if it is long."""
    return repr(text) if len(text) <= 40 else f"{text[:37]!r}..."


def describe_left_out(counts: dict[tuple[str, str], int]) -> str:
    """A list of what is left out, from the numbers of things, each a noun and what follows it.

    >>> describe_left_out({("job", "without memory"): 1200, ("job", "of no time"): 0, ("job", "of no bytes"): 1})
    '1,200 jobs without memory, 1 job of no bytes'
    """
    return ", ".join(f"{plural(count, word)} {more}" for (word, more), count in counts.items() if count)
