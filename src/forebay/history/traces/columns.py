"""Parses the values that all traces have, and makes requests from them."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.model.space_requests import Requests
from forebay.model.system import MOST_BYTES
from forebay.model.units import plural

_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_LONGEST_ID = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def make_requests(
    ids: NDArray[Any],
    times: Sequence[tuple[float, float, float]],
    volumes: Sequence[tuple[int, int]],
    left_out: Mapping[tuple[str, str], int],
) -> Requests:
    """A request for each job: submission, start and end, and the larger of the bytes that it read and wrote."""
    submitted, start, end = np.array(times, dtype=np.float64).reshape(-1, 3).T
    was_read, written = np.array(volumes, dtype=np.int64).reshape(-1, 2).T
    return Requests(
        ids=ids,
        submitted=submitted.copy(),
        start=start.copy(),
        duration=end - start,
        bytes=np.maximum(was_read, written),
        volume=was_read.astype(np.float64) + written,
        left_out=describe_left_out(left_out),
    )


def id_column(ids: Sequence[str]) -> NDArray[Any]:
    """An array of whole numbers if all ids are whole numbers, else of text.

    >>> id_column(["12", "7"]), id_column(["12", "7a"])
    (array([12,  7]), array(['12', '7a'], dtype='<U2'))
    """
    if all(map(_WHOLE.fullmatch, ids)):
        return np.array([int(text) for text in ids], dtype=np.int64)
    return np.array(ids, dtype=np.str_)


def check_id(text: str) -> str:
    """Return the text if it is short enough: the longest id sets the width of the array."""
    if not 1 <= len(text) <= _LONGEST_ID:
        raise ValueError(f"must have from 1 to {_LONGEST_ID} characters, not {len(text):,}")
    return text


def parse_time(text: str) -> float:
    """Seconds since 1970 of a time, which is UTC unless it has an offset.

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
        number = int(text) if text.isdecimal() else float(text)
        value = int(number)
        if value != number:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"must be a whole number of bytes, not {quote(text)}") from None
    if not 0 <= value <= MOST_BYTES:
        raise ValueError(f"must be from 0 to {MOST_BYTES:,} bytes, not {quote(text)}")
    return value


def quote(text: str) -> str:
    """The text in quotes, shortened if it is long."""
    return repr(text) if len(text) <= 40 else f"{text[:37]!r}..."


def describe_left_out(counts: Mapping[tuple[str, str], int]) -> str:
    """Describe what is left out, from counts by noun and the phrase after it.

    >>> describe_left_out({("job", "without memory"): 1200, ("job", "without time"): 0, ("job", "without bytes"): 1})
    '1,200 jobs without memory, 1 job without bytes'
    """
    return ", ".join(f"{plural(count, word)} {more}" for (word, more), count in counts.items() if count)
