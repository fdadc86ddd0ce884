"""Reads jobs from Slurm's accounting, as `sacct -P` prints it."""

import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from forebay.history.jobs.job_list import JobList, Row
from forebay.history.sacct import Record, find_job_id, parse_time, read_records
from forebay.history.traces.columns import quote
from forebay.model.errors import BadInput
from forebay.model.jobs import Jobs

FIELDS = "JobIDRaw,User,Account,JobName,Submit,Start,End,NNodes,Timelimit,ReqTRES,State"
"""What `sacct -P -X -o` should print."""
_NEEDED = (("Submit",), ("Start",), ("End",), ("NNodes", "ReqNodes", "AllocNodes"), ("Timelimit", "TimelimitRaw"))
_LIMIT = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})")
_BURST_BUFFER = re.compile(r"bb/[^=,]+=(\d+(?:\.\d+)?)([KMGTP]?)")
_COUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([KMG]?)")
_THOUSANDS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}  # 2048 nodes are 2K
_UNITS = {unit: 1024**power for power, unit in enumerate("KMGTP", start=1)} | {"": 1024**2}  # bare numbers are MiB
_NO_LIMIT = 365 * 86400.0


def read(path: Path) -> Jobs:
    """Read jobs that have ended. The burst buffer is that of `ReqTRES` or `AllocTRES` (`bb/lua=100G`), else none."""
    jobs = JobList(str(path))
    with closing(read_records(path)) as lines:
        for number, line in lines:
            _check_columns(path, line)
            name = find_job_id(line)
            if name is None:
                continue
            try:
                row = _parse(name, line)
            except ValueError as error:
                jobs.reject(number, str(error))
                continue
            if row is None:
                jobs.left_out["job", "that has not run"] += 1
            else:
                jobs.add(number, row)
    return jobs.make_jobs()


def _check_columns(path: Path, line: Record) -> None:
    for names in _NEEDED:
        if not any(name in line for name in names):
            raise BadInput(f"{path}:1", f"has no column {' or '.join(names)}; create it with sacct -P -X -o {FIELDS}")


def _parse(name: str, line: Record) -> Row | None:
    times = [_time(line, field) for field in ("Submit", "Start", "End")]
    submit, start, end = times
    if submit is None or start is None or end is None or (start == end and _cell(line, "State").startswith("CANCEL")):
        return None
    if end < start:
        raise ValueError("End is before Start")
    nodes = _cell(line, "ReqNodes") or _cell(line, "NNodes") or _cell(line, "AllocNodes")
    count = _COUNT.fullmatch(nodes)
    if not count:
        raise ValueError(f"{quote(nodes)} is not a number of nodes")
    bytes_ = parse_burst_buffer(_cell(line, "ReqTRES") or _cell(line, "AllocTRES"))
    fields = {"user": "User", "project": "Account", "application": "JobName"}
    return Row(
        id=name,
        submit=submit,
        nodes=round(float(count[1]) * _THOUSANDS[count[2]]),
        walltime=parse_limit(line),
        runtime=end - start,
        bytes=bytes_,
        names={key: _cell(line, field) for key, field in fields.items() if _cell(line, field)},
    )


def _cell(line: Record, name: str) -> str:
    return (line.get(name) or "").strip()


def _time(line: Record, name: str) -> float | None:
    try:
        return parse_time(name, _cell(line, name))
    except BadInput as error:
        raise ValueError(str(error)) from None


def parse_limit(line: Mapping[str, str | None]) -> float:
    """The time limit in seconds; a year without one.

    >>> parse_limit({"Timelimit": "1-02:00:00"}), parse_limit({"TimelimitRaw": "90"})
    (93600.0, 5400.0)
    """
    text, minutes = _cell(line, "Timelimit"), _cell(line, "TimelimitRaw")
    if minutes.isdecimal() and len(minutes) < 18:
        return 60.0 * int(minutes)
    if match := _LIMIT.fullmatch(text):
        days, hours, rest, seconds = (int(part or 0) for part in match.groups())
        return float(((days * 24 + hours) * 60 + rest) * 60 + seconds)
    if (text or minutes).upper() in ("UNLIMITED", "PARTITION_LIMIT"):
        return _NO_LIMIT
    raise ValueError(f"{quote(text or minutes)} is not a time limit like 1-12:00:00")


def parse_burst_buffer(tres: str) -> int:
    """Bytes of burst buffers in a list of trackable resources.

    >>> parse_burst_buffer("billing=4,bb/lua=100G,cpu=4,mem=8G,node=2") // 2**30
    100
    """
    bytes_ = sum(float(number) * _UNITS[unit] for number, unit in _BURST_BUFFER.findall(tres))
    return int(min(bytes_, 1e300))  # far more than is valid
