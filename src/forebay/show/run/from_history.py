"""The page of a run of the history: from its log, or from what the history has of it if the log is gone."""

from collections.abc import Mapping, Sequence

import numpy as np

from forebay.history.run_fields import Row, WholeRun
from forebay.history.store import Connection
from forebay.model.units import format_bandwidth, format_size
from forebay.profile.findings.diagnosis import Diagnosis
from forebay.profile.overview.run import describe_run
from forebay.profile.overview.targets import Target, mark_slow
from forebay.show.findings import describe_basis, describe_logs, describe_nothing
from forebay.show.phrases import cut_middle, format_time
from forebay.show.report import Table
from forebay.show.run import drawings
from forebay.show.run.findings import describe_first, show_finding
from forebay.show.run.from_log import add_change, page_of_log
from forebay.show.run.page import Facts, RunPage, Section, format_roughly
from forebay.show.run.past_runs import find_past_runs, show_past_runs
from forebay.show.run.sections import draw_sizes, list_targets


def make_run_page(
    history: Connection,
    whole: WholeRun,
    diagnosis: Diagnosis | None,
    gone: str,
    codes: Mapping[int, Sequence[str]] | None = None,
) -> RunPage:
    """The page of a run of the history. If the diagnosis is not from the log, `gone` says why; `codes` are the findings
    of earlier runs by the run's number, if these were diagnosed, too."""
    this = whole["run"]
    runs = find_past_runs(history, this["app"], this)
    sections = [show_past_runs(runs, codes)]
    if diagnosis is None or diagnosis.evidence is None:
        return add_change(page_of_history(whole, diagnosis, gone, sections), runs)
    origin = [f"Run {this['run_id']} of the history."]
    return add_change(page_of_log(diagnosis, describe_run(diagnosis.evidence), sections, origin), runs)


def page_of_history(
    whole: WholeRun, diagnosis: Diagnosis | None, gone: str, sections: Sequence[Section] = ()
) -> RunPage:
    """The page of a run without its log; `gone` says why there is none. `diagnosis` is what the history kept."""
    run = whole["run"]
    findings = diagnosis.findings if diagnosis else []
    measured = (_show_requests(whole), _show_targets(whole["osts"]))
    return RunPage(
        title=str(run["app"]),
        subtitle=f"Job {run['job_id']}, started {format_time(run['start_time'])}",
        verdict=[f"This page shows what the history has of the run: {gone}.", *_describe_findings(diagnosis)],
        facts=_list_facts(run),
        findings=[show_finding(finding) for finding in findings],
        about_findings=describe_basis(diagnosis) if diagnosis and findings else "",
        sections=[*(section for section in measured if section), *sections],
        origin=[f"Run {run['run_id']} of the history."],
    )


def _describe_findings(diagnosis: Diagnosis | None) -> list[str]:
    if diagnosis is None:
        return []
    first = describe_first(diagnosis.findings) if diagnosis.findings else [describe_nothing(diagnosis)]
    return [*describe_logs(diagnosis), *first]


def _list_facts(run: Row) -> Facts:
    facts: list[tuple[str, object]] = [
        ("Command", cut_middle(run["exe"], 400)),
        ("User", run["user"] or run["uid"]),
        ("Processes", f"{run['nprocs']:,}" + (f" on {run['nodes']} nodes" if run["nodes"] else "")),
        ("Run time", format_roughly(run["run_time"])),
        ("Read", format_size(run["bytes_read"])),
        ("Written", format_size(run["bytes_written"])),
        ("I/O of the slowest process", format_roughly(run["time_by_slowest"])),
        ("Bandwidth", format_bandwidth(run["perf_by_slowest"]) if run["perf_by_slowest"] else ""),
        ("Files", f"{run['total_files']:,}"),
        ("File system", run["filesystem"] or ""),
        ("Recorded by Darshan", ", ".join(run["modules"])),
    ]
    return [(label, value) for label, value in facts if value != ""]


def _show_requests(whole: WholeRun) -> Section:
    sizes = np.array([whole["run"]["read_sizes"], whole["run"]["write_sizes"]], dtype=np.int64)
    tables = [draw_sizes("Requests to the file system", sizes)] if sizes.any() else []
    rows = [
        (part["module"], format_size(part["bytes_read"]), format_size(part["bytes_written"]),
         f"{part['time_by_slowest']:,.2f} s", f"{part['total_files']:,}")
        for part in whole["modules"]
    ]  # fmt: skip
    tables.append(Table("Calls by interface", ("interface", "read", "written", "slowest process", "files"), rows))
    notes = [] if sizes.any() else ["The sizes of its requests are unknown."]
    return Section(title="Requests", notes=notes, tables=tables, legend=drawings.OPERATIONS[:2] if sizes.any() else ())


def _show_targets(osts: Sequence[Row]) -> Section | None:
    targets = [
        Target(
            filesystem=row["filesystem"],
            ost=row["ost"],
            files=row["files"],
            moved=row["total_bytes"],
            seconds=row["io_time"],
            slowness=row["slowness"],
            slow=False,
        )
        for row in osts
    ]
    return list_targets(mark_slow(targets)) if targets else None
