"""What is wrong with a run's I/O, what to do about it, and what that brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.history.darshan.file_records import FileRecords
    from forebay.history.run_fields import Row


def examine_records(records: FileRecords) -> Row:
    """A row of `run_diagnoses` with its `findings`, for ingest. Only workers load Darshan's library."""
    from forebay.profile.findings.diagnosis import summarize_findings

    return summarize_findings(records)
