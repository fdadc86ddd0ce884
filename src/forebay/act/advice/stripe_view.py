"""What a striping policy sees of a job about to start: its runs, those of others, and the load of the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from forebay.act.filesystems.load import Load, add_loads
from forebay.decide.stripe.view import Past, Peers, StripeView
from forebay.history.store import Connection
from forebay.history.store.jobs import jobs_by_target
from forebay.history.store.past_runs import PastRun, has_run, list_peer_runs
from forebay.model.layout import Target


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
    """Whose leases these are: each file system has its own."""
    filesystem: str | None = None
    """Where the file system is mounted: only runs there count. None: all runs count."""

    def decision_row(self, **columns: object) -> dict[str, object]:
        """A row for the history: a decision on this job."""
        return {"time": self.now, "job": self.job, "app": self.app, "nprocs": self.nprocs, **columns}


def build_view(
    connection: Connection,
    request: JobRequest,
    past: Sequence[PastRun],
    max_count: int,
    targets: Sequence[Target],
    loads: Sequence[Load],
) -> StripeView:
    """The view; targets count as used by what `loads` say and by leases, but not by the job itself."""
    leases = jobs_by_target(connection, request.system, request.now)
    leased = [Load(index=target, jobs=frozenset(jobs)) for target, jobs in leases.items()]
    others = [replace(load, jobs=load.jobs - {request.job}) for load in (*loads, *leased)]
    latest, largest = _latest_run(past, request.nprocs), _run_with_largest_files(past, request.nprocs)
    return StripeView(
        application=request.app,
        processes=request.nprocs,
        targets=add_loads(targets, others),
        max_count=max_count,
        runs=tuple(
            Past(
                run=run.run_id,
                processes=run.nprocs,
                count=run.file_stripe_count,
                size=run.stripe_size,
                throughput=run.perf_by_slowest,
                io_bytes=run.total_bytes,
                partial=run.partial_flag,
            )
            for run in past
            if run.file_stripe_count and run.stripe_size
        ),
        known_runs=len(past),
        runs_elsewhere=not past and has_run(connection, request.app),
        peers=tuple(
            Peers(
                processes=alike.nprocs,
                count=alike.file_stripe_count,
                size=alike.stripe_size,
                runs=alike.runs,
                throughput=alike.perf_by_slowest,
                shared_file=alike.shared_file,
            )
            for alike in list_peer_runs(connection, request.app, request.nprocs, request.filesystem)
        ),
        shared_file=2 * latest.shared_bytes > latest.total_bytes if latest else None,
        io_processes=latest.io_procs if latest else None,
        pattern_run=latest.run_id if latest else None,
        pattern_processes=latest.nprocs if latest else None,
        file_size=largest.file_size if largest else None,
        file_size_run=largest.run_id if largest else None,
        request_size=latest.common_size if latest else 0,
        chance=request.chance,
    )


def _latest_run(past: Sequence[PastRun], nprocs: int) -> PastRun | None:
    """The run that shows how files are used: the newest that moved anything.

    Runs with this number of processes come first, as the same program may share a file among many processes and not
    among few; then runs with a whole log.
    """
    moved = [run for run in past if run.total_bytes > 0]
    return max(reversed(moved), key=lambda run: (run.nprocs == nprocs, not run.partial_flag), default=None)


def _run_with_largest_files(past: Sequence[PastRun], nprocs: int) -> PastRun | None:
    """Of the runs with this number of processes, if there are any."""
    sized = [run for run in past if run.file_size]
    alike = [run for run in sized if run.nprocs == nprocs] or sized
    return max(alike, key=lambda run: run.file_size or 0, default=None)


def has_file_per_process(view: StripeView) -> bool:
    """As in its latest run; for a new application, as in most runs of others with this number of processes."""
    if view.shared_file is not None:
        return not view.shared_file and (view.io_processes or view.processes) > 1
    shared = sum(alike.runs for alike in view.peers if alike.shared_file)
    return view.processes > 1 and 2 * shared <= sum(alike.runs for alike in view.peers)
