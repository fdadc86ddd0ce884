"""The page of a run from its log."""

from collections.abc import Sequence
from dataclasses import replace

from forebay.history.darshan.summary import find_user, program_name
from forebay.history.run_fields import Row
from forebay.history.scanned_log import path_text
from forebay.history.store import Connection
from forebay.model.units import format_bandwidth, format_size, plural
from forebay.profile.findings.diagnosis import Diagnosis
from forebay.profile.overview.run import RunOverview, describe_run
from forebay.show.findings import describe_basis, describe_logs
from forebay.show.phrases import cut_middle, format_share, format_time
from forebay.show.run.findings import describe_verdict, show_finding
from forebay.show.run.page import Facts, RunPage, Section, format_roughly
from forebay.show.run.past_runs import describe_change, find_past_runs, show_past_runs
from forebay.show.run.sections import show_files, show_processes, show_requests, show_targets
from forebay.show.run.times import show_times

_SECTIONS = (show_times, show_requests, show_files, show_targets, show_processes)
_MOST_MOUNTS = 4
_LONGEST_COMMAND = 400


def make_log_page(diagnosis: Diagnosis, history: Connection | None) -> RunPage:
    """The page of a log, with the earlier runs of its program if there is a history."""
    assert diagnosis.evidence is not None
    overview = describe_run(diagnosis.evidence)
    if history is None:
        return page_of_log(diagnosis, overview)
    this = row_of_log(overview)
    runs = find_past_runs(history, this["app"], this)
    return add_change(page_of_log(diagnosis, overview, [show_past_runs(runs)]), runs)


def add_change(page: RunPage, runs: Sequence[Row]) -> RunPage:
    """Say in the verdict what changed from the earlier runs."""
    return replace(page, verdict=[*page.verdict, *describe_change(runs)])


def page_of_log(
    diagnosis: Diagnosis, overview: RunOverview, sections: Sequence[Section] = (), origin: Sequence[str] = ()
) -> RunPage:
    """The page of a diagnosed log; `sections` and `origin` come after those of the log."""
    records = overview.evidence.records
    return RunPage(
        title=program_name(records.job.exe) or path_text(records.path.name),
        subtitle=f"Job {records.job.job_id}, started {format_time(records.job.start_time)}",
        verdict=[*describe_logs(diagnosis), *describe_verdict(overview, diagnosis)],
        facts=_describe_job(overview),
        findings=[show_finding(finding) for finding in diagnosis.findings],
        about_findings=describe_basis(diagnosis) if diagnosis.findings else "",
        sections=[*(section for show in _SECTIONS if (section := show(overview))), *sections],
        origin=[_describe_log(overview), *origin],
    )


def _describe_log(overview: RunOverview) -> str:
    records = overview.evidence.records
    by = f" by Darshan {overview.darshan}" if overview.darshan else ""
    which = f"{len(records.processes):,} logs; the one with most bytes is" if records.processes else "the log"
    return f"From {which} {path_text(records.path.name)}, written{by} in format {records.job.log_ver}."


def row_of_log(overview: RunOverview) -> Row:
    """The run of a log as a row of the history, with the fields that earlier runs are compared by."""
    job = overview.evidence.records.job
    return {
        "run_id": None,
        "app": program_name(job.exe),
        "job_id": job.job_id,
        "start_time": job.start_time,
        "nprocs": job.nprocs,
        "total_bytes": sum(overview.moved),
        "time_by_slowest": overview.io_seconds,
        "perf_by_slowest": overview.bandwidth or 0.0,
        "run_time": job.run_time,
    }


def _describe_job(overview: RunOverview) -> Facts:
    records, job = overview.evidence.records, overview.evidence.records.job
    nodes = overview.activity.nodes if overview.activity else None
    seconds, bandwidth = overview.io_seconds, overview.bandwidth
    facts: list[tuple[str, object]] = [
        ("Command", cut_middle(job.exe, _LONGEST_COMMAND)),
        ("User", find_user(records.path, program_name(job.exe), job) or job.uid),
        ("Processes", f"{job.nprocs:,}" + (f" on {plural(nodes, 'node')}" if nodes else "")),
        ("Run time", format_roughly(job.run_time)),
        ("Read", format_size(overview.moved[0])),
        ("Written", format_size(overview.moved[1])),
        ("I/O of the slowest process", format_roughly(seconds) if seconds else ""),
        ("Bandwidth", format_bandwidth(bandwidth) if bandwidth else ""),
        ("File systems", _describe_mounts(overview)),
        ("Recorded by Darshan", ", ".join(records.modules)),
    ]
    return [(label, value) for label, value in facts if value != ""]


def _describe_mounts(overview: RunOverview) -> str:
    moved = sum(overview.moved)
    used = [group for group in overview.files.mounts if sum(group.moved) or not moved]
    shares = [f"{group.name} {format_share(sum(group.moved) / moved)}" if moved else group.name for group in used]
    left_out = len(shares) - _MOST_MOUNTS
    return ", ".join(shares[:_MOST_MOUNTS]) + (f" and {left_out} more" if left_out > 0 else "")
