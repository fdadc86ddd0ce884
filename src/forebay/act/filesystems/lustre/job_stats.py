"""The bytes that each job moved on each OST, as `lctl get_param obdfilter.*.job_stats` prints them.

The text looks like YAML and is read line by line: job ids are whatever a site puts into them
(`kworker/14:1.0`, `@37:uid`), and YAML does not take all of that. Newer releases quote ids that are not plain, and
escape some bytes as `\\x20`, even inside a character: so the text is decoded with `surrogateescape`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from forebay.model.errors import BadInput

_OST = re.compile(r"^obdfilter\.(?P<name>.+)-OST(?P<index>[0-9a-fA-F]{4,8})\.job_stats=")
_JOB = re.compile(r"^\s*- job_id:\s*(?P<job>.*?)\s*$")
_LATEST = re.compile(r"^\s*snapshot_time:\s*(?P<seconds>\d{1,18}(?:\.\d+)?)(?:\s|$)")
_BYTES = re.compile(r"^\s*(?:read|write)_bytes:\s*\{.*\bsum:\s*(?P<sum>\d{1,30})\b")
_ESCAPED = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_WHERE = "lctl get_param job_stats"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTraffic:
    """Bytes read and written by one job on one OST, and the time of its last operation there (epoch seconds)."""

    total: int = 0
    latest: float = 0.0


JobStats = dict[int, dict[str, JobTraffic]]
"""By OST index, by job id."""


def parse_job_stats(text: str, name: str = "") -> JobStats:
    """The counters of every OST in the text, or of those of the file system `name`."""
    stats: JobStats = {}
    systems: set[str] = set()
    jobs: dict[str, JobTraffic] = {}
    job: str | None = None
    for line in text.split("\n"):
        if ost := _OST.match(line):
            systems.add(ost["name"])
            jobs = stats.setdefault(int(ost["index"], 16), {}) if name in ("", ost["name"]) else {}
            job = None
        elif started := _JOB.match(line):
            if not systems:
                raise BadInput(_WHERE, "a job before the first OST")
            job = decode_job(started["job"])
            jobs[job] = JobTraffic()
        elif (latest := _LATEST.match(line)) or (moved := _BYTES.match(line)):
            if job is None:
                raise BadInput(_WHERE, f"a counter before the first {'job' if systems else 'OST'}")
            known = jobs[job]
            if latest:
                jobs[job] = replace(known, latest=float(latest["seconds"]))
            elif moved:
                jobs[job] = replace(known, total=known.total + int(moved["sum"]))
    if not systems:
        raise BadInput(_WHERE, "names no OST")
    if not name:
        check_single_filesystem(_WHERE, systems)
    return stats


def decode_job(text: str) -> str:
    r"""The job's id as it was given, with escapes for bytes that are not text.

    >>> decode_job(r'"my\x20prog.0"'), decode_job("4711"), decode_job('"caf\udcc3\\xA9"'), decode_job("a\udcff")
    ('my prog.0', '4711', 'café', 'a\\xff')
    """
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    encoded = (text[1:-1] if is_quoted else text).encode("utf-8", "surrogateescape")
    if is_quoted:
        encoded = _ESCAPED.sub(lambda byte: bytes([int(byte[1], 16)]), encoded)
    return encoded.decode("utf-8", "backslashreplace")


def check_single_filesystem(where: str, names: set[str]) -> None:
    """Without a name in the settings there must be one file system only: OST 14 of another is not this one's."""
    if len(names) > 1:
        listed = ", ".join(sorted(names))
        raise BadInput(where, f"has data of several file systems ({listed}); set name under [filesystem] to one")
