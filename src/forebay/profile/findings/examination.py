"""Findings at ingest. Importing this module does not load Darshan's library: only workers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.history.darshan.file_records import FileRecords
    from forebay.history.run_fields import Row


def examine_records(records: FileRecords) -> Row:
    """A row of `run_diagnoses` with its `findings`."""
    from forebay.profile.findings.diagnosis import summarize_findings

    return summarize_findings(records)
