"""Calibrations as text and as JSON, and what predictions say about the one they rest on."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from forebay.model.units import format_bandwidth, plural
from forebay.profile.calibration.calibration_file import Calibration
from forebay.profile.calibration.check import Check, Score
from forebay.profile.calibration.prediction import OPERATIONS
from forebay.show.output import Document, print_table, printable

_NONE = "Gains come from a model of a typical Lustre, which is not calibrated to this machine (forebay calibrate)."


def describe_calibration(calibration: Calibration | None) -> str:
    """One sentence for whatever predicts with the model: which calibration it rests on, or that there is none."""
    if calibration is None:
        return _NONE
    where = f"to {printable(calibration.filesystem)} " if calibration.filesystem else ""
    checks = [
        f"{accuracy.median:.1f} for {operation}"
        for operation, accuracy in zip(OPERATIONS, calibration.accuracy, strict=True)
        if accuracy is not None
    ]
    source = printable(calibration.source)
    unseen = "" if calibration.knows_requests else " The cost of a request is a default: those runs do not show it."
    return (
        f"Gains come from a model that was calibrated {where}on {_format_day(calibration.made)} with {source}. "
        f"On other runs it is off by a factor of {' and '.join(checks)} (medians).{unseen}"
    )


def describe_stored(calibration: Calibration | None) -> Document | None:
    """The same as JSON."""
    if calibration is None:
        return None
    document: Document = {
        "filesystem": calibration.filesystem,
        "made": calibration.made,
        "source": calibration.source,
        "knows_requests": calibration.knows_requests,
    }
    for operation, accuracy in zip(OPERATIONS, calibration.accuracy, strict=True):
        document[f"median_factor_{operation}"] = None if accuracy is None else accuracy.median
        document[f"p90_factor_{operation}"] = None if accuracy is None else accuracy.p90
    return document


def describe_kept(kept: Mapping[str, Any] | None) -> str:
    """The same for findings that the history keeps; `kept` has the calibration's file system, day and source."""
    if kept is None:
        return "Gains come from a model of a typical Lustre, which was not calibrated to this machine that day."
    where = f"to {printable(kept['filesystem'])} " if kept["filesystem"] else ""
    return (
        f"Gains come from a model that was calibrated {where}on {_format_day(kept['made'])} with "
        f"{printable(kept['source'])}."
    )


def _format_day(made: float) -> str:
    return f"{datetime.fromtimestamp(made, UTC):%Y-%m-%d}"


def print_calibration(check: Check, calibration: Calibration, written: Path | None) -> None:
    """`forebay calibrate`."""
    typer.echo(
        f"{printable(calibration.source)}: {plural(check.earlier.size, 'run')} fitted, "
        f"the {check.later.size:,} later ones checked"
    )
    rows: list[tuple[object, ...]] = []
    for operation, score in zip(OPERATIONS, check.scores, strict=True):
        if score is None:
            typer.echo(f"Too few runs have {operation}: their defaults stay unchecked.")
            continue
        rank = "-" if score.rank_correlation is None else f"{score.rank_correlation:.2f}"
        interval = f"{score.interval[0]:.2f} to {score.interval[1]:.2f}"
        rows.append(
            (operation, score.fitted, score.checked, rank, f"{score.median:.2f}", interval, f"{score.p90:.2f}",
             f"{score.one_bandwidth:.2f}")
        )  # fmt: skip
    columns = (
        "", "runs fitted", "checked", "rank correlation", "median factor", "(90 % sure)", "90th percentile",
        "median with one bandwidth",
    )  # fmt: skip
    print_table("How far predicted seconds are off", columns, rows)
    fs = calibration.parameters.fs
    model = [
        ("bandwidth of a process", *map(format_bandwidth, fs.bandwidth)),
        ("bandwidth of a run", *map(format_bandwidth, fs.total)),
        ("request that the cache takes or serves", *map(_format_micro, fs.call)),
        ("request that waits for a server", *map(_format_micro, fs.latency)),
        ("taking a lock from another client", "", _format_micro(fs.lock)),
        ("opening a file", *[_format_micro(fs.name)] * 2),
    ]
    print_table("The model", ("", *OPERATIONS), model)
    if not calibration.knows_requests:
        typer.echo("The runs' requests are unknown, so what a request costs keeps its default.")
    for line in _warn(check):
        typer.echo(line)
    typer.echo(f"written: {written}" if written else "not written (--dry-run)")


def _format_micro(seconds: float) -> str:
    return f"{1e6 * seconds:,.3g} µs" if seconds < 1e-3 else f"{1e3 * seconds:,.3g} ms"


def _warn(check: Check) -> list[str]:
    """Say where one bandwidth for all runs would do as well."""
    return [
        f"For {operation}, the model is no better than one bandwidth for all runs: don't rely on its gains."
        for operation, score in zip(OPERATIONS, check.scores, strict=True)
        if score is not None and score.median >= score.one_bandwidth
    ]


def calibration_document(check: Check, calibration: Calibration, written: Path | None) -> Document:
    """`forebay calibrate --json`."""
    fs, waiting = calibration.parameters.fs, calibration.parameters.waiting
    document: Document = {
        "source": calibration.source,
        "filesystem": calibration.filesystem,
        "made": calibration.made,
        "knows_requests": calibration.knows_requests,
        "written": None if written is None else str(written),
        "fitted_runs": int(check.earlier.size),
        "checked_runs": int(check.later.size),
        "seconds_per_lock": fs.lock,
        "seconds_per_open": fs.name,
    }
    for side, operation in enumerate(OPERATIONS):
        document[operation] = {
            "score": _score_document(check.scores[side]),
            "bandwidth": fs.bandwidth[side],
            "total_bandwidth": fs.total[side],
            "seconds_per_call": fs.call[side],
            "seconds_per_wait": fs.latency[side],
            "unseen_seconds": waiting.seconds[side],
            "unseen_volume_power": waiting.volume[side],
            "unseen_process_power": waiting.processes[side],
        }
    return document


def _score_document(score: Score | None) -> Document | None:
    if score is None:
        return None
    return {
        "fitted": score.fitted,
        "checked": score.checked,
        "rank_correlation": score.rank_correlation,
        "median_factor": score.median,
        "median_interval": score.interval,
        "p90_factor": score.p90,
        "one_bandwidth_median_factor": score.one_bandwidth,
    }
