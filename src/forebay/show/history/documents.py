"""The history as JSON documents."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import IO

from forebay.history.store.totals import AppSums
from forebay.profile.application import Profile
from forebay.profile.filesystem_usage import Usage
from forebay.profile.ost_health import OstHealth
from forebay.show.output import Document

Top = Sequence[tuple[str, int, int]]


def usage_document(usage: Usage, apps: int, most_run: Top, most_bytes: Top, filesystems: Top) -> Document:
    """The document of `forebay history stats`; percentages are of known values, null without any."""
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
    """The document of `forebay history apps`."""
    documents = [asdict(app) for app in apps]
    for app in documents:
        layout = app.pop("best_layout")
        app["best"] = layout and dict(zip(("nprocs", "file_stripe_count", "stripe_size"), layout, strict=True))
    return {"apps": documents}


def osts_document(osts: Sequence[OstHealth]) -> Document:
    """The document of `forebay history osts`."""
    return {"osts": [asdict(ost) for ost in osts]}


def profile_document(profile: Profile, wanted: int | None) -> Document:
    """The document of `forebay profile`; `wanted` is the requested number of processes."""
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
    """Write `{"runs": [...]}` with a line for each run, and only one run in memory."""
    out.write('{"runs": [')
    for number, run in enumerate(runs):
        out.write(",\n" if number else "\n")
        out.write(json.dumps(run))
    out.write("\n]}\n")


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
