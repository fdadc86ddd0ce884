"""What I/O nodes and the council tell each other: observed periods, decisions, and the jobs that have ended."""

from typing import Annotated, TypeAlias

import msgspec

from forebay.act.forward.net.payloads import Count, Payload
from forebay.model.observation import Observation


class Announcement(Payload, kw_only=True):
    """An I/O node's observation of the last period, and the tuned parameter's value, set `held` seconds ago."""

    observed: Observation
    parameter: str
    value: int | float | str
    held: float
    servers: int


class Decision(Payload, kw_only=True):
    """A parameter's new value; with `ignore`, I/O nodes keep theirs."""

    parameter: str
    value: int | float | str
    ignore: bool = False


Duration: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1 << 62)]
"""Seconds."""
Stripes: TypeAlias = Annotated[int, msgspec.Meta(gt=0, le=1 << 16)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(gt=0)]
Start: TypeAlias = Annotated[int, msgspec.Meta(ge=-1)]
FileUse: TypeAlias = tuple[int, tuple[Stripes, Positive, Start], Count, Count]
"""A file's id and layout, the bytes moved, and the end of the last byte used."""
SIZE_BINS = 10
SizeCounts: TypeAlias = Annotated[list[Count], msgspec.Meta(min_length=SIZE_BINS, max_length=SIZE_BINS)]
"""Requests by size, in the bins of Darshan."""


class JobPart(Payload, kw_only=True):
    """What one process of a job did through one I/O node; `token` is unique. Times in seconds."""

    app: str
    exe: str
    user: str | None = None
    uid: Count
    job: Count
    process: str
    processes: Count
    token: str
    begin: Duration
    end: Duration
    busy: Duration = 0.0
    read_time: Duration = 0.0
    write_time: Duration = 0.0
    meta_time: Duration = 0.0
    reads: Count = 0
    writes: Count = 0
    bytes_read: Count = 0
    bytes_written: Count = 0
    seq: Count = 0
    consec: Count = 0
    strided: Count = 0
    unaligned: Count = 0
    common_size: Count = 0
    read_sizes: SizeCounts
    write_sizes: SizeCounts
    files: list[FileUse]


class JobReport(Payload, kw_only=True):
    parts: list[JobPart]
