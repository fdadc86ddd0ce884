"""Names and bounds of what the history keeps of a run."""

from typing import Any, TypedDict

SIZE_BINS = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")
"""Request sizes in bytes, as Darshan counts them."""

FORWARDED = "forward"
"""The file system of runs that went through a forwarding layer, whose data servers are its OSTs."""

OPERATIONS = ("read", "write")
ORDERS = ("contiguous", "strided", "with_gaps", "backward")
"""Where a request begins: right behind the one before, ahead by a stride that recurs or by another, or not ahead."""

# A number beyond these bounds is a mistake or damage.

LATEST = 1 << 36
"""Seconds since 1970, in the year 4147."""
MOST_PROCESSES = 1 << 24
"""More than the largest machine has cores."""
MOST_OSTS = 1 << 16
"""Lustre's OST numbers have 16 bits."""
MOST_STRIPES = 2000
"""Stripes of a Lustre file, or of a component of its layout."""
LARGEST = 1 << 56
"""72 PB, or as many requests, files or bytes a second. The sum of 128 such numbers still fits into 63 bits."""

Row = dict[str, Any]
"""A row of a table, by column; see `store/schema.toml`."""


class WholeRun(TypedDict):
    """A run with everything that is known of it."""

    run: Row
    modules: list[Row]
    requests: list[Row]
    osts: list[Row]
    logs: list[Row]
