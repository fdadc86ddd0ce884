"""The findings of a run, from its log or as the history keeps them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from forebay.history.darshan.file_records import FileRecords, read_file_records
from forebay.history.darshan.log_format import UnreadableLog
from forebay.history.darshan.process_records import combine_records
from forebay.history.run_fields import Row
from forebay.profile.calibration.calibration_file import Calibration, choose_calibration, read_calibrations
from forebay.profile.findings.combined_gain import predict_combined_gain
from forebay.profile.findings.evidence import Evidence
from forebay.profile.findings.finding import Code, Finding
from forebay.profile.findings.rules import find_problems
from forebay.profile.findings.thresholds import is_io_noticeable

MOST_LOGS = 1000
"""The most logs of a run that are read together."""
_KEPT = ("filesystem", "made", "source")
"""What the history keeps of a calibration."""
_PLAIN = ("share", "predicted_gain", "confidence", "seen", "because", "remedy")
"""The fields of a finding that the history keeps unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The findings of one run, the most costly first, and what they rest on. Without `evidence` they are those that the
    history kept; `remark` then says why there are none, if that is not because of the run."""

    log: str
    exe: str
    processes: int
    run_time: float
    total_bytes: int
    """To and from files."""
    io_seconds: float
    """Summed over processes, as Darshan measured them."""
    matters: bool
    """Whether the I/O of the busiest process takes a noticeable part of the run."""
    used_files: bool
    findings: list[Finding]
    gain_together: float | None = None
    """How many times as fast the I/O is without any of the findings; None if unknown."""
    evidence: Evidence | None = None
    remark: str | None = None
    calibration: Calibration | None = None
    """What the predicted gains rest on; None if the model has its defaults."""
    logs: int = 1
    """How many logs of the run it rests on; of several, each is of one process."""
    logs_of_run: int = 1
    bytes_of_run: int | None = None
    """To and from files and streams, as far as the history knows."""
    kept_calibration: Row | None = None
    """The same without `evidence`: its file system, when it was made (seconds since 1970), and its source."""

    @property
    def is_stored(self) -> bool:
        return self.evidence is None

    @property
    def share_of_bytes(self) -> float | None:
        """The part of the run's bytes that the logs have on which this rests; None if unknown."""
        if self.logs == self.logs_of_run:
            return 1.0
        if self.is_stored or not self.bytes_of_run:
            return None
        return min(self.total_bytes / self.bytes_of_run, 1.0)


def diagnose_log(path: Path, calibrations: Sequence[Calibration] | None = None) -> Diagnosis:
    """Read a log and find its problems; raise `UnreadableLog` if it cannot be read. Without `calibrations`, use those
    that `forebay calibrate` has written."""
    return _diagnose_records(read_file_records(path), calibrations)


def diagnose_logs(paths: Sequence[Path], count: int, moved: int) -> Diagnosis:
    """Diagnose a run of `count` logs, which moved so many bytes, from these of its logs together; unreadable ones are
    left out. Raise `UnreadableLog` if none can be read."""
    parts, unreadable = [], []
    for path in sorted(paths, key=lambda path: (-path.stat().st_size, path))[:MOST_LOGS]:
        try:
            parts.append(read_file_records(path))
        except UnreadableLog as error:
            unreadable.append(error)
    if not parts:
        raise unreadable[0]
    diagnosis = _diagnose_records(parts[0] if len(parts) == 1 else combine_records(parts))
    return replace(diagnosis, logs=len(parts), logs_of_run=count, bytes_of_run=moved)


def _diagnose_records(records: FileRecords, calibrations: Sequence[Calibration] | None = None) -> Diagnosis:
    known = read_calibrations() if calibrations is None else calibrations
    evidence, calibration = _weigh(records, known)
    job, findings = evidence.records.job, find_problems(evidence)
    return Diagnosis(
        log=str(records.path),
        exe=job.exe,
        processes=job.nprocs,
        run_time=job.run_time,
        total_bytes=evidence.bytes_moved,
        io_seconds=evidence.measured_seconds,
        matters=evidence.matters,
        used_files=bool(evidence.posix.size),
        findings=findings,
        gain_together=predict_combined_gain(evidence, findings),
        evidence=evidence,
        calibration=calibration,
    )


def _weigh(records: FileRecords, calibrations: Sequence[Calibration]) -> tuple[Evidence, Calibration | None]:
    """The evidence with the model of the run's file system, and the calibration that this rests on."""
    evidence = Evidence(records=records)
    if not calibrations:
        return evidence, None
    names = evidence.name_files(evidence.posix["bytes"].sum(axis=1)) if len(evidence.posix) else ()
    chosen = choose_calibration(calibrations, records.mounts, names)
    return (replace(evidence, fs=chosen.parameters.fs) if chosen else evidence), chosen


@cache
def _read_calibrations_once() -> list[Calibration]:
    return read_calibrations()


def summarize_findings(records: FileRecords) -> Row:
    """A row of `run_diagnoses` with its `findings`, for an ingest that reads the log anyway."""
    evidence, calibration = _weigh(records, _read_calibrations_once())
    return {
        "file_bytes": evidence.bytes_moved,
        "io_seconds": evidence.measured_seconds,
        "busiest_seconds": evidence.busiest_seconds,
        "calibration": json.dumps({n: getattr(calibration, n) for n in _KEPT}) if calibration else None,
        "findings": [_pack(finding) for finding in find_problems(evidence)],
    }


def _pack(finding: Finding) -> Row:
    return {
        "code": str(finding.code),
        **{name: getattr(finding, name) for name in _PLAIN},
        **{name: json.dumps(getattr(finding, name), default=float) for name in ("numbers", "files")},
    }


def restore_diagnosis(run: Mapping[str, Any], log: str, stored: Row) -> Diagnosis:
    """The diagnosis that the history keeps of a run."""
    findings = [_unpack(row) for row in stored["findings"] if row["code"] in set(Code)]
    return Diagnosis(
        log=log,
        exe=run["exe"],
        processes=run["nprocs"],
        run_time=run["run_time"],
        total_bytes=stored["file_bytes"],
        io_seconds=stored["io_seconds"],
        matters=is_io_noticeable(stored["busiest_seconds"], run["run_time"]),
        used_files=stored["busiest_seconds"] > 0,
        findings=findings,
        gain_together=findings[0].predicted_gain if len(findings) == 1 else None,
        remark=stored["remark"],
        logs_of_run=run["logs"],
        kept_calibration=stored["calibration"] and json.loads(stored["calibration"]),
    )


def _unpack(row: Row) -> Finding:
    plain = {name: row[name] for name in _PLAIN}
    files = tuple(json.loads(row["files"]))
    return Finding(code=Code(row["code"]), numbers=json.loads(row["numbers"]), files=files, **plain)
