"""The current load of each target, and the jobs that cause it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from forebay.act.command import run
from forebay.act.filesystems.lustre.job_stats import JobStats, JobTraffic, parse_job_stats
from forebay.act.filesystems.lustre.prometheus import query_job_rates
from forebay.act.filesystems.settings import Settings
from forebay.model.layout import Target

_COMMAND = ("lctl", "get_param", "obdfilter.*.job_stats")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Bytes per second on one target, and the jobs that use it, as one source saw it."""

    index: int
    rate: float = 0.0
    jobs: frozenset[str] = frozenset()


def read_loads(
    settings: Settings,
    *,
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
    ticks: Callable[[], float] = time.monotonic,
) -> tuple[Load, ...]:
    """The loads from all sources that the settings name."""
    loads: list[Load] = []
    if settings.prometheus:
        loads += loads_from_rates(
            query_job_rates(settings.prometheus, settings.name, settings.window, settings.timeout)
        )
    if settings.job_stats:
        before, started = _read_job_stats(settings), ticks()
        pause(settings.sample)
        after, seconds = _read_job_stats(settings), ticks() - started
        loads += loads_from_job_stats(before, after, seconds=seconds, since=now() - settings.window)
    return tuple(loads)


def add_loads(targets: Sequence[Target], loads: Iterable[Load]) -> tuple[Target, ...]:
    """The targets with their current rate, and with the jobs that use them added to their users.

    Several loads of one target are the same traffic seen by several sources: the largest rate
    counts, and a job counts once.

    >>> seen = Load(index=3, rate=5.0, jobs=frozenset("ab")), Load(index=3, jobs=frozenset("b"))
    >>> add_loads([Target(index=3)], seen)
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
    """Rates per target and job, summed to one load per target; a job that moves nothing does not count."""
    total: dict[int, float] = {}
    jobs: dict[int, set[str]] = {}
    for index, job, rate in rates:
        if rate > 0:
            total[index] = total.get(index, 0.0) + rate
            jobs.setdefault(index, set()).add(job)
    return [Load(index=i, rate=total[i], jobs=frozenset(jobs[i])) for i in sorted(total)]


def loads_from_job_stats(before: JobStats, after: JobStats, *, seconds: float, since: float) -> list[Load]:
    """Loads from two readings of the counters, `seconds` apart; a job last seen before `since` (epoch) has ended.

    A job that moved no bytes does not count: every `lfs df` and `touch` is one with an operation or two on each OST.
    """
    loads = []
    for index, traffic in sorted(after.items()):
        earlier = before.get(index, traffic)
        moved = {job: _moved_bytes(earlier.get(job), t) for job, t in traffic.items()}
        jobs = frozenset(job for job, t in traffic.items() if moved[job] or (t.total and t.latest >= since))
        if jobs:
            loads.append(Load(index=index, rate=sum(moved.values()) / seconds if seconds > 0 else 0.0, jobs=jobs))
    return loads


def _moved_bytes(earlier: JobTraffic | None, later: JobTraffic) -> int:
    """Bytes between the readings; a counter that is new, or fell because it was cleared, counts from 0."""
    return later.total if earlier is None or later.total < earlier.total else later.total - earlier.total


def _read_job_stats(settings: Settings) -> JobStats:
    return parse_job_stats(run(_COMMAND, timeout=settings.timeout, errors="surrogateescape"), settings.name)
