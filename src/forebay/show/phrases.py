"""Phrases that tables, figures and sentences share."""

from __future__ import annotations

from forebay.model.units import format_size

MODES = {"storalloc": "as StorAlloc", "correct": "correct"}
"""The rules of a storage run."""


def size(number: int) -> str:
    """
    >>> size(32 * 10**12)
    '32 TB'
    """
    value, unit = format_size(number).split(" ")
    return f"{float(value):g} {unit}"


def splitting(split: int) -> str:
    """Like `split at 200 GB`."""
    return f"split at {size(split)}" if split else "not split"
