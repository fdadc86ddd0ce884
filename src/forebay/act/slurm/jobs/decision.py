"""Decides what a job gets: its targets among the running jobs, its folder, and the folder's layout."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from forebay.act.advice import JobRequest, advise, check_usable, choose_filesystem, recorded_mount
from forebay.act.filesystems.filesystem import describe_layout
from forebay.act.filesystems.load import read_loads
from forebay.act.filesystems.pools import read_pools
from forebay.act.filesystems.settings import open_filesystem
from forebay.act.slurm.jobs.folder import acting_as, check_folder, create_folder, fill_pattern, shared_part
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.prolog import Preparation, format_targets, layout_variables, lease_name, select_variables
from forebay.act.slurm.jobs.settings import JobSettings, Targets
from forebay.decide.place import choose_targets
from forebay.decide.registry import check_policy, find
from forebay.decide.view import View
from forebay.history.curves import read_curves
from forebay.history.store import Connection, Store, jobs, running_jobs
from forebay.history.store.decisions import record_decision
from forebay.history.store.past_runs import list_behaviours
from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Never
from forebay.model.errors import BadInput, ForebayError, UserError, why
from forebay.model.layout import ANY
from forebay.model.system import System
from forebay.profile.application import profile_of

_Part = tuple[dict[str, str], dict[str, str]]  # variables for the job, and fields for the log


def check_policies(settings: JobSettings) -> None:
    """Raise an error if a policy in the settings does not exist, or needs a simulation."""
    if settings.scratch is not None:
        check_policy("scratch.policy", "stripe", settings.scratch.policy)
    if settings.targets is not None:
        spec = check_policy("targets.allocate", "allocate", settings.targets.allocate)
        if find("allocate", spec).simulates:
            raise BadInput("targets.allocate", f"{spec!r} simulates, which is too slow for a prolog; choose another")


def prepare_job(
    store: Store, settings: JobSettings, job: Job, *, now: float, until: float, chance: float
) -> Preparation:
    """Decide, and lease targets to the job up to `until`. A step that fails does not affect the others."""
    check_policies(settings)
    with store.open_writer() as connection:
        app = find_application(connection, job)
        if job.number is not None:  # so that the runs in its logs can be found by its name
            row = {"job_id": job.number, "job_name": job.name or None, "user": job.user, "nodes": job.nodes}
            times = {"submit_time": None, "job_start_time": now, "job_end_time": None, "state": None}
            jobs.add_jobs(connection, [row | times])
    request = JobRequest(job=job.job, app=app, nprocs=job.nprocs, now=now, until=until, chance=chance)
    variables, log_fields, troubles = {"FOREBAY_APP": app}, dict[str, str](), list[str]()
    for step in (_prepare_targets, _prepare_folder, _prepare_layout):
        try:
            more_variables, more_fields = step(store, settings, job, request)
        except (ForebayError, OSError) as error:
            troubles.append(why(error) if isinstance(error, OSError) else str(error))
            if step is _prepare_folder:  # without a folder, there is no layout to set
                break
        else:
            variables |= more_variables
            log_fields |= more_fields
    environment = {} if settings.jobs.mode == "shadow" else select_variables(variables)
    return Preparation(app=app, environment=environment, log_fields=log_fields, troubles=tuple(troubles))


def find_application(connection: Connection, job: Job) -> str:
    """Find the application that a job runs.

    It is the one that the user named; else the command or the job's name, if the history knows that application; else
    the application of the user's last job with that name; else the job's name, which the history will use from now on.
    """
    if job.app:
        return job.app
    command = job.command.split(" ")[0].rpartition("/")[2]
    for name in (command, job.name):
        if name and jobs.is_known_app(connection, name):
            return name
    earlier = jobs.find_app_of_job_name(connection, job.name, job.user) if job.name else None
    return earlier or job.name or command or "unknown"


def _prepare_targets(store: Store, settings: JobSettings, _job: Job, request: JobRequest) -> _Part:
    """Allocate targets other than those of the file system."""
    targets = settings.targets
    if targets is None or targets.count is None:
        return {}, {}
    if settings.jobs.mode == "shadow":
        with store.open_reader() as connection:
            share = decide_share(connection, targets, request, targets.count, targets.name)
        return {}, {"targets": f"{share.count} of {targets.count}", "targets_because": share.because}
    with store.open_writer() as connection:
        chosen, because = allocate_targets(connection, targets, request)
    text = format_targets(chosen)
    return {"FOREBAY_TARGETS": text}, {"targets": text, "targets_because": because}


def _prepare_folder(_store: Store, settings: JobSettings, job: Job, _request: JobRequest) -> _Part:
    """Create or check the job's folder, which the job can use even without a layout."""
    scratch = settings.scratch
    if scratch is None or settings.jobs.mode == "shadow":
        return {}, {}
    if scratch.make:
        folder = create_folder(scratch.folder, job)
    else:
        folder = Path(fill_pattern(scratch.folder, job))
        check_folder(folder, job)
    return {"FOREBAY_SCRATCH": str(folder)}, {"folder": str(folder)}


def _prepare_layout(store: Store, settings: JobSettings, job: Job, request: JobRequest) -> _Part:
    """Advise a layout and apply it. The allocation among running jobs, if any, limits the stripe count."""
    scratch, targets, shadow = settings.scratch, settings.targets, settings.jobs.mode == "shadow"
    if scratch is None:
        return {}, {}
    filesystem, above = scratch.settings, shared_part(scratch.folder)
    folder = Path(fill_pattern(scratch.folder, job))
    files = open_filesystem(filesystem)
    current = files.targets(above)
    if not shadow:  # in shadow mode, the folder may not exist
        with acting_as(job):
            current = files.restrict(current, folder)
    check_usable(current, filesystem.name or str(above))
    system = lease_name(filesystem)
    mount = choose_filesystem(store, request.app, recorded_mount(filesystem), above).mount
    if targets is not None and targets.count is None:
        with store.open_reader() as connection:
            share = decide_share(connection, targets, request, sum(t.usable for t in current), system, mount)
        files = replace(files, max_count=min(share.count, files.max_count))
    advice = advise(
        store,
        replace(request, system=system, filesystem=mount),
        find("stripe", scratch.policy),
        replace(files, identity=lambda: acting_as(job)),
        current,
        read_loads(filesystem),
        apply_to=folder,
        shadow=shadow,
        pools=read_pools(files, filesystem.pools, None if shadow else folder, store, mount),
    )
    fields = {"layout": describe_layout(advice.layout), "because": advice.striping.reason, "outcome": advice.outcome}
    return layout_variables(advice.layout, advice.striping.targets), fields


_Curves = Mapping[str, Curve] | None
_PLACE = "greedy-non-clairvoyant"  # it aims at the same number of jobs on every target, as `least_used` does
LATEST_RUNS = 200  # of an application, the newest: they describe it


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A number of targets, and the reason for it."""

    count: int
    because: str


def decide_share(
    connection: Connection, rules: Targets, request: JobRequest, most: int, system: str, filesystem: str | None = None
) -> Share:
    """Decide how many of `most` targets the new job gets, by runs on `filesystem`. Running jobs keep theirs."""
    curves = read_curves(rules.curves).by_name if rules.curves else None
    application = _model_application(connection, request.app, request.nprocs, curves, most, filesystem)
    if application is None:
        return Share(count=min(rules.unknown, most), because=f"no run of {request.app} shows how it scales")
    others = [job for job in running_jobs.list_running_jobs(connection, system, request.now) if job.job != request.job]
    running = [_model_running(connection, job, curves, most, filesystem) for job in others]
    applications = (*running, application)
    machine = System(targets=most, compute_nodes=sum(a.compute_nodes for a in applications))
    view = View(machine, applications, rng=np.random.default_rng(int(request.chance * 2**32)))
    answer = choose_targets(view, find("allocate", rules.allocate), find("place", _PLACE))
    if isinstance(answer, Never):
        return Share(count=min(rules.unknown, most), because=answer.because)
    return Share(count=len(answer[-1]), because=f"{rules.allocate} among {len(applications)} running jobs")


def allocate_targets(connection: Connection, rules: Targets, request: JobRequest) -> tuple[tuple[int, ...], str]:
    """Lease targets such as I/O nodes to the new job; return them and the reason for their number."""
    assert rules.count is not None and request.job is not None
    share = decide_share(connection, rules, request, rules.count, rules.name)
    leases = running_jobs.jobs_by_target(connection, rules.name, request.now)
    users = {target: holders - {request.job} for target, holders in leases.items()}
    chosen = least_used(range(rules.count), users, share.count)
    row = request.decision_row(
        rules.allocate, running_jobs.TARGETS, (share.count, 0, ANY), share.because, "applied", applied_to=rules.name
    )
    record_decision(connection, row)
    running_jobs.take_targets(connection, rules.name, request.job, chosen, until=request.until, now=request.now)
    return chosen, share.because


def least_used(targets: Sequence[int], users: Mapping[int, Collection[str]], count: int) -> tuple[int, ...]:
    """Return the `count` targets with the fewest jobs; ties go to the lowest index.

    >>> least_used(range(4), {0: {"a"}, 1: {"a", "b"}, 2: {"c"}}, 3)
    (0, 2, 3)
    """
    return tuple(sorted(sorted(targets, key=lambda t: (len(users.get(t, ())), t))[:count]))


def _model_application(
    connection: Connection, app: str, nprocs: int, curves: _Curves, most: int, filesystem: str | None
) -> Application | None:
    """Model the application from its runs; None if its curve is unknown."""
    if not jobs.is_known_app(connection, app):
        return None
    try:
        profile = profile_of(app, list_behaviours(connection, app, LATEST_RUNS, filesystem), nprocs, filesystem)
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
        curve=Curve.of(points or {most: curve.bandwidths[0]}),  # if every point is larger, use the first bandwidth
    )


def _model_running(
    connection: Connection, job: running_jobs.RunningJob, curves: _Curves, most: int, filesystem: str | None
) -> Application:
    """Model a running job on exactly the targets that it has; without I/O, if its application is unknown."""
    n = min(len(job.targets), most)
    nodes, curve = float(job.nprocs), Curve.of({n: 1.0})
    unknown = Application(name=job.app, compute_nodes=nodes, phases=1, compute_seconds=1.0, volume=0.0, curve=curve)
    application = _model_application(connection, job.app, job.nprocs, curves, most, filesystem) or unknown
    bandwidth = application.curve.at(min(max(n, application.curve.first), application.curve.last))
    return replace(application, name=job.job, curve=Curve.of({n: bandwidth}))


def warm_up(rules: Targets) -> None:
    """Decide once, so that the policy's kernels are compiled before a job waits for them."""
    curve = Curve.of({1: 1.0, 2: 1.5})
    example = Application(name="a", compute_nodes=1.0, phases=1, compute_seconds=1.0, volume=1.0, curve=curve)
    view = View(System(targets=2, compute_nodes=2.0), (example, example), rng=np.random.default_rng(0))
    choose_targets(view, find("allocate", rules.allocate), find("place", _PLACE))
