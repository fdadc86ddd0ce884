"""Phrases that sentences about a storage study share."""

from __future__ import annotations

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
