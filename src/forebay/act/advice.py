"""Decides, records and applies a layout for the next run of an application."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from forebay.act.filesystems.filesystem import Command, FileSystem, LayoutRefused, exclude_targets, numbered_targets
from forebay.act.filesystems.load import Load, add_loads
from forebay.act.filesystems.settings import Settings
from forebay.decide.policy import Input, Policy
from forebay.decide.stripe.pool import Pool, PoolChoice, choose_pool
from forebay.decide.stripe.view import PLAIN, Features, Past, StripeView, Striping
from forebay.history.run_fields import FORWARDED
from forebay.history.store import Connection, Store
from forebay.history.store.decisions import record_decision, set_outcome
from forebay.history.store.past_runs import has_run, last_filesystem, list_past_runs, list_peer_runs
from forebay.history.store.running_jobs import jobs_by_target, release_targets, take_targets
from forebay.history.store.totals import filesystem_sums, highest_target
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import ANY, TO_THE_END, Layout, Target

SEEN_RUNS = 200  # the newest runs of an application; a policy sees no others
_TRIES = 3  # decisions until one can be applied
_MOST_LISTED = 10  # excluded targets that a note lists


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job about to start. `until` and `now` are seconds since 1970; `chance` is in [0, 1)."""

    app: str
    nprocs: int
    now: float
    chance: float
    job: str | None = None
    until: float = 0.0
    system: str = "default"
    """The name under which leases are kept: each file system has its own."""
    filesystem: str | None = None
    """The file system's mount point: only runs there count. None: all runs count."""

    def decision_row(
        self, policy: str, phase: str, layout: tuple[int, int, int], because: str, outcome: str, **where: str | None
    ) -> dict[str, object]:
        """Return the history row for a decision on this job. The layout is count, size and first target."""
        job = {"time": self.now, "job": self.job, "app": self.app, "nprocs": self.nprocs}
        stripes = dict(zip(("stripe_count", "stripe_size", "stripe_offset"), layout, strict=True))
        return {**job, "policy": policy, "phase": phase, **stripes, "because": because, "outcome": outcome, **where}


def build_view(
    connection: Connection,
    request: JobRequest,
    past: Sequence[Past],
    max_count: int,
    targets: Sequence[Target],
    loads: Sequence[Load],
    features: Features = PLAIN,
) -> StripeView:
    """Build the policy's view. Jobs in `loads` and in leases count as users of a target; the job itself does not."""
    leases = jobs_by_target(connection, request.system, request.now)
    leased = [Load(index=target, jobs=frozenset(jobs)) for target, jobs in leases.items()]
    others = [replace(load, jobs=load.jobs - {request.job}) for load in (*loads, *leased)]
    latest, largest = _latest_run(past, request.nprocs), _run_with_largest_files(past, request.nprocs)
    sized = _latest_run([run for run in past if run.file_sizes], request.nprocs)
    return StripeView(
        application=request.app,
        processes=request.nprocs,
        targets=add_loads(targets, others),
        max_count=max_count,
        runs=tuple(run for run in past if run.count and run.size),
        known_runs=len(past),
        runs_elsewhere=not past and has_run(connection, request.app),
        peers=tuple(list_peer_runs(connection, request.app, request.nprocs, request.filesystem)),
        shared_file=2 * latest.shared_bytes > latest.io_bytes if latest else None,
        io_processes=latest.io_processes if latest else None,
        pattern_run=latest.run if latest else None,
        pattern_processes=latest.processes if latest else None,
        file_size=largest.file_size if largest else None,
        file_size_run=largest.run if largest else None,
        file_sizes=sized.file_sizes if sized else (),
        size_run=sized.run if sized else None,
        request_size=latest.request_size if latest else 0,
        features=features,
        chance=request.chance,
    )


def _latest_run(past: Sequence[Past], nprocs: int) -> Past | None:
    """Return the run that shows how the application uses files: the newest one that moved data.

    Runs with this number of processes come first: a program may share a file among many processes but not among few.
    Runs with a complete log come next.
    """
    moved = [run for run in past if run.io_bytes > 0]
    return max(reversed(moved), key=lambda run: (run.processes == nprocs, not run.partial), default=None)


def _run_with_largest_files(past: Sequence[Past], nprocs: int) -> Past | None:
    """Prefer runs with this number of processes."""
    sized = [run for run in past if run.file_size]
    candidates = [run for run in sized if run.processes == nprocs] or sized
    return max(candidates, key=lambda run: run.file_size or 0, default=None)


def has_file_per_process(view: StripeView) -> bool:
    """Judge by the latest run; for a new application, by most runs of others with this number of processes."""
    if view.shared_file is not None:
        return not view.shared_file and (view.io_processes or view.processes) > 1
    shared = sum(peers.runs for peers in view.peers if peers.shared_file)
    return view.processes > 1 and 2 * shared <= sum(peers.runs for peers in view.peers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A decision, adapted to the file system, and the command that applies it."""

    request: JobRequest
    policy: str
    striping: Striping
    layout: Layout
    notes: tuple[str, ...]
    command: Command
    outcome: Literal["advised", "shadow", "applied"]
    partial_runs: int = 0
    undo: tuple[Command, ...] = ()
    """The commands that restore the layout which the folder had before."""


@dataclass(frozen=True, slots=True)
class ChosenFileSystem:
    """The mount point of the file system that advice is for; None if the history has no file system.

    `because` explains the choice if the history has several and the user named none.
    """

    mount: str | None
    because: str = ""


def recorded_mount(settings: Settings) -> str | None:
    """Return the history's name for the file system of the settings; None if the settings have no mount point."""
    if settings.kind == "forebay":
        return FORWARDED
    return None if settings.mount is None else str(settings.mount)


def choose_filesystem(store: Store, app: str, named: str | None, folder: Path | None) -> ChosenFileSystem:
    """Choose the named file system or the one that holds `folder`; else that of the last run, or of most runs."""
    with store.open_reader() as connection:
        known = [mount for mount, _, _ in filesystem_sums(connection) if mount]
        last = last_filesystem(connection, app)
    if named is not None:
        unknown = f"the history has no run on {named}; it has runs on {', '.join(known[:5])}"
        return ChosenFileSystem(named, unknown if known and named not in known else "")
    resolved = folder and folder.resolve()
    levels = (resolved, *resolved.parents) if resolved else ()
    holder = next((str(path) for path in levels if str(path) in known), None)
    if holder is not None or not known:
        return ChosenFileSystem(holder)
    reason = "its last run was there" if last else "most runs were there"
    because = f"for {last or known[0]}: {reason}; --filesystem names another" if len(known) > 1 else ""
    return ChosenFileSystem(last or known[0], because)


def known_targets(store: Store, filesystem: str | None = None) -> tuple[Target, ...]:
    """Return all targets up to the highest one that a run in the history used."""
    with store.open_reader() as connection:
        highest = highest_target(connection, filesystem)
    if highest is None:
        raise BadInput("--targets", "no run in the history used an OST; give the number of targets, or --system FILE")
    return numbered_targets(highest + 1)


def check_usable(targets: Sequence[Target], name: str) -> None:
    """Raise BadInput if no target is usable. `name` is the name of the file system."""
    if not any(t.usable for t in targets):
        raise BadInput(name, f"no usable target: {'; '.join(_exclusion_notes(targets)) or 'it has no targets'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What stays the same when a decision is made again."""

    request: JobRequest
    policy: Policy
    files: FileSystem
    loads: Sequence[Load]
    apply_to: Path | None
    shadow: bool
    pools: Sequence[Pool]

    @property
    def is_recorded(self) -> bool:
        return bool(self.request.job or self.apply_to or self.shadow)


class _Decision(NamedTuple):
    advice: Advice
    targets: Sequence[Target]  # those of the layout's pool
    row: int  # in the history; 0 if it is not recorded


def advise(
    store: Store,
    request: JobRequest,
    policy: Policy,
    files: FileSystem,
    targets: Sequence[Target],
    loads: Sequence[Load] = (),
    *,
    apply_to: Path | None = None,
    shadow: bool = False,
    pool: str = "",
    pools: Sequence[Pool] = (),
) -> Advice:
    """Decide, and lease the targets to the job in the same transaction, so that no other job can take them.

    With `apply_to`, set the layout of that folder; if the file system refuses it, release the lease. If the first new
    file shows that a target is drained or full, decide again without that target; if the file system refuses
    components, decide again without them. With `shadow`, only decide and record. Without a job, `apply_to` and
    `shadow`, record nothing. The layout names `pool`, to which `targets` belong, or one of `pools`, or else keeps that
    of the folder.
    """
    case = _Case(
        request=request, policy=policy, files=files, loads=loads, apply_to=apply_to, shadow=shadow, pools=pools
    )
    features = _read_features(policy, files, None if shadow else apply_to)
    for tries_left in reversed(range(_TRIES)):
        with store.open_writer() if case.is_recorded else store.open_reader() as connection:
            advice, targets, row = _decide(connection, case, targets, pool, features)
        if apply_to is None or shadow:
            return advice
        pool = advice.layout.pool
        try:
            applied = files.apply(advice.layout, apply_to, targets)
        except (UserError, KeyboardInterrupt) as error:
            with store.open_writer() as connection:
                set_outcome(connection, row, "refused")
                if request.job:
                    release_targets(connection, request.job, request.system)
            if not tries_left or not isinstance(error, LayoutRefused):
                raise
            targets = exclude_targets(targets, dict.fromkeys(error.lost, "accepts no new file"))
            if not (error.lost or advice.layout.before) or not any(t.usable for t in targets):
                raise
            if not error.lost:
                on_mdt = not advice.layout.before[0].count
                features = features.without(f"the file system refused it ({error})", progressive=on_mdt)
            continue
        with store.open_writer() as connection:
            set_outcome(connection, row, "applied")
        return replace(advice, outcome="applied", undo=applied.undo)
    raise AssertionError("the last try returns or raises")


def _decide(connection: Connection, case: _Case, targets: Sequence[Target], pool: str, features: Features) -> _Decision:
    """Ask the policy, adapt its layout to the file system, record it, and lease the targets to the job."""
    request, policy, files = case.request, case.policy, case.files
    past = list_past_runs(connection, request.app, SEEN_RUNS, request.filesystem)
    choice = _choose_pool(case.pools, pool or features.pool, policy, targets, request, past)
    if choice.name:
        members = next(each.targets for each in case.pools if each.name == choice.name)
        outside = {t.index: f"not in pool {choice.name}" for t in targets if t.index not in members}
        targets = exclude_targets(targets, outside)
    view = build_view(connection, request, past, files.max_count, targets, case.loads, features)
    striping, notes = _free_first_target(view, policy.decide(view))
    fitted = files.fit(replace(striping.layout, pool=choice.name or pool or striping.layout.pool))
    advice = Advice(
        request=request,
        policy=policy.name,
        striping=striping,
        layout=fitted.layout,
        notes=(*((choice.because,) if choice.because else ()), *notes, *fitted.notes, *_exclusion_notes(targets)),
        command=files.set_command(fitted.layout, case.apply_to or Path("DIR")),
        outcome="shadow" if case.shadow else "advised",
        partial_runs=sum(run.partial for run in past),
    )
    row = _record(connection, advice, case.apply_to) if case.is_recorded else 0
    if request.job and not case.shadow:
        times = {"until": request.until, "now": request.now}
        take_targets(connection, request.system, request.job, striping.targets, **times)
    return _Decision(advice, targets, row)


def _record(connection: Connection, advice: Advice, apply_to: Path | None) -> int:
    """Record a decision in the history. Return its row."""
    request, layout, striping = advice.request, advice.layout, advice.striping
    where = {"applied_to": str(apply_to) if apply_to else None, "filesystem": request.filesystem}
    where |= {"components": json.dumps(list_components(layout)) if layout.before else None}
    where |= {"pool": layout.pool or None}
    stripes = layout.count, layout.size, layout.start
    row = request.decision_row(advice.policy, striping.phase, stripes, striping.reason, advice.outcome, **where)
    return record_decision(connection, row)


def _choose_pool(
    pools: Sequence[Pool],
    given_pool: str,
    policy: Policy,
    targets: Sequence[Target],
    request: JobRequest,
    past: Sequence[Past],
) -> PoolChoice:
    """Choose a pool unless one is given: by the user, or by the folder, whose pool stays."""
    if given_pool or not pools or Input.FILE_SIZES not in policy.inputs:
        return PoolChoice()
    latest = _latest_run(past, request.nprocs)
    return choose_pool(pools, targets, request.nprocs, latest.io_bytes if latest else 0)


def _read_features(policy: Policy, files: FileSystem, folder: Path | None) -> Features:
    """Ask the file system what layouts it has, if the policy uses components."""
    if Input.FILE_SIZES not in policy.inputs:
        return PLAIN
    with files.identity():
        return files.features(folder)


def list_components(layout: Layout) -> list[dict[str, int | None]]:
    """Return the components as objects for JSON. A count of 0 is on the MDT, and the last one has no end.

    >>> list_components(Layout(count=8))
    [{'end': None, 'stripe_count': 8, 'stripe_size': 1048576}]
    """
    return [
        {"end": None if c.end == TO_THE_END else c.end, "stripe_count": c.count, "stripe_size": c.size}
        for c in layout.components
    ]


def _free_first_target(view: StripeView, striping: Striping) -> tuple[Striping, tuple[str, ...]]:
    """Let the file system choose the first target if each process writes its own file.

    A folder's first target is the first target of every file in it, so all files would use the same targets.
    """
    if striping.layout.start == ANY or not has_file_per_process(view):
        return striping, ()
    writes = "writes" if view.shared_file is not None else "probably writes"
    note = f"each process {writes} its own file, so the file system chooses the first target of each file"
    return replace(striping, layout=replace(striping.layout, start=ANY), targets=(), where=""), (note,)


def _exclusion_notes(targets: Sequence[Target]) -> list[str]:
    """
    >>> _exclusion_notes([Target(index=0), *(Target(index=i, usable=False, because="degraded") for i in (3, 4))])
    ['targets 3, 4 excluded: degraded']
    """
    excluded = sorted((t for t in targets if not t.usable), key=lambda t: (t.because, t.index))
    notes = []
    for because, group in groupby(excluded, key=lambda t: t.because):
        indices = [t.index for t in group]
        more = f" and {len(indices) - _MOST_LISTED} more" if len(indices) > _MOST_LISTED else ""
        names = f"target{'s' * (len(indices) > 1)} {', '.join(map(str, indices[:_MOST_LISTED]))}{more}"
        notes.append(f"{names} excluded: {because or 'not usable'}")
    return notes
