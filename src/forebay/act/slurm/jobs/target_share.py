"""How many targets a job gets beside those that run, and which (Bandet et al. 2024, on the live machine)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.act.slurm.jobs.settings import Targets
from forebay.decide.registry import find
from forebay.decide.schedule import schedule
from forebay.decide.view import View
from forebay.history.curves import read_curves
from forebay.history.store import Connection
from forebay.history.store.behaviour import list_behaviours
from forebay.history.store.decisions import record_decision
from forebay.history.store.leases import jobs_by_target, take_targets
from forebay.history.store.running_jobs import TARGETS, RunningJob, is_known_app, list_running_jobs
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Never
from forebay.model.errors import UserError
from forebay.model.system import System
from forebay.profile.application import profile_of

_PLACE = "greedy-non-clairvoyant"  # its aim, as many jobs on each target as on any other, is that of `least_used`
LATEST_RUNS = 200
"""How many of an application's runs tell what it is like, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """A job about to start: `app` with `nprocs` processes; times in seconds since 1970, `chance` in [0, 1)."""

    job: str
    app: str
    nprocs: int
    now: float
    until: float
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many targets, and why."""

    count: int
    because: str


def how_many(
    connection: Connection, rules: Targets, new: Newcomer, most: int, system: str, filesystem: str | None = None
) -> Share:
    """What the policy gives the newcomer of `most` targets, with the jobs that run as they are: they keep what they
    have, for a file that exists can't be laid out anew. Runs on `filesystem` tell how applications do."""
    curves = read_curves(rules.curves).by_name if rules.curves else None
    own = _application(connection, new.app, new.nprocs, curves, most, filesystem)
    if own is None:
        return Share(count=min(rules.unknown, most), because=f"nothing tells how {new.app} does on other numbers")
    others = [one for one in list_running_jobs(connection, system, new.now) if one.job != new.job]
    seen = (*(_as_it_is(connection, one, curves, most, filesystem) for one in others), own)
    machine = System(targets=most, compute_nodes=sum(a.compute_nodes for a in seen))
    view = View(machine, seen, rng=np.random.default_rng(int(new.chance * 2**32)))
    answer = schedule(view, find("allocate", rules.allocate), find("place", _PLACE))
    if isinstance(answer, Never):
        return Share(count=min(rules.unknown, most), because=answer.because)
    return Share(count=len(answer[-1]), because=f"{rules.allocate} among {len(seen)} running jobs")


def share_out(connection: Connection, rules: Targets, new: Newcomer) -> tuple[tuple[int, ...], str]:
    """Targets of a machine's own kind (I/O nodes, say) for the newcomer, kept for it; and why so many."""
    assert rules.count is not None
    share = how_many(connection, rules, new, rules.count, rules.name)
    users = {target: jobs - {new.job} for target, jobs in jobs_by_target(connection, rules.name, new.now).items()}
    own = least_used(range(rules.count), users, share.count)
    record_decision(connection, _row(rules, new, share))
    take_targets(connection, rules.name, new.job, own, until=new.until, now=new.now)
    return own, share.because


def least_used(targets: Sequence[int], users: Mapping[int, Collection[str]], count: int) -> tuple[int, ...]:
    """The `count` targets with the fewest jobs on them; of equal ones the lowest.

    >>> least_used(range(4), {0: {"a"}, 1: {"a", "b"}, 2: {"c"}}, 3)
    (0, 2, 3)
    """
    return tuple(sorted(sorted(targets, key=lambda t: (len(users.get(t, ())), t))[:count]))


def _application(
    connection: Connection,
    app: str,
    nprocs: int,
    curves: Mapping[str, Curve] | None,
    most: int,
    filesystem: str | None,
) -> Application | None:
    """As its runs were; None if nothing tells its curve."""
    if not is_known_app(connection, app):
        return None
    try:
        profile = profile_of(app, list_behaviours(connection, app, LATEST_RUNS), nprocs, filesystem)
    except (UserError, ValueError):
        return None
    curve = profile.curve if curves is None else curves.get(app)
    if curve is None or profile.forecast is None:
        return None
    seconds, volume = profile.measures["run_time"].median, profile.forecast.total_bytes.median
    within = _within(curve, most)
    computing = max(seconds - profile.measures["time_by_slowest"].median, 1.0)
    return Application(
        name=app, compute_nodes=float(nprocs), phases=1, compute_seconds=computing, volume=volume, curve=within
    )


def _within(curve: Curve, most: int) -> Curve:
    """What it says of at most so many targets; on all of them as on its fewest, if those are more."""
    points = {n: b for n, b in zip(curve.counts, curve.bandwidths, strict=True) if n <= most}
    return Curve.of(points or {most: curve.bandwidths[0]})


def _as_it_is(
    connection: Connection, one: RunningJob, curves: Mapping[str, Curve] | None, most: int, filesystem: str | None
) -> Application:
    """A running job on the number of targets that it has, and no other; one of unknown ways does no I/O."""
    n = min(len(one.targets), most)
    known = _application(connection, one.app, one.nprocs, curves, most, filesystem)
    bandwidth = 1.0 if known is None else known.curve.at(min(max(n, known.curve.first), known.curve.last))
    return Application(
        name=one.job,
        compute_nodes=float(one.nprocs),
        phases=1,
        compute_seconds=1.0 if known is None else known.compute_seconds,
        volume=0.0 if known is None else known.volume,
        curve=Curve.of({n: bandwidth}),
    )


def _row(rules: Targets, new: Newcomer, share: Share) -> dict[str, object]:
    return {
        "time": new.now,
        "job": new.job,
        "app": new.app,
        "nprocs": new.nprocs,
        "policy": rules.allocate,
        "phase": TARGETS,
        "stripe_count": share.count,
        "stripe_size": 0,
        "stripe_offset": -1,
        "because": share.because,
        "outcome": "applied",
        "applied_to": rules.name,
    }


def warm(rules: Targets) -> None:
    """Decide something once: what the policy needs is compiled then, which no job should have to wait for."""
    curve = Curve.of({1: 1.0, 2: 1.5})
    made_up = Application(name="a", compute_nodes=1.0, phases=1, compute_seconds=1.0, volume=1.0, curve=curve)
    view = View(System(targets=2, compute_nodes=2.0), (made_up, made_up), rng=np.random.default_rng(0))
    schedule(view, find("allocate", rules.allocate), find("place", _PLACE))
