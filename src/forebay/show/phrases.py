"""Phrases that tables, figures and findings share."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from forebay.model.units import format_size

MODES = {"storalloc": "as StorAlloc", "correct": "correct"}
"""The rules of a storage run."""


def size(number: int) -> str:
    """
    >>> size(32 * 10**12)
    '32 TB'
    """
    return shorten(format_size(number))


def shorten(text: str) -> str:
    """
    >>> shorten("10.00 GB/s"), shorten("2.50 TB")
    ('10 GB/s', '2.5 TB')
    """
    number, unit = text.split(" ")
    return f"{float(number):g} {unit}"


def describe_splitting(split: int) -> str:
    """Like `split at 200 GB`."""
    return f"split at {size(split)}" if split else "not split"


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


def format_finite(value: float, how: str) -> str:
    """
    >>> format_finite(2.5, "{:.2f} s"), format_finite(float("nan"), "{:.2f} s")
    ('2.50 s', '–')
    """
    return how.format(value) if np.isfinite(value) else "–"


def compare(after: str, before: str) -> str:
    """
    >>> compare("3", "4"), compare("3", "3")
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


def join_names(names: Iterable[str]) -> str:
    """
    >>> join_names(["a", "b", "c"]), join_names([])
    ('a, b and c', '')
    """
    *most, last = [*names] or [""]
    return f"{', '.join(most)} and {last}" if most else last
