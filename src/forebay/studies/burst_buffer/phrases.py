"""Phrases that sentences about a storage study share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from forebay.show.phrases import size
from forebay.studies.burst_buffer.view import StorageView


def where(view: StorageView) -> str:
    """Like `32 TB with 200 GB blocks`: what policies are compared on."""
    return f"{size(view.capacity)} {blocks(view)}"


def blocks(view: StorageView) -> str:
    return f"with {size(view.split)} blocks" if view.split else "without splitting"


def both(counts: tuple[int, int]) -> str:
    """Failed and refused requests, without what is 0.

    >>> both((3, 4)), both((0, 2)), both((0, 0))
    ('3 failed + 4 refused', '2 refused', '0')
    """
    parts = [f"{count} {word}" for count, word in zip(counts, ("failed", "refused"), strict=True) if count]
    return " + ".join(parts) or "0"


def percent(share: Any, digits: int = 1) -> str:
    """
    >>> percent(0.8837)
    '88.4 %'
    """
    return f"{100 * float(share):.{digits}f} %"


def number(value: Any) -> str:
    """
    >>> number(-0.001), number(-4.574)
    ('0.00', '-4.57')
    """
    return f"{float(value):.2f}".replace("-0.00", "0.00")


def now(after: str, before: str) -> str:
    """
    >>> now("3", "4"), now("3", "3")
    ('3 (was 4)', '3 (as before)')
    """
    return f"{after} ({'as before' if after == before else f'was {before}'})"


def span(values: Any, digits: int = 1) -> str:
    """
    >>> span([3.0, 1.0]), span([2.0])
    ('1.0 to 3.0', '2.0')
    """
    low, high = f"{float(np.min(values)):.{digits}f}", f"{float(np.max(values)):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def listed(parts: Iterable[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last
