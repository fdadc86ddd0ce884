"""Histories of a made-up centre, in which it is known what became slower, and when."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from support.history_rows import run_row

START = 1_700_000_000.0
DAY = 86400.0
GB = 10**9
MOUNT = "/scratch"


@dataclass(frozen=True)
class Plan:
    """What to draw. Every planted thing happens in the second half of the `days`."""

    apps: int = 100
    days: int = 60
    osts: int = 64
    slower_apps: int = 0
    slow_osts: int = 0
    pairs: int = 0
    factor: tuple[float, float] = (2.0, 4.0)
    runs: tuple[int, int] = (30, 90)


@dataclass
class Drawn:
    """Rows for `add_runs`, and the truth: the first bad run (its job) of each application that became slower, when each
    slow OST became slow, and the jobs of each pair that slowed each other down."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    slower: dict[str, int] = field(default_factory=dict)
    slow_osts: dict[int, float] = field(default_factory=dict)
    pairs: set[frozenset[int]] = field(default_factory=set)
    until: float = 0.0


@dataclass(frozen=True)
class _App:
    name: str
    uid: int
    nprocs: int
    volume: float
    pace: float
    noise: float
    width: int
    """OSTs of a run; from 6 on, each has files of its own, so that the log shows how fast each is."""

    @property
    def usual_time(self) -> float:
        """Seconds of I/O in a run."""
        return self.volume / self.pace


def draw_history(plan: Plan, seed: int) -> Drawn:
    """Runs with lognormal noise, 1 % of them two to five times as slow, and a load of the whole file system that
    changes from day to day (10 %). The runs of a pair take about as long as each other."""
    rng = np.random.default_rng(seed)
    drawn = Drawn(until=START + plan.days * DAY)
    load = np.exp(rng.normal(0, 0.1, plan.days + 2))
    for ost in rng.choice(plan.osts, plan.slow_osts, replace=False).tolist():
        drawn.slow_osts[ost] = START + float(rng.uniform(0.5, 0.7)) * plan.days * DAY
    ost_factor = {ost: float(rng.uniform(*plan.factor)) for ost in drawn.slow_osts}
    apps = [_draw_app(rng, number) for number in range(plan.apps)]
    slower = set(rng.choice(plan.apps, plan.slower_apps, replace=False).tolist())
    job = 1
    for number, app in enumerate(apps):
        times = np.sort(rng.uniform(0, plan.days * DAY, int(rng.integers(*plan.runs))))
        bad = int(times.size * rng.uniform(0.5, 0.8)) if number in slower else times.size
        factor = float(rng.uniform(*plan.factor))
        for i, after in enumerate(times.tolist()):
            if i == bad:
                drawn.slower[app.name] = job
            osts = rng.choice(plan.osts, app.width, replace=False).tolist()
            slow = {o: ost_factor[o] for o in osts if o in ost_factor and START + after >= drawn.slow_osts[o]}
            late = factor if i >= bad else 1.0
            late *= float(rng.uniform(2, 5)) if rng.random() < 0.01 else 1.0
            late *= float(load[int(after // DAY)])
            drawn.rows.append(_draw_run(rng, app, job, START + after, late, osts, slow))
            job += 1
    for _ in range(plan.pairs):
        one, *others = (
            apps[i] for i in rng.choice([i for i in range(plan.apps) if i not in slower], 30, replace=False)
        )
        other = min(others, key=lambda app: abs(np.log(app.usual_time / one.usual_time)))
        begin = START + float(rng.uniform(0.5, 0.95)) * plan.days * DAY
        osts = rng.choice([o for o in range(plan.osts) if o not in drawn.slow_osts], min(one.width, 4), replace=False)
        for app in (one, other):
            late = float(rng.uniform(*plan.factor)) * float(load[int((begin - START) // DAY)])
            drawn.rows.append(_draw_run(rng, app, job, begin, late, osts.tolist(), {}))
            job += 1
        drawn.pairs.add(frozenset((job - 2, job - 1)))
    return drawn


def _draw_app(rng: np.random.Generator, number: int) -> _App:
    return _App(
        name=f"app{number:04}",
        uid=1000 + number % 40,
        nprocs=int(2 ** rng.integers(3, 11)),
        volume=float(rng.lognormal(np.log(20 * GB), 1)),
        pace=float(rng.lognormal(np.log(GB / 2), 0.7)),
        noise=float(rng.uniform(0.08, 0.3)),
        width=int(rng.choice([1, 1, 1, 4, 8])),
    )


def _draw_run(
    rng: np.random.Generator,
    app: _App,
    job: int,
    start: float,
    late: float,
    osts: Sequence[int],
    slow: dict[int, float],
) -> dict[str, Any]:
    moved = int(app.volume * rng.uniform(0.95, 1.05))
    seconds = moved / app.pace * late * float(rng.lognormal(0, app.noise)) * max(slow.values(), default=1.0)
    run_time = 3 * moved / app.pace + seconds
    each = rng.lognormal(0, 0.05, len(osts)) * [slow.get(ost, 1.0) for ost in osts]
    middle = float(np.median(each))
    slowness = [float(value) / middle if len(osts) >= 6 else None for value in each]
    columns: dict[str, list[Any]] = {
        "ost": list(osts),
        "files": [4] * len(osts),
        "total_bytes": [moved // len(osts)] * len(osts),
    }
    columns |= {"io_time": [seconds] * len(osts), "slowness": slowness, "filesystem": [MOUNT] * len(osts)}
    columns |= {name: [4] * len(osts) for name in ("alone_files", "alone_bytes", "alone_time")}
    return run_row(
        f"drawn/{job}",
        app.name,
        uid=app.uid,
        user=f"user{app.uid}",
        job_id=job,
        nprocs=app.nprocs,
        start_time=start,
        end_time=start + run_time,
        run_time=run_time,
        total_bytes=moved,
        bytes_written=moved,
        time_by_slowest=seconds,
        perf_by_slowest=moved / seconds,
        stripe_count=len(osts),
        file_stripe_count=1,
        stripe_size=1 << 20,
        stripe_offset=osts[0],
        filesystem=MOUNT,
        osts=columns,
    )
