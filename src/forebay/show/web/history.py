"""The page's view of the history: applications, stripes, OSTs, one application with its last advice, and its runs."""

import sys
import threading
from collections.abc import Callable
from contextlib import closing

from forebay.act.command import run_unchecked
from forebay.history.store import Connection, open_store
from forebay.history.store.decisions import find_last_decision
from forebay.history.store.findings import read_diagnoses
from forebay.history.store.listing import has_runs, list_runs
from forebay.history.store.past_runs import list_behaviours
from forebay.history.store.totals import app_count, app_sums, filesystem_sums, layout_sums, osts_by_filesystem, top_apps
from forebay.model.compile_hooks import WITHOUT_NOTICE
from forebay.model.errors import BadInput, UserError
from forebay.profile.application import profile_of
from forebay.profile.filesystem_usage import usage
from forebay.profile.ost_health import rank_osts
from forebay.show.history.documents import apps_document, osts_document, profile_document, usage_document
from forebay.show.history.profile import describe_drift, describe_forecast, describe_pattern
from forebay.show.output import Document

_TOP = 10
_MOST = 500
"""The largest number of applications shown: those with the most bytes."""
_MOST_RUNS = 200
"""The largest number of an application's runs shown: the newest."""
_OF_RUN = ("run_id", "start_time", "nprocs", "total_bytes", "time_by_slowest", "perf_by_slowest", "run_time")
_PATIENCE = 120.0
"""Seconds for a run's page: a log can have millions of files."""
_SHEETS_AT_ONCE = threading.Semaphore(2)
_OF_PROFILE = (
    *("app", "filesystem", "elsewhere", "runs", "partial_runs", "processes", "first_start_time", "last_start_time"),
    *("points", "curve"),
)
_NONE = (
    'No history is configured. Set history = "sqlite:///PATH" (or postgresql://…) under [service] in the service\'s '
    "file, and read Darshan logs into it: forebay ingest PATH --db sqlite:///PATH"
)


def history(db: str) -> Document:
    """All applications and OSTs; `none` says why the view is empty."""
    return _read(db, _overview)


def application(db: str, name: str) -> Document:
    """One application: its pattern, curve and forecast, and its last advice."""

    def look(connection: Connection) -> Document:
        profile = profile_of(name, list_behaviours(connection, name))
        sentences = [describe_pattern(profile.pattern), describe_drift(profile.drift), describe_forecast(profile)]
        document = {key: value for key, value in profile_document(profile, None).items() if key in _OF_PROFILE}
        return document | {"words": sentences, "advice": find_last_decision(connection, name)}

    return _read(db, look)


def application_runs(db: str, name: str) -> Document:
    """The newest runs of an application, each with the codes of its findings, or null if the history has none."""

    def look(connection: Connection) -> Document:
        with closing(list_runs(connection, app=name, limit=_MOST_RUNS)) as rows:
            runs = [{key: row[key] for key in _OF_RUN} for row in rows]
        known = read_diagnoses(connection, [run["run_id"] for run in runs])
        for run in runs:
            diagnosis = known.get(run["run_id"])
            examined = diagnosis is not None and not diagnosis["remark"]
            run["findings"] = [finding["code"] for finding in diagnosis["findings"]] if diagnosis and examined else None
        return {"app": name, "runs": runs, "limited": len(runs) == _MOST_RUNS}

    return _read(db, look)


def make_run_sheet(db: str, run: int) -> bytes:
    """The page of a run, made by `forebay diagnose`: neither a large nor a damaged log can harm the service."""
    if not db:
        raise BadInput("service.history", "is not set, so there are no runs")
    argv = (sys.executable, "-m", "forebay", "diagnose", str(run), "--html", "-")
    with _SHEETS_AT_ONCE:
        completed = run_unchecked(argv, timeout=_PATIENCE, variables={"FOREBAY_DB": db, WITHOUT_NOTICE: "1"})
    if completed.code:
        raise BadInput(f"run {run}", completed.reason.removeprefix("forebay: "))
    return completed.out.encode()


def _read(db: str, look: Callable[[Connection], Document]) -> Document:
    if not db:
        return {"none": _NONE}
    try:
        with open_store(db, create=False) as store, store.open_reader() as connection:
            if has_runs(connection):
                return look(connection)
            return {"none": f"The history is empty. Read Darshan logs into it: forebay ingest PATH --db {store.where}"}
    except UserError as error:
        return {"none": f"The history cannot be read: {error}"}


def _overview(connection: Connection) -> Document:
    used = usage(layout_sums(connection))
    most_run, most_bytes = (top_apps(connection, by, _TOP) for by in ("runs", "total_bytes"))
    apps = sorted(app_sums(connection), key=lambda app: -app.total_bytes)
    return {
        "usage": usage_document(used, app_count(connection), most_run, most_bytes, filesystem_sums(connection)),
        "left_out": max(0, len(apps) - _MOST),
        **apps_document(apps[:_MOST]),
        **osts_document(rank_osts(osts_by_filesystem(connection))),
    }
