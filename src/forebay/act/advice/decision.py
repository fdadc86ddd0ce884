"""A layout for the next run of an application: what is known, decided, remembered, and put on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from forebay.act.filesystems.filesystem import Command, FileSystem, numbered
from forebay.act.filesystems.load import Load, with_load
from forebay.act.filesystems.settings import Settings
from forebay.decide.policy import Policy
from forebay.decide.stripe.view import Past, Peers, StripeView, Striping
from forebay.history.run_fields import FORWARDED
from forebay.history.store import Connection, Store
from forebay.history.store.decisions import record_decision, set_outcome
from forebay.history.store.leases import jobs_by_target, release_targets, take_targets
from forebay.history.store.osts import highest_target
from forebay.history.store.past_runs import PastRun, PeerRuns, has_run, last_filesystem, list_past_runs, list_peer_runs
from forebay.history.store.totals import filesystem_sums
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import ANY, Layout, Target

Outcome = Literal["advised", "shadow", "applied"]
SEEN_RUNS = 200
"""How many of an application's runs a policy sees, the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A job about to start. `until` and `now` are seconds since 1970; `chance` is in [0, 1)."""

    app: str
    nprocs: int
    now: float
    chance: float
    job: str | None = None
    until: float = 0.0
    system: str = "default"
    """By which the leases of one file system are told from those of another."""
    filesystem: str | None = None
    """Where it is mounted; runs that were on another one tell nothing. None: all runs count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What was decided, as the file system can have it, and the command that puts it on."""

    asked: Asked
    policy: str
    striping: Striping
    layout: Layout
    notes: tuple[str, ...]
    command: Command
    outcome: Outcome
    partial_runs: int = 0


@dataclass(frozen=True, slots=True)
class ChosenFileSystem:
    """The file system that advice is about, by its mount point; None where the history knows of none. `because` says
    why, where nobody named it and there are several."""

    mount: str | None
    because: str = ""


def filesystem_of(settings: Settings) -> str | None:
    """The file system that settings describe, as the history has it; None where they don't say."""
    if settings.kind == "forebay":
        return FORWARDED
    return None if settings.mount is None else str(settings.mount)


def choose_filesystem(store: Store, app: str, named: str | None, folder: Path | None) -> ChosenFileSystem:
    """The one that is named or that `folder` is on; else the one where the application was last, or most others are."""
    with store.reading() as connection:
        known = [sums.filesystem for sums in filesystem_sums(connection) if sums.filesystem]
        last = last_filesystem(connection, app)
    if named is not None:
        there = ", ".join(known[:5])
        unseen = f"no run in the history was on {named}; there are runs on {there}"
        return ChosenFileSystem(named, unseen if known and named not in known else "")
    above = folder.resolve().parents if folder is not None else ()
    on = next((str(path) for path in (folder and folder.resolve(), *above) if str(path) in known), None)
    if on is not None or not known:
        return ChosenFileSystem(on)
    why = "its last run was there" if last else "most runs were there"
    because = f"for {last or known[0]}: {why}; --filesystem names another" if len(known) > 1 else ""
    return ChosenFileSystem(last or known[0], because)


def known_targets(store: Store, count: int | None, filesystem: str | None = None) -> tuple[Target, ...]:
    """As many targets as somebody says there are, or as the history has seen in use."""
    if count is None:
        with store.reading() as connection:
            highest = highest_target(connection, filesystem)
        if highest is None:
            raise BadInput(
                "--targets", "no run in the history used an OST; say how many there are, or give --system FILE"
            )
        count = highest + 1
    return numbered(count)


def advise(
    store: Store,
    asked: Asked,
    policy: Policy,
    files: FileSystem,
    targets: Sequence[Target],
    loads: Sequence[Load] = (),
    *,
    apply_to: Path | None = None,
    shadow: bool = False,
) -> Advice:
    """Decide, and take the targets for the job, in one transaction: nobody else is given them meanwhile.

    With `apply_to` the layout is set on that folder; if the file system refuses, the job has
    nothing. With `shadow` it is only decided and remembered. With neither of these, nor a job, it
    is a mere question, which leaves no trace.
    """
    asks_only = not (asked.job or apply_to or shadow)
    with store.reading() if asks_only else store.writing() as connection:
        past = list_past_runs(connection, asked.app, SEEN_RUNS, asked.filesystem)
        view = _view(connection, asked, past, files.max_count, targets, loads)
        striping, spread = _spread(view, policy.decide(view))
        fitted = files.fitted(striping.layout)
        if not asks_only:
            outcome: Outcome = "shadow" if shadow else "advised"
            decision = record_decision(connection, _row(asked, policy, striping, fitted.layout, outcome, apply_to))
        if asked.job and not shadow:
            take_targets(connection, asked.system, asked.job, striping.targets, until=asked.until, now=asked.now)
    put_on = apply_to is not None and not shadow
    if apply_to is not None and put_on:
        _put_on(store, files, fitted.layout, apply_to, targets, asked, decision)
    return Advice(
        asked=asked,
        policy=policy.name,
        striping=striping,
        layout=fitted.layout,
        notes=(*spread, *fitted.notes),
        command=files.set_command(fitted.layout, apply_to or Path("DIR")),
        outcome="applied" if put_on else "shadow" if shadow else "advised",
        partial_runs=sum(run.partial_flag for run in past),
    )


def _view(
    connection: Connection,
    asked: Asked,
    past: Sequence[PastRun],
    max_count: int,
    targets: Sequence[Target],
    loads: Sequence[Load],
) -> StripeView:
    """What the policy is to know: the application's runs and others', and who is on the targets besides the job."""
    on_targets = jobs_by_target(connection, asked.system, asked.now)
    leased = [Load(index=target, jobs=frozenset(jobs)) for target, jobs in on_targets.items()]
    others = [replace(load, jobs=load.jobs - {asked.job}) for load in (*loads, *leased)]
    latest, largest = _latest(past, asked.nprocs), _with_largest_files(past, asked.nprocs)
    return StripeView(
        application=asked.app,
        processes=asked.nprocs,
        targets=with_load(targets, others),
        max_count=max_count,
        runs=tuple(_past(run) for run in past if run.file_stripe_count and run.stripe_size),
        known_runs=len(past),
        runs_elsewhere=not past and has_run(connection, asked.app),
        peers=tuple(_peers(alike) for alike in list_peer_runs(connection, asked.app, asked.nprocs, asked.filesystem)),
        shared_file=2 * latest.shared_bytes > latest.total_bytes if latest else None,
        io_processes=latest.io_procs if latest else None,
        pattern_run=latest.run_id if latest else None,
        pattern_processes=latest.nprocs if latest else None,
        file_size=largest.file_size if largest else None,
        file_size_run=largest.run_id if largest else None,
        request_size=latest.common_size if latest else 0,
        chance=asked.chance,
    )


def _latest(past: Sequence[PastRun], nprocs: int) -> PastRun | None:
    """The run that tells how files are used: the newest that moved anything, rather with as many processes, as the same
    program may share a file among many processes and not among few; and rather from a whole log."""
    moved = [run for run in past if run.total_bytes > 0]
    return max(reversed(moved), key=lambda run: (run.nprocs == nprocs, not run.partial_flag), default=None)


def _with_largest_files(past: Sequence[PastRun], nprocs: int) -> PastRun | None:
    """Rather of the runs with as many processes."""
    told = [run for run in past if run.file_size]
    alike = [run for run in told if run.nprocs == nprocs] or told
    return max(alike, key=lambda run: run.file_size or 0, default=None)


def _spread(view: StripeView, striping: Striping) -> tuple[Striping, tuple[str, ...]]:
    """The first target of a folder is that of every file in it, so where each process has a file of its own
    they would all end up on the same targets: then the file system spreads them better."""
    if striping.layout.start == ANY or not _file_per_process(view):
        return striping, ()
    known = "its processes have" if view.shared_file is not None else "as far as one can tell, its processes have"
    note = f"the first target is left to the file system: {known} a file each, and all would begin on the same one"
    return replace(striping, layout=replace(striping.layout, start=ANY), targets=(), where=""), (note,)


def _file_per_process(view: StripeView) -> bool:
    """As its latest run had it; for a new application as most runs of others with as many processes have it."""
    if view.shared_file is not None:
        return not view.shared_file and (view.io_processes or view.processes) > 1
    shared = sum(alike.runs for alike in view.peers if alike.shared_file)
    return view.processes > 1 and 2 * shared <= sum(alike.runs for alike in view.peers)


def _put_on(
    store: Store,
    files: FileSystem,
    layout: Layout,
    folder: Path,
    targets: Sequence[Target],
    asked: Asked,
    decision: int,
) -> None:
    try:
        files.apply(layout, folder, targets)
    except (UserError, KeyboardInterrupt):
        with store.writing() as connection:
            set_outcome(connection, decision, "refused")
            if asked.job:
                release_targets(connection, asked.job, asked.system)
        raise
    with store.writing() as connection:
        set_outcome(connection, decision, "applied")


def _past(run: PastRun) -> Past:
    assert run.file_stripe_count is not None and run.stripe_size is not None
    return Past(
        run=run.run_id,
        processes=run.nprocs,
        count=run.file_stripe_count,
        size=run.stripe_size,
        throughput=run.perf_by_slowest,
        io_bytes=run.total_bytes,
        partial=run.partial_flag,
    )


def _peers(row: PeerRuns) -> Peers:
    return Peers(
        processes=row.nprocs,
        count=row.file_stripe_count,
        size=row.stripe_size,
        runs=row.runs,
        throughput=row.perf_by_slowest,
        shared_file=row.shared_file,
    )


def _row(
    asked: Asked, policy: Policy, striping: Striping, layout: Layout, outcome: Outcome, folder: Path | None
) -> dict[str, Any]:
    return {
        "time": asked.now,
        "job": asked.job,
        "app": asked.app,
        "nprocs": asked.nprocs,
        "policy": policy.name,
        "phase": striping.phase,
        "stripe_count": layout.count,
        "stripe_size": layout.size,
        "stripe_offset": layout.start,
        "because": striping.reason,
        "outcome": outcome,
        "applied_to": str(folder) if folder else None,
        "filesystem": asked.filesystem,
    }
