"""Phrases that tables, figures and findings share."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from forebay.model.units import format_size
from forebay.show.options import UNKNOWN
from forebay.show.output import printable

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


def format_share(share: float) -> str:
    """A percentage with one decimal, or two if it is small, without trailing zeros.

    >>> format_share(0.9), format_share(0.025), format_share(0.0025), format_share(0.00004)
    ('90 %', '2.5 %', '0.25 %', '<0.01 %')
    """
    value = 100 * share
    if 0 < value < 0.01:
        return "<0.01 %"
    return f"{float(f'{value:.{1 if value >= 1 else 2}f}'):g} %"


def format_counts(numbers: Sequence[int]) -> str:
    """
    >>> format_counts((1, 2, 8)), format_counts(range(0, 100, 2))
    ('1, 2, 8', '0 ... 98')
    """
    return ", ".join(map(str, numbers)) if len(numbers) <= 5 else f"{min(numbers)} ... {max(numbers)}"


def format_time(seconds: float) -> str:
    """The local date and time."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def mount_name(filesystem: str) -> str:
    """The name of a file system: its mount point."""
    return printable(filesystem) or UNKNOWN


def name_filesystems(shown: Sequence[tuple[str, int, int]]) -> str:
    """The file systems of the runs in a table or figure; "" if none is known.

    >>> name_filesystems([("/home", 1, 1), ("/work", 1, 1)])
    'all 2 file systems'
    """
    mounts = [mount or UNKNOWN for mount, *_ in shown]
    return f"all {len(mounts)} file systems" if len(mounts) > 1 else "".join(mounts)


def cut_middle(text: str, longest: int = 110) -> str:
    """Leave out the middle of a long text.

    >>> cut_middle("/scratch/a/very/long/name", 11)
    '/scra…/name'
    """
    half = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[:half]}…{text[-half:]}"
