"""Which logs are examined for findings when they are ingested, and what is kept if they are not."""

from collections.abc import Callable, Iterator

from forebay.history.darshan.file_records import FileRecords, Tables
from forebay.history.darshan.log_format import FileLayout
from forebay.history.run_fields import Row
from forebay.history.scanned_log import Status

MOST_EXAMINED = 500_000
"""The most records of a module for which findings are stored: their tables take 170 bytes for each."""
LEAST_SECONDS = 1.0
"""Runs with less I/O (of all processes together) are not worth the time that examining them takes."""
Examine = Callable[[FileRecords], Row]
"""Finds what is wrong with a run's I/O; returns a row of `run_diagnoses` with its `findings`."""


def examine_log(
    records: FileRecords, tables: Tables, examine: Examine, row: Row, remarks: list[tuple[Status, str]]
) -> Row:
    """The findings of the log. A rule that fails must not cost the history the run."""
    if row["read_time"] + row["write_time"] + row["meta_time"] < LEAST_SECONDS:
        return {"remark": f"its I/O took less than {LEAST_SECONDS:g} s of all processes together"}
    if not tables.are_whole or len(records.layouts) > MOST_EXAMINED:
        return {"remark": f"it has more than {MOST_EXAMINED:,} records, which only `forebay diagnose` examines"}
    tables.finish()
    try:
        return examine(records)
    except Exception as error:
        reason = " ".join(f"cannot be diagnosed: {type(error).__name__} {error}".split())
        remarks.append(("undiagnosed", reason))
        return {"remark": f"it {reason}"}


def keep_layouts(layouts: Iterator[FileLayout], records: FileRecords) -> Iterator[FileLayout]:
    """Pass layouts through, and keep them for the findings."""
    for layout in layouts:
        if len(records.layouts) <= MOST_EXAMINED:
            records.layouts.append(layout)
        yield layout
