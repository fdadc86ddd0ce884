"""The page's view of the history: applications, stripes, OSTs, and one application with its last advice."""

from collections.abc import Callable

from forebay.history.store import Connection, open_store
from forebay.history.store.decisions import find_last_decision
from forebay.history.store.listing import has_runs
from forebay.history.store.past_runs import list_behaviours
from forebay.history.store.totals import app_count, app_sums, filesystem_sums, layout_sums, osts_by_filesystem, top_apps
from forebay.model.errors import UserError
from forebay.profile.application import profile_of
from forebay.profile.filesystem_usage import usage
from forebay.profile.ost_health import rank_osts
from forebay.show.history.documents import apps_document, osts_document, profile_document, usage_document
from forebay.show.history.profile import describe_drift, describe_forecast, describe_pattern
from forebay.show.output import Document

_TOP = 10
_MOST = 500
"""The largest number of applications shown: those with the most bytes."""
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


def _read(db: str, look: Callable[[Connection], Document]) -> Document:
    if not db:
        return {"none": _NONE}
    try:
        with open_store(db, create=False) as store, store.reading() as connection:
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
