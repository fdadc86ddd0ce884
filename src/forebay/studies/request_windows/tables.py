"""The tables of the report, as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.profile.pattern_detector import shipped_detector
from forebay.show.report import Table
from forebay.simulate.requests.servers import Contended
from forebay.studies.request_windows.detection import precisions
from forebay.studies.request_windows.records import detectors, instance_records, situation_records, tuner_records
from forebay.studies.request_windows.results import FIFO, PAPER_PRECISION, TWINS, RequestWindowsResults
from forebay.studies.request_windows.view import (
    FOREBAY,
    NEAR,
    NOTABLE,
    PAPERS,
    SHORT,
    TENTH,
    Way,
    describe_experiment,
    find_experiments,
    milliseconds,
    percent,
    steps,
    tuner_label,
    values_of,
)

_NONE = "–"


def gains_table(results: RequestWindowsResults) -> Table:
    """A line for each pattern and operation, and one for each number of I/O nodes."""
    heads = ("situations", "count", "win", "lose", "median best", "largest", "largest loss", "best windows, ms")
    kinds: list[dict[str, Any]] = [{"pattern": p, "operation": o} for p in PATTERNS for o in OPERATIONS]
    kinds += [{"nodes": n} for n in values_of(results, "nodes")]
    rows = [_gain_cells(results, kind) for kind in kinds if find_experiments(results, **kind).size]
    return Table("What windows win and lose over fifo", heads, rows)


def precision_table(results: RequestWindowsResults) -> Table:
    """Tables 1 and 2: least / mean / median / greatest of all experiments, in percent."""
    sets = list(detectors(results))
    by_set = {key: precisions(results.detected, *key) for key in sets}
    names = [name for name in PAPER_PRECISION if any(name in figures for figures in by_set.values())]
    rows: list[tuple[str, ...]] = [
        (SHORT.get(name, name), _four(PAPER_PRECISION[name]), *(_four(by_set[key].get(name)) for key in sets))
        for name in names
    ]
    heads = ("", "paper", *(f"{by}, {of}" for of, by in sets))
    return Table("Tables 1 and 2: precision of detection, least / mean / median / greatest, %", heads, rows)


def instance_table(results: RequestWindowsResults) -> Table:
    """First and last bin of the paper's instances, under its epsilon, another, and ours."""
    rows: list[tuple[str, ...]] = []
    shown = (PAPERS, TENTH, FOREBAY)
    for row in (r for r in instance_records(results) if r["tuner"] in shown and r["similar"] == "no"):
        paper = f"{row['paper_first_share']:.2f} → {row['paper_last_share']:.2f}" if row["tuner"] == PAPERS else _NONE
        rows.append(
            (
                row["instance"],
                tuner_label(row["tuner"]),
                paper,
                f"{row['first_share']:.2f} → {row['last_share']:.2f}",
                f"{100 * row['first_precision']:.0f} → {100 * row['last_precision']:.0f} %",
            )
        )
    heads = ("instance", "tuner", "paper: share", "ours: share of the best, first → last bin", "precision")
    return Table(f"Instances of section 6.1 over {steps(results)} steps", heads, rows)


def tuner_table(results: RequestWindowsResults) -> Table:
    """A line for each tuner, the one that loses least first."""
    heads = (
        "tuner",
        f"lost after {steps(results)} steps",
        "of epsilon 0.1's",
        "at most half of it in",
        "most lost in a situation",
        "last share",
        "last precision",
        f"{100 * NEAR:.0f} % from step",
    )
    ranked = sorted(tuner_records(results), key=lambda row: row["regret"])
    rows: list[tuple[str, ...]] = [
        (
            Way(r["tuner"], r["similar"] == "yes").label,
            f"{r['regret']:.2f}",
            _finite(r["of_epsilon_0.1"], "{:.2f}"),
            _finite(100 * r["situations_at_most_half"], "{:.0f} % of situations"),
            f"{r['largest_regret']:.1f}",
            f"{100 * r['share']:.2f} %",
            f"{100 * r['precision']:.0f} %",
            _finite(r["reached"], "{:.0f}"),
        )
        for r in ranked
    ]
    return Table("Tuners, means over all situations; lost are steps of the best window", heads, rows)


def scheduler_table(results: RequestWindowsResults) -> Table:
    """A line for each scheduler, over fifo."""
    over = {name: ratio - 1 for name, ratio in results.schedulers().items() if name != FIFO}
    rows: list[tuple[str, ...]] = []
    for name in sorted(over, key=lambda n: -float(np.median(over[n]))):
        gain = over[name]
        rows.append(
            (
                f"{name}, best window" if name == TWINS else name,
                percent(float(np.median(gain)), 1),
                percent(float(gain.min()), 1),
                percent(float(gain.max()), 1),
                str(int((gain > NOTABLE).sum())),
                str(int((gain < -NOTABLE).sum())),
            )
        )
    return Table("Schedulers over fifo", ("scheduler", "median", "least", "greatest", "win", "lose"), rows)


def situation_table(results: RequestWindowsResults) -> Table:
    """All situations, those that windows help most first."""
    ranked = sorted(situation_records(results), key=lambda row: -row["best_gain"])
    rows: list[tuple[str, ...]] = [
        (
            describe_experiment(results.experiments[r["experiment"]]),
            f"{r['fifo'] / 1e6:.0f} MB/s",
            f"{milliseconds(r['best_window'])} ms",
            percent(r["best_gain"], 1),
            f"{milliseconds(r['worst_window'])} ms",
            percent(r["worst_gain"], 1),
        )
        for r in ranked
    ]
    return Table("All situations", ("situation", "fifo", "best window", "over fifo", "worst window", "over fifo"), rows)


def model_table() -> Table:
    """Every number of the server model."""
    model = Contended()
    rows: list[tuple[str, ...]] = []
    for field in fields(Contended):
        value = getattr(model, field.name)
        rows.append((MODEL[field.name], _model_number(field.name, value)))
    return Table("The server model, fitted to the paper", ("", "value"), rows)


def classifier_table() -> Table:
    """The shipped classifiers, on what they learned from, on what was kept back, and on sizes never seen."""
    results = shipped_detector().document["results"]
    names = list(next(iter(results.values())))
    rows: list[tuple[str, ...]] = [
        (by, *(f"{100 * results[by][name]['accuracy']:.2f} %" for name in names)) for by in results
    ]
    heads = ("classifier", *(f"{name} ({int(np.sum(_any(results, name)['confusion'])):,})" for name in names))
    return Table("The classifiers that come with Forebay, when they were trained: periods recognised", heads, rows)


MODEL = {
    "base": "any request, µs",
    "bandwidth": "bandwidth of a server, MB/s",
    "other_node": "more if another I/O node was served last, µs",
    "written": "share of that for writes",
    "gap": "more if it doesn't go on where the last one ended, µs",
    "other_file": "more for another file, µs",
    "crowd": "longer for each further I/O node with requests there, reads",
    "crowd_writing": "longer for each further I/O node with requests there, writes",
    "noise": "variation, sigma of a lognormal factor",
}


def _model_number(name: str, value: float) -> str:
    scale = 1e6 if name == "bandwidth" else 1e-6 if name in ("base", "other_node", "gap", "other_file") else 1
    return f"{value / scale:g}"


def _gain_cells(results: RequestWindowsResults, kind: dict[str, Any]) -> tuple[str, ...]:
    gains = results.gains()[find_experiments(results, **kind)]
    best = gains.max(axis=1)
    at = np.bincount(gains.argmax(axis=1), minlength=gains.shape[1])
    often = [int(k) for k in np.argsort(-at, kind="stable")[:3] if at[k]]
    name = f"{SHORT[kind['pattern']]}, {kind['operation']}s" if "pattern" in kind else _nodes(kind["nodes"])
    return (
        name,
        str(len(gains)),
        str(int((best > NOTABLE).sum())),
        str(int((best < -NOTABLE).sum())),
        percent(float(np.median(best)), 1),
        percent(float(best.max()), 1),
        percent(float(gains.min()), 1),
        ", ".join(f"{milliseconds(results.windows[k])} ({at[k]})" for k in often),
    )


def _any(results: Mapping[str, Any], name: str) -> Any:
    return next(iter(results.values()))[name]


def _nodes(count: int) -> str:
    return f"{count} I/O node{'s' * (count > 1)}"


def _four(values: tuple[float, ...] | None) -> str:
    return " / ".join(f"{v:.1f}".removesuffix(".0") for v in values) if values else _NONE


def _finite(value: float, how: str) -> str:
    return how.format(value) if np.isfinite(value) else _NONE
