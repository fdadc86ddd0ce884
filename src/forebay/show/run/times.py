"""When a run did its I/O: its share of the run, and a heat map or the spans of files."""

import numpy as np

from forebay.history.darshan.activity import Activity
from forebay.model.units import format_bandwidth, format_duration
from forebay.profile.overview.run import RunOverview
from forebay.show.phrases import cut_middle, format_share
from forebay.show.report import Table
from forebay.show.run import drawings
from forebay.show.run.page import Picture, Section, format_roughly

_MOST_SPANS = 12
_LEAST_COVERED = 0.9
_SOURCES = {"HEATMAP": "heat map"}


def show_times(overview: RunOverview) -> Section | None:
    """The share of I/O in the run, and its times as far as the log has them; None if there is no I/O."""
    if not overview.files.count:
        return None
    activity = overview.activity
    notes = _describe_source(overview, activity)
    pictures, tables = [_draw_shares(overview.shares)], []
    if activity is not None and _has_times(activity):
        pictures += _draw_rates(activity)
        pictures += _draw_heat(activity, overview.evidence.nprocs)
    elif spans := _draw_spans(overview):
        tables.append(spans)
    else:
        notes.append("It does not say at what time files were read and written, either.")
    return Section(title="When", notes=notes, pictures=pictures, tables=tables, legend=drawings.OPERATIONS)


def _has_times(activity: Activity) -> bool:
    return 2 * activity.resolution <= activity.duration


def _describe_source(overview: RunOverview, activity: Activity | None) -> list[str]:
    if activity is None:
        return ["The log has neither a heat map nor a trace of requests."]
    source = _SOURCES.get(activity.module, "trace of requests")
    if not _has_times(activity):
        slot = format_duration(activity.resolution)
        run_time = format_roughly(overview.evidence.records.job.run_time)
        return [f"The time slots of the log's {source} ({slot}) are too long for a run of {run_time}."]
    notes = [] if activity.complete else ["The trace is long; only its first part is shown."]
    covered = activity.moved.sum() / max(sum(overview.moved), 1)
    if covered < _LEAST_COVERED:
        notes.append(f"The log's {source} covers {format_share(covered)} of the bytes.")
    return notes


def _draw_shares(shares: tuple[float, float, float]) -> Picture:
    reads, writes, meta = map(format_share, shares)
    return Picture(
        drawing=drawings.draw_parts(zip(shares, (drawings.READ, drawings.WRITE, "meta"), strict=True)),
        caption=f"Of the time of all processes: reads {reads}, writes {writes}, metadata such as open and stat {meta}.",
    )


def _draw_rates(activity: Activity) -> list[Picture]:
    """Reads and writes of all processes over time."""
    pictures = []
    part = activity.duration / activity.moved.shape[2]
    for (kind, name), moved in zip(drawings.OPERATIONS, activity.moved.sum(axis=1), strict=False):
        if moved.any():
            peak = format_bandwidth(float(moved.max()) / part)
            caption = f"{name.capitalize()} of all processes over the run, up to {peak}."
            drawing = drawings.draw_steps(moved, kind, caption)
            pictures.append(Picture(drawing=drawing, caption=caption, axis=_name_times(activity)))
    return pictures


def _draw_heat(activity: Activity, nprocs: int) -> list[Picture]:
    """Bytes by process and time."""
    _, rows, columns = activity.moved.shape
    if rows == 1:
        return []
    processes = np.diff(-(-np.arange(rows + 1) * nprocs // rows))
    rates = activity.moved.sum(axis=0) * columns / activity.duration / processes[:, None]
    drawing, (least, most) = drawings.draw_heat(rates, "Bytes by process and time")
    each = "one row for each process" if rows == nprocs else f"about {nprocs / rows:.0f} processes in each row"
    caption = (
        f"Processes 0 (top) to {nprocs - 1:,} (bottom), {each}. A stronger colour is more: "
        f"from {format_bandwidth(least)} to {format_bandwidth(most)} for a process."
    )
    return [Picture(drawing=drawing, caption=caption, axis=_name_times(activity))]


def _name_times(activity: Activity) -> list[str]:
    return [format_roughly(time) for time in (0.0, activity.duration / 2, activity.duration)]


def _draw_spans(overview: RunOverview) -> Table | None:
    files = [file for file in overview.files.orders["slowest"] if any(file.spans)][:_MOST_SPANS]
    if not files:
        return None
    duration = overview.evidence.records.job.run_time or 1.0
    rows = [(cut_middle(file.name), drawings.draw_spans(file.spans, duration)) for file in files]
    heads = ("file", f"0 to {format_roughly(duration)} of the run")
    return Table("The slowest files, from their first request to their last", heads, rows)
