"""What the history says, as documents for machines."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import IO

from forebay.history.store.totals import AppSums
from forebay.model.errors import BadInput
from forebay.profile.application import Profile
from forebay.profile.filesystem_usage import Usage
from forebay.profile.ost_health import OstHealth
from forebay.show.output import Document

Top = Sequence[tuple[str, int, int]]
_DATE = re.compile(r"\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d(-?\d)?")
UNKNOWN = "unknown"
"""What a file system is called of which nothing tells where it is mounted."""


def find_filesystem(name: str | None, known: Sequence[str]) -> str | None:
    """The file system that an option names, as the history has it."""
    if name is None:
        return None
    wanted = "" if name == UNKNOWN else name.rstrip("/") or "/"
    if wanted not in known:
        there = ", ".join(mount or UNKNOWN for mount in known)
        hint = f"the history knows {there}" if there else "no run in the history was on Lustre"
        raise BadInput("--filesystem", f"no run was on {name}; {hint}")
    return wanted


def name_filesystems(shown: Top) -> str:
    """The file systems of the runs in a table or figure; "" if none is known.

    >>> name_filesystems([("/home", 1, 1), ("/work", 1, 1)])
    'all 2 file systems'
    """
    mounts = [mount or UNKNOWN for mount, *_ in shown]
    return f"all {len(mounts)} file systems" if len(mounts) > 1 else "".join(mounts)


def usage_document(usage: Usage, apps: int, most_run: Top, most_bytes: Top, filesystems: Top) -> Document:
    """Of `forebay history stats`; percentages are of what tells, null where nothing does."""
    return {
        "runs": usage.runs,
        "apps": apps,
        "total_bytes": usage.total_bytes,
        "partial_runs": usage.partial_runs,
        "runs_without_lustre": usage.runs_without_lustre,
        "filesystems": _sums("filesystem", filesystems),
        "stripe_count": [
            {"low": b.low, "high": b.high, "runs": b.runs, "percent": 100 * b.share} for b in usage.stripe_counts
        ],
        "stripe_size": [{"stripe_size": b.low, "runs": b.runs, "percent": 100 * b.share} for b in usage.stripe_sizes],
        "default": {
            "stripe_count_pct": _percent(usage.default_count),
            "stripe_size_pct": _percent(usage.default_size),
            "both_pct": _percent(usage.default_both),
            "layout_pct": _percent(usage.default_layout),
        },
        "most_run": _sums("app", most_run),
        "most_bytes": _sums("app", most_bytes),
        "seq_pct": _percent(usage.sequential),
        "io_less_1k_pct": _percent(usage.less_1k),
        "io_1k_to_100k_pct": _percent(usage.from_1k_to_100k),
    }


def _sums(name: str, rows: Top) -> list[Document]:
    return [dict(zip((name, "runs", "total_bytes"), row, strict=True)) for row in rows]


def apps_document(apps: Sequence[AppSums]) -> Document:
    """Of `forebay history apps`."""
    made = [asdict(app) for app in apps]
    for app in made:
        layout = app.pop("best_layout")
        app["best"] = layout and dict(zip(("nprocs", "file_stripe_count", "stripe_size"), layout, strict=True))
    return {"apps": made}


def osts_document(osts: Sequence[OstHealth]) -> Document:
    """Of `forebay history osts`."""
    return {"osts": [asdict(ost) for ost in osts]}


def profile_document(profile: Profile, wanted: int | None) -> Document:
    """Of `forebay profile`; `wanted` is the number of processes that was asked for."""
    made = asdict(profile)
    made["asked_processes"] = wanted
    made["elsewhere"] = [{"filesystem": mount, "runs": runs} for mount, runs in profile.elsewhere]
    made["process_counts"] = [{"nprocs": n, "runs": runs} for n, runs in profile.process_counts]
    made["curve"] = profile.curve and {"counts": profile.curve.counts, "bandwidths": profile.curve.bandwidths}
    made["points"] = [{"n": n, **asdict(perf)} for n, perf in profile.points.items()]
    made["layouts"] = [
        {"file_stripe_count": count, "stripe_size": size, "perf": asdict(perf)}
        for (count, size), perf in profile.layouts.items()
    ]
    return made


def write_runs(runs: Iterable[Document], out: IO[str]) -> None:
    """`{"runs": [...]}`, a line for each run, however many there are."""
    out.write('{"runs": [')
    for number, run in enumerate(runs):
        out.write(",\n" if number else "\n")
        out.write(json.dumps(run))
    out.write("\n]}\n")


def format_time(seconds: float) -> str:
    """A point in time as people here write it."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def parse_period(since: str | None, until: str | None) -> tuple[float | None, float | None]:
    """Two dates, or dates and times, of here, in seconds since 1970; `until` a date ends with its day."""
    low, high = _seconds("--since", since), _seconds("--until", until, end=True)
    if low is not None and high is not None and low >= high:
        raise BadInput("--until", f"{until} is not after {since}")
    return low, high


def _seconds(option: str, text: str | None, *, end: bool = False) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if end and _DATE.fullmatch(text):
            moment += timedelta(days=1)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadInput(option, f"must be a date like 2026-01-31 or 2026-01-31T12:00, not {text!r}") from None


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
