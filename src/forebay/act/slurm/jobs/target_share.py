"""How many targets a job gets among the running ones, and which (Bandet et al. 2024, on the live machine)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.act.advice.stripe_view import JobRequest
from forebay.act.slurm.jobs.settings import Targets
from forebay.decide.registry import find
from forebay.decide.schedule import schedule
from forebay.decide.view import View
from forebay.history.curves import read_curves
from forebay.history.store import Connection
from forebay.history.store.decisions import record_decision
from forebay.history.store.jobs import (
    TARGETS,
    RunningJob,
    is_known_app,
    jobs_by_target,
    list_running_jobs,
    take_targets,
)
from forebay.history.store.past_runs import list_behaviours
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Never
from forebay.model.errors import UserError
from forebay.model.system import System
from forebay.profile.application import profile_of

_Curves = Mapping[str, Curve] | None
_PLACE = "greedy-non-clairvoyant"  # it aims at the same number of jobs on every target, as `least_used` does
LATEST_RUNS = 200
"""The number of an application's runs that describe it, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A number of targets, and the reason for it."""

    count: int
    because: str


def decide_share(
    connection: Connection, rules: Targets, request: JobRequest, most: int, system: str, filesystem: str | None = None
) -> Share:
    """What the policy gives the new job of `most` targets. Running jobs keep theirs: existing files keep their layout.

    Runs on `filesystem` show how applications behave.
    """
    curves = read_curves(rules.curves).by_name if rules.curves else None
    application = _model_application(connection, request.app, request.nprocs, curves, most, filesystem)
    if application is None:
        return Share(count=min(rules.unknown, most), because=f"no run shows how {request.app} scales")
    others = [job for job in list_running_jobs(connection, system, request.now) if job.job != request.job]
    running = [_model_running(connection, job, curves, most, filesystem) for job in others]
    applications = (*running, application)
    machine = System(targets=most, compute_nodes=sum(a.compute_nodes for a in applications))
    view = View(machine, applications, rng=np.random.default_rng(int(request.chance * 2**32)))
    answer = schedule(view, find("allocate", rules.allocate), find("place", _PLACE))
    if isinstance(answer, Never):
        return Share(count=min(rules.unknown, most), because=answer.because)
    return Share(count=len(answer[-1]), because=f"{rules.allocate} among {len(applications)} running jobs")


def allocate_targets(connection: Connection, rules: Targets, request: JobRequest) -> tuple[tuple[int, ...], str]:
    """Lease targets such as I/O nodes to the new job; they, and the reason for their number."""
    assert rules.count is not None and request.job is not None
    share = decide_share(connection, rules, request, rules.count, rules.name)
    leases = jobs_by_target(connection, rules.name, request.now)
    users = {target: jobs - {request.job} for target, jobs in leases.items()}
    chosen = least_used(range(rules.count), users, share.count)
    row = request.decision_row(
        policy=rules.allocate,
        phase=TARGETS,
        stripe_count=share.count,
        stripe_size=0,
        stripe_offset=-1,
        because=share.because,
        outcome="applied",
        applied_to=rules.name,
    )
    record_decision(connection, row)
    take_targets(connection, rules.name, request.job, chosen, until=request.until, now=request.now)
    return chosen, share.because


def least_used(targets: Sequence[int], users: Mapping[int, Collection[str]], count: int) -> tuple[int, ...]:
    """The `count` targets with the fewest jobs on them; of equal ones the lowest.

    >>> least_used(range(4), {0: {"a"}, 1: {"a", "b"}, 2: {"c"}}, 3)
    (0, 2, 3)
    """
    return tuple(sorted(sorted(targets, key=lambda t: (len(users.get(t, ())), t))[:count]))


def _model_application(
    connection: Connection, app: str, nprocs: int, curves: _Curves, most: int, filesystem: str | None
) -> Application | None:
    """The application as its runs show it; None if its curve is unknown."""
    if not is_known_app(connection, app):
        return None
    try:
        profile = profile_of(app, list_behaviours(connection, app, LATEST_RUNS), nprocs, filesystem)
    except (UserError, ValueError):
        return None
    curve = profile.curve if curves is None else curves.get(app)
    if curve is None or profile.forecast is None:
        return None
    points = {n: b for n, b in zip(curve.counts, curve.bandwidths, strict=True) if n <= most}
    return Application(
        name=app,
        compute_nodes=float(nprocs),
        phases=1,
        compute_seconds=max(profile.measures["run_time"].median - profile.measures["time_by_slowest"].median, 1.0),
        volume=profile.forecast.total_bytes.median,
        curve=Curve.of(points or {most: curve.bandwidths[0]}),  # beyond all its points, it has its first bandwidth
    )


def _model_running(
    connection: Connection, job: RunningJob, curves: _Curves, most: int, filesystem: str | None
) -> Application:
    """A running job on exactly the targets that it has; if its application is unknown, without I/O."""
    n = min(len(job.targets), most)
    known = _model_application(connection, job.app, job.nprocs, curves, most, filesystem)
    bandwidth = 1.0 if known is None else known.curve.at(min(max(n, known.curve.first), known.curve.last))
    return Application(
        name=job.job,
        compute_nodes=float(job.nprocs),
        phases=1,
        compute_seconds=1.0 if known is None else known.compute_seconds,
        volume=0.0 if known is None else known.volume,
        curve=Curve.of({n: bandwidth}),
    )


def warm_up(rules: Targets) -> None:
    """Decide once, so that what the policy needs is compiled before a job waits for it."""
    curve = Curve.of({1: 1.0, 2: 1.5})
    example = Application(name="a", compute_nodes=1.0, phases=1, compute_seconds=1.0, volume=1.0, curve=curve)
    view = View(System(targets=2, compute_nodes=2.0), (example, example), rng=np.random.default_rng(0))
    schedule(view, find("allocate", rules.allocate), find("place", _PLACE))
