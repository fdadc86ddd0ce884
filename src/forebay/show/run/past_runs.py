"""The earlier runs of an application beside one of its runs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from statistics import median

from forebay.history.run_fields import Row
from forebay.history.store import Connection
from forebay.history.store.listing import list_runs
from forebay.model.errors import UserError
from forebay.model.units import format_bandwidth, format_size, plural
from forebay.show.phrases import format_time
from forebay.show.report import Table
from forebay.show.run import drawings
from forebay.show.run.page import Picture, Section, format_roughly

MOST_DRAWN = 40
_MOST_LISTED = 12
_ENOUGH = 4  # earlier runs that say what is usual
_CLEAR = 1.5


def find_past_runs(connection: Connection, app: str, this: Row) -> list[Row]:
    """The newest runs up to this one, from old to new, with this one as the last."""
    try:
        rows = list_runs(connection, app=app, until=this["start_time"] + 1, limit=MOST_DRAWN)
        with closing(rows):
            earlier = [row for row in rows if not _is_same(row, this)]
    except UserError:  # the history does not know the application
        earlier = []
    return [*reversed(earlier[: MOST_DRAWN - 1]), this]


def _is_same(row: Row, this: Row) -> bool:
    if this["run_id"] is not None:
        return bool(row["run_id"] == this["run_id"])
    return bool(row["job_id"] == this["job_id"] and row["start_time"] == this["start_time"])


def show_past_runs(runs: Sequence[Row], codes: Mapping[int, Sequence[str]] | None = None) -> Section:
    """Draw and list runs, of which the last is the one that the page shows. `codes` are the findings of some, by the
    run's number."""
    if len(runs) < 2:
        return Section(title="Earlier runs", notes=["The history has no earlier run of this application."])
    this, earlier = runs[-1], runs[:-1]
    pictures = [
        picture
        for title, name, write in (
            ("Bandwidth", "perf_by_slowest", format_bandwidth),
            ("Run time", "run_time", format_roughly),
        )
        if (picture := _draw_runs(runs, title, name, write))
    ]
    heads = ["run", "started", "processes", "moved", "I/O of the slowest process", "bandwidth", "run time"]
    listed = list(reversed(runs[-_MOST_LISTED:]))
    rows = [_list_run(row, row is this) for row in listed]
    if codes is not None:
        heads.append("findings")
        rows = [(*row, _list_codes(codes, run)) for row, run in zip(rows, listed, strict=True)]
    title = "All of them" if len(runs) <= _MOST_LISTED else f"The newest {_MOST_LISTED}"
    table = Table(title, heads, rows)
    return Section(title="Earlier runs", notes=[_compare(this, earlier)], pictures=pictures, tables=[table])


def _list_codes(codes: Mapping[int, Sequence[str]], run: Row) -> str:
    known = codes.get(run["run_id"])
    return "unknown" if known is None else ", ".join(known) or "none"


def describe_change(runs: Sequence[Row]) -> list[str]:
    """A sentence if the last run is clearly faster or slower than several earlier ones with as many processes."""
    this, alike = runs[-1], _find_alike(runs[-1], runs[:-1])
    if len(alike) < _ENOUGH or not this["perf_by_slowest"]:
        return []
    ratio = this["perf_by_slowest"] / median(alike)
    if 1 / _CLEAR < ratio < _CLEAR:
        return []
    how = f"{ratio:.1f} times as fast as" if ratio > 1 else f"{1 / ratio:.1f} times as slow as"
    return [f"Its I/O was {how} usual: {len(alike):,} earlier runs with as many processes are below."]


def _find_alike(this: Row, earlier: Sequence[Row]) -> list[float]:
    """The bandwidths of runs with as many processes."""
    return [row["perf_by_slowest"] for row in earlier if row["nprocs"] == this["nprocs"] and row["perf_by_slowest"]]


def _compare(this: Row, earlier: Sequence[Row]) -> str:
    alike = _find_alike(this, earlier)
    shown = f"This run and {plural(len(earlier), 'earlier run')} of the application."
    if not alike or not this["perf_by_slowest"]:
        return shown
    usual = median(alike)
    reached, ratio = this["perf_by_slowest"], this["perf_by_slowest"] / usual
    return (
        f"{shown} It reached {format_bandwidth(reached)}, {ratio:.2f} times the median of the {len(alike):,} with as "
        f"many processes ({format_bandwidth(usual)})."
    )


def _draw_runs(runs: Sequence[Row], title: str, name: str, write: Callable[[float], str]) -> Picture | None:
    values = [float(row[name] or 0.0) for row in runs]
    if not any(values):
        return None
    kinds = [*["past"] * (len(runs) - 1), "this"]
    labels = [f"{format_time(row['start_time'])}: {write(value)}" for row, value in zip(runs, values, strict=True)]
    caption = f"{title} of each run, up to {write(max(values))}; this run is the last and coloured."
    axis = [format_time(runs[0]["start_time"]), format_time(runs[-1]["start_time"])]
    return Picture(drawing=drawings.draw_columns(values, kinds, caption, labels), caption=caption, axis=axis)


def _list_run(row: Row, is_this: bool) -> tuple[object, ...]:
    number = "new" if row["run_id"] is None else str(row["run_id"])
    return (
        f"{number} (this one)" if is_this else number,
        format_time(row["start_time"]),
        f"{row['nprocs']:,}",
        format_size(row["total_bytes"]),
        f"{row['time_by_slowest']:,.2f} s",
        format_bandwidth(row["perf_by_slowest"]) if row["perf_by_slowest"] else "-",
        format_roughly(row["run_time"]),
    )
