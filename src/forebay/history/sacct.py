"""Reads Slurm's accounting, as `sacct -P` prints it: a header, then one line for each job and step."""

import csv
from collections.abc import Callable, Generator, Mapping
from datetime import datetime
from pathlib import Path

from forebay.history.run_fields import LATEST, Row
from forebay.history.text_files import open_text
from forebay.history.traces.columns import quote
from forebay.model.errors import BadInput

Record = Mapping[str, str | None]
_WANTED = {"JobName": "job_name", "User": "user", "State": "state"}
_TIMES = {"Submit": "submit_time", "Start": "job_start_time", "End": "job_end_time"}


def read_sacct(path: Path, refuse: Callable[[BadInput], None] | None = None) -> Generator[Row]:
    """Yield a row of `jobs` for each job; steps (`123.batch`, `123.0`) are skipped. `refuse` gets the error of each
    line that is not valid; without it, the first one ends the reading."""
    for number, line in read_records(path):
        try:
            job = _job(f"{path}:{number}", line)
        except BadInput as error:
            if refuse is None:
                raise
            refuse(error)
            continue
        if job is not None:
            yield job


def read_records(path: Path) -> Generator[tuple[int, Record]]:
    """Yield the number and the cells, by column, of each line after the header."""
    try:
        with open_text(path, errors="replace") as file:
            lines = csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE)
            names = lines.fieldnames or []
            if any("\ufffd" in name or "\0" in name for name in names):
                raise BadInput(str(path), "is not UTF-8 text")
            if not {"JobID", "JobIDRaw"} & set(names):
                raise BadInput(
                    str(path), "has no column JobID or JobIDRaw; create it with sacct -P -o JobIDRaw,JobName,NNodes,…"
                )
            yield from enumerate(lines, start=2)
    except csv.Error as error:
        raise BadInput(str(path), str(error)) from None


def find_job_id(line: Record) -> str | None:
    """The id of a job; None for a step, a component of a job, or an array task without a job number."""
    name = (line.get("JobIDRaw") or line.get("JobID") or "").strip()
    return None if "." in name or "+" in name or "_" in name else name


def _job(where: str, line: Record) -> Row | None:
    name = find_job_id(line)
    if name is None:
        return None
    if not _is_number(name):
        raise BadInput(where, f"{'JobIDRaw' if line.get('JobIDRaw') else 'JobID'}: {name!r} is not a job id")
    job: Row = {"job_id": int(name)}
    job |= {column: (line.get(field) or "").replace("\0", "") or None for field, column in _WANTED.items()}
    for field, column in _TIMES.items():
        try:
            job[column] = parse_time(where, line.get(field))
        except BadInput as error:
            raise BadInput(where, f"{field}: {error.reason}") from None
    nodes = line.get("NNodes") or line.get("AllocNodes")
    if nodes and not _is_number(nodes):
        raise BadInput(where, f"{'NNodes' if line.get('NNodes') else 'AllocNodes'}: {nodes!r} is not a number of nodes")
    return job | {"nodes": int(nodes) if nodes else None}


def parse_time(where: str, text: str | None) -> float | None:
    """Seconds since 1970 from a time of sacct, which is local unless it has an offset; None if it is still unknown."""
    if not text or text in ("Unknown", "None"):
        return None
    try:
        seconds = float(text) if _is_number(text) else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds <= LATEST:
        raise BadInput(where, f"{quote(text)} is not a time like 2026-01-31T12:00:00")
    return seconds


def _is_number(text: str) -> bool:
    """Whether the text is a whole number that fits into the database."""
    return text.isascii() and text.isdigit() and len(text) <= 18
