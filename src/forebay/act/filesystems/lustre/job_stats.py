"""The bytes that each job moved on each OST, as `lctl get_param obdfilter.*.job_stats` prints them.

The text looks like YAML and is read line by line: job ids are whatever a site puts into them
(`kworker/14:1.0`, `@37:uid`), and YAML does not take all of that. Newer releases quote what is not plain, and write
some bytes of it as `\\x20`, in the middle of a character too: so the text is as `surrogateescape` decodes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from forebay.act.command import shown
from forebay.model.errors import BadInput

_OST = re.compile(r"^obdfilter\.(?P<name>.+)-OST(?P<index>[0-9a-fA-F]{4,8})\.job_stats=")
_JOB = re.compile(r"^\s*- job_id:\s*(?P<job>.*?)\s*$")
_LATEST = re.compile(r"^\s*snapshot_time:\s*(?P<seconds>\d{1,18}(?:\.\d+)?)(?:\s|$)")
_BYTES = re.compile(r"^\s*(?:read|write)_bytes:\s*\{.*\bsum:\s*(?P<sum>\d{1,30})\b")
_ESCAPED = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_WHERE = shown(("lctl", "get_param", "job_stats"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Bytes read and written by one job on one OST, and when it last did anything there (epoch seconds)."""

    total: int = 0
    latest: float = 0.0


JobBytes = dict[int, dict[str, Counted]]
"""By OST index, by job id."""


def parse_job_stats(text: str, name: str = "") -> JobBytes:
    """The counters of every OST in the text, or of those of the file system `name`."""
    found: JobBytes = {}
    jobs: dict[str, Counted] | None = None
    job = ""
    for line in text.split("\n"):
        if ost := _OST.match(line):
            mine = not name or ost["name"] == name
            jobs = found.setdefault(int(ost["index"], 16), {}) if mine else {}
        elif started := _JOB.match(line):
            job = decode_job(started["job"])
            _of(jobs)[job] = Counted()
        elif latest := _LATEST.match(line):
            _of(jobs)[job] = Counted(total=_one(jobs, job).total, latest=float(latest["seconds"]))
        elif moved := _BYTES.match(line):
            one = _one(jobs, job)
            _of(jobs)[job] = Counted(total=one.total + int(moved["sum"]), latest=one.latest)
    if jobs is None:
        raise BadInput(_WHERE, "names no OST")
    if not name:
        check_one(_WHERE, {ost["name"] for ost in map(_OST.match, text.split("\n")) if ost})
    return found


def decode_job(text: str) -> str:
    r"""The job's id as it was given; bytes that are no text are shown.

    >>> decode_job(r'"my\x20prog.0"'), decode_job("4711"), decode_job('"caf\udcc3\\xA9"'), decode_job("a\udcff")
    ('my prog.0', '4711', 'café', 'a\\xff')
    """
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    found = (text[1:-1] if quoted else text).encode("utf-8", "surrogateescape")
    if quoted:
        found = _ESCAPED.sub(lambda byte: bytes([int(byte[1], 16)]), found)
    return found.decode("utf-8", "backslashreplace")


def check_one(where: str, names: set[str]) -> None:
    """Where nobody says which file system it is, it must be the only one: OST 14 of another is not this one's."""
    if len(names) > 1:
        raise BadInput(
            where, f"tells of several file systems ({', '.join(sorted(names))}); set name under [filesystem] to one"
        )


def _of(jobs: dict[str, Counted] | None) -> dict[str, Counted]:
    if jobs is None:
        raise BadInput(_WHERE, "a job before the first OST")
    return jobs


def _one(jobs: dict[str, Counted] | None, job: str) -> Counted:
    if job not in _of(jobs):
        raise BadInput(_WHERE, "a counter before the first job")
    return _of(jobs)[job]
