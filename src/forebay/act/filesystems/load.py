"""Reads the current load of each target, and the jobs that cause it.

Two sources are supported, both for Lustre only: the job statistics of its servers, and a Prometheus server that scrapes
a Lustre exporter.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from forebay.act.command import run
from forebay.act.filesystems.settings import Settings
from forebay.model.errors import BadInput, UserError, why
from forebay.model.layout import Target

# These match each OST's file system, index and jobs, and each job's id and counters.
_OST = re.compile(r"^obdfilter\.(.+)-OST([0-9a-fA-F]{4,8})\.job_stats=", re.MULTILINE)
_JOB = re.compile(r"^[^\S\n]*- job_id:[^\S\n]*(.*?)[^\S\n]*$", re.MULTILINE)
_LATEST = re.compile(r"^[^\S\n]*snapshot_time:[^\S\n]*(\d{1,18}(?:\.\d+)?)(?:\s|$)", re.MULTILINE)
_BYTES = re.compile(r"^[^\S\n]*(?:read|write)_bytes:[^\S\n]*\{.*\bsum:[^\S\n]*(\d{1,30})\b", re.MULTILINE)
_ESCAPED = re.compile(rb"\\x([0-9A-Fa-f]{2})")
_WHERE = "lctl get_param job_stats"
METRICS = ("lustre_job_write_bytes_total", "lustre_job_read_bytes_total")
MOST_BYTES = 32 << 20  # the largest reply to read: about 200,000 pairs of target and job
_PIECE = 64 << 10
_TARGET = re.compile(r"(?P<name>.+)-OST(?P<index>[0-9a-fA-F]{4,8})(?:_UUID)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Bytes per second on one target, and the jobs that use it, according to one source."""

    index: int
    rate: float = 0.0
    jobs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTraffic:
    """Bytes read and written by one job on one OST, and the time of its last operation there (epoch seconds)."""

    total: int = 0
    latest: float = 0.0


JobStats = dict[int, dict[str, JobTraffic]]  # by OST index, by job id


def read_loads(
    settings: Settings,
    *,
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
    ticks: Callable[[], float] = time.monotonic,
) -> tuple[Load, ...]:
    """Read the loads from all sources that the settings name."""

    def read_job_stats() -> JobStats:
        text = run(("lctl", "get_param", "obdfilter.*.job_stats"), timeout=settings.timeout, errors="surrogateescape")
        return parse_job_stats(text, settings.name)

    loads: list[Load] = []
    if settings.prometheus:
        loads += loads_from_rates(
            query_job_rates(settings.prometheus, settings.name, settings.window, settings.timeout)
        )
    if settings.job_stats:
        before, started = read_job_stats(), ticks()
        pause(settings.sample)
        after, seconds = read_job_stats(), ticks() - started
        loads += loads_from_job_stats(before, after, seconds=seconds, since=now() - settings.window)
    return tuple(loads)


def add_loads(targets: Sequence[Target], loads: Iterable[Load]) -> tuple[Target, ...]:
    """Add to each target its current rate and the jobs that use it.

    Several loads of one target are the same traffic from several sources: the largest rate counts, and a job counts
    once.

    >>> loads = Load(index=3, rate=5.0, jobs=frozenset("ab")), Load(index=3, jobs=frozenset("b"))
    >>> add_loads([Target(index=3)], loads)
    (Target(index=3, free_bytes=0, users=2, busy=5.0, usable=True, because=''),)
    """
    rates: dict[int, float] = {}
    jobs: dict[int, set[str]] = {}
    for load in loads:
        rates[load.index] = max(rates.get(load.index, 0.0), load.rate)
        jobs.setdefault(load.index, set()).update(load.jobs)
    return tuple(
        replace(t, busy=max(t.busy, rates.get(t.index, 0.0)), users=t.users + len(jobs.get(t.index, ())))
        for t in targets
    )


def loads_from_rates(rates: Iterable[tuple[int, str, float]]) -> list[Load]:
    """Sum rates per target and job into one load per target. A job that moves no data does not count."""
    total: dict[int, float] = {}
    jobs: dict[int, set[str]] = {}
    for index, job, rate in rates:
        if rate > 0:
            total[index] = total.get(index, 0.0) + rate
            jobs.setdefault(index, set()).add(job)
    return [Load(index=i, rate=total[i], jobs=frozenset(jobs[i])) for i in sorted(total)]


def loads_from_job_stats(before: JobStats, after: JobStats, *, seconds: float, since: float) -> list[Load]:
    """Compute loads from two readings of the counters, `seconds` apart. A job idle since before `since` has ended.

    A job that moved no data does not count: every `lfs df` or `touch` looks like a job with an operation on each OST.
    """
    loads = []
    for index, traffic in sorted(after.items()):
        earlier = before.get(index, traffic)
        # A counter that is new, or was cleared and so fell, counts from 0.
        starts = {job: earlier.get(job, JobTraffic()).total for job in traffic}
        moved = {job: t.total - (starts[job] if starts[job] <= t.total else 0) for job, t in traffic.items()}
        jobs = frozenset(job for job, t in traffic.items() if moved[job] or (t.total and t.latest >= since))
        if jobs:
            loads.append(Load(index=index, rate=sum(moved.values()) / seconds if seconds > 0 else 0.0, jobs=jobs))
    return loads


def parse_job_stats(text: str, name: str = "") -> JobStats:
    """Parse the counters that `lctl get_param obdfilter.*.job_stats` prints; with `name`, those of one file system.

    The text looks like YAML but is read line by line: sites choose their job ids (`kworker/14:1.0`, `@37:uid`), and not
    all of them are valid YAML. Newer releases quote ids with special characters and escape some bytes as `\\x20`, even
    inside a character, so the text is decoded with `surrogateescape`.
    """
    before, *osts = _OST.split(text)
    head, *jobs = _JOB.split(before)
    _check_no_counter(head, "OST")
    if jobs:
        raise BadInput(_WHERE, "printed a job before the first OST")
    if not osts:
        raise BadInput(_WHERE, "printed no OST; run it on a node that serves OSTs")
    stats: JobStats = {}
    for system, index, body in zip(osts[::3], osts[1::3], osts[2::3], strict=True):
        head, *jobs = _JOB.split(body)
        _check_no_counter(head, "job")
        if name in ("", system):
            traffic = stats.setdefault(int(index, 16), {})
            for job, counters in zip(jobs[::2], jobs[1::2], strict=True):
                latest = float((*_LATEST.findall(counters)[-1:], 0.0)[0])
                traffic[decode_job(job)] = JobTraffic(total=sum(map(int, _BYTES.findall(counters))), latest=latest)
    if not name:
        check_single_filesystem(_WHERE, set(osts[::3]))
    return stats


def _check_no_counter(text: str, first: str) -> None:
    if _LATEST.search(text) or _BYTES.search(text):
        raise BadInput(_WHERE, f"printed a counter before the first {first}")


def decode_job(text: str) -> str:
    r"""Decode a job's id; bytes that are not text stay escaped.

    >>> decode_job(r'"my\x20prog.0"'), decode_job("4711"), decode_job('"caf\udcc3\\xA9"'), decode_job("a\udcff")
    ('my prog.0', '4711', 'café', 'a\\xff')
    """
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    encoded = (text[1:-1] if is_quoted else text).encode("utf-8", "surrogateescape")
    if is_quoted:
        encoded = _ESCAPED.sub(lambda byte: bytes([int(byte[1], 16)]), encoded)
    return encoded.decode("utf-8", "backslashreplace")


def check_single_filesystem(where: str, names: set[str]) -> None:
    """Raise BadInput for several file systems: without a name, OST 14 could belong to any of them."""
    if len(names) > 1:
        listed = ", ".join(sorted(names))
        raise BadInput(where, f"has data of several file systems ({listed}); set `name` under [filesystem] to one")


class MetricsUnavailable(UserError):
    """A metrics server is unreachable, slow, or returns an error. The message is one line."""


def query_job_rates(url: str, name: str, window: float, timeout: float) -> Iterator[tuple[int, str, float]]:
    """Yield (OST index, job id, bytes/s) over the last `window` seconds, once for reads and once for writes.

    `name` selects one file system; "" is for a server that has data of only one.
    """
    systems: set[str] = set()
    for metric in METRICS:
        for row in _query(url, rate_query(metric, name, window), timeout):
            try:
                labels, rate = row["metric"], float(row["value"][1])
                target, job = _TARGET.fullmatch(labels.get("target", "")), str(labels.get("jobid", ""))
            except (KeyError, IndexError, TypeError, ValueError, AttributeError):
                raise BadInput(url, "the reply has a row that is not a sample; check that this is Prometheus") from None
            if target and name in ("", target["name"]) and math.isfinite(rate) and rate >= 0:
                systems.add(target["name"])
                check_single_filesystem(url, systems)
                yield int(target["index"], 16), job, rate


def rate_query(metric: str, name: str, window: float) -> str:
    """
    >>> rate_query("lustre_job_write_bytes_total", "scratch", 60)
    'sum by (target, jobid) (rate(lustre_job_write_bytes_total{target=~"scratch-OST.*"}[60s]))'
    """
    literal = name.replace(".", "[.]")
    only = f'{{target=~"{literal}-OST.*"}}' if name else ""
    return f"sum by (target, jobid) (rate({metric}{only}[{max(1, round(window))}s]))"


def _query(url: str, query: str, timeout: float) -> list[Any]:
    text = _get(f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}", url, timeout)
    try:
        answer = json.loads(text)
        result = answer["data"]["result"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise BadInput(url, "the reply is not from Prometheus; check the address") from None
    if not isinstance(result, list) or answer["data"].get("resultType") != "vector":
        raise BadInput(url, "the reply is not a vector; check that this is Prometheus")
    return result


def _get(address: str, url: str, timeout: float) -> bytes:
    """Read the body within `timeout` seconds in total, however slowly the server sends it."""
    deadline = time.monotonic() + timeout
    body = bytearray()
    try:
        with urlopen(address, timeout=timeout) as response:
            while piece := response.read1(_PIECE):
                body += piece
                if len(body) > MOST_BYTES:
                    raise MetricsUnavailable(f"{url}: the reply is larger than {MOST_BYTES >> 20} MiB, the limit")
                if time.monotonic() > deadline:
                    raise TimeoutError
    except (OSError, HTTPException) as error:
        raise MetricsUnavailable(f"{url}: {_describe(error, timeout)}") from None
    return bytes(body)


def _describe(error: OSError | HTTPException, timeout: float) -> str:
    if isinstance(error, HTTPError):
        with error:
            try:  # Prometheus gives the reason in the body
                reason = json.loads(error.read(_PIECE))["error"]
            except (OSError, HTTPException, ValueError, RecursionError, KeyError, TypeError):
                reason = error.reason
        return " ".join(f"HTTP {error.code}: {reason}".split())[:300]
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(cause, HTTPException):
        return "the reply ended early"
    return why(cause) if isinstance(cause, OSError) else str(cause)
