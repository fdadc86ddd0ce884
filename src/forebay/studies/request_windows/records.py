"""The tables as records, for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.model.situation import PATTERNS
from forebay.show.rows import records, select
from forebay.studies.request_windows.detection import CLASSIFIERS, confusion, precisions
from forebay.studies.request_windows.results import (
    FIFO,
    PAPER_PRECISION,
    PAPER_SHARES,
    SEEN,
    TWINS,
    UNSEEN,
    RequestWindowsResults,
)
from forebay.studies.request_windows.view import (
    PAPERS,
    TENTH,
    Way,
    last_values,
    learned_alone,
    over_steps,
    step_reached,
    steps,
    ways,
)


def situation_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """A row for each situation: what it is, what fifo gives (bytes a second), and its best and worst window."""
    bandwidths, gains = results.bandwidths(), results.gains()
    return [
        _situation(results, e)
        | {
            "fifo": float(bandwidths[e, 0]),
            "best_window": int(results.windows[int(gains[e].argmax())]),
            "best_gain": float(gains[e].max()),
            "worst_window": int(results.windows[int(gains[e].argmin())]),
            "worst_gain": float(gains[e].min()),
        }
        for e in range(len(results.experiments))
    ]


def window_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """A row for each situation and window (nanoseconds; 0 is fifo): bandwidth over all repetitions, and the gain."""
    runs, means = results.runs(), results.bandwidths()
    columns = [(FIFO, 0), *((TWINS, int(w)) for w in results.windows)]
    table = []
    for column, (scheduler, window) in enumerate(columns):
        runs_here = runs[(runs["scheduler"] == scheduler) & (runs["window"] == window)]
        for e in range(len(results.experiments)):
            table.append(
                _situation(results, e)
                | {
                    "scheduler": scheduler,
                    "window": window,
                    "bandwidth": float(means[e, column]),
                    "deviation": float(runs_here["run"][runs_here["experiment"] == e].std()),
                    "gain": float(means[e, column] / means[e, 0] - 1),
                }
            )
    return sorted(table, key=lambda row: row["experiment"])


def scheduler_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """A row for each situation and scheduler: bandwidth over fifo's; twins has its best window."""
    over = results.schedulers()
    return [
        _situation(results, e) | {"scheduler": name, "over_fifo": float(ratios[e])}
        for e in range(len(results.experiments))
        for name, ratios in over.items()
    ]


def learned_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """What every tuner learned, bin by bin; `mode` is alone, after similar situations, or in turns with others."""
    rows = records(results.learned)
    for row in rows:
        similar, turns = row.pop("similar"), row.pop("together")
        row["mode"] = "in turns" if turns else "after similar" if similar else "alone"
    return rows


def detected_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """For each experiment, window and classifier, how many periods were recognised as which pattern."""
    rows = records(results.detected)
    for row in rows:
        counts = row.pop("found")
        row["pattern"] = PATTERNS[row["pattern"]]
        row |= {f"as_{name.replace('-', '_')}": int(count) for name, count in zip(PATTERNS, counts, strict=True)}
    return rows


def tuner_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """For each tuner over all situations: what it lost after all steps, and how near the best it is in the end."""
    base = last_values(learned_alone(results, Way(TENTH)), "regret")
    table = []
    for way in ways(results):
        rows = learned_alone(results, way)
        lost = last_values(rows, "regret")
        table.append(
            {
                "tuner": way.tuner,
                "similar": "yes" if way.similar else "no",
                "steps": steps(results),
                "regret": float(lost.mean()),
                "of_epsilon_0.1": float(lost.mean() / base.mean()) if base.size else float("nan"),
                "situations_at_most_half": float((lost <= 0.5 * base).mean()) if base.size else float("nan"),
                "largest_regret": float(lost.max()),
                "share": float(last_values(rows, "share").mean()),
                "precision": float(last_values(rows, "precision").mean()),
                "reached": step_reached(rows),
            }
        )
    return table


def instance_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """For the paper's instances: share of the best and precision in the first and the last bin."""
    table = []
    for letter, number in results.instances().items():
        paper_first, paper_last = PAPER_SHARES[letter]
        for way in ways(results):
            rows = select(learned_alone(results, way), experiment=number)
            share, hits = over_steps(rows, "share")[1], over_steps(rows, "precision")[1]
            is_paper = way == Way(PAPERS)
            table.append(
                {
                    "instance": letter,
                    "tuner": way.tuner,
                    "similar": "yes" if way.similar else "no",
                    "first_share": float(share[0]),
                    "last_share": float(share[-1]),
                    "first_precision": float(hits[0]),
                    "last_precision": float(hits[-1]),
                    "paper_first_share": paper_first if is_paper else float("nan"),
                    "paper_last_share": paper_last if is_paper else float("nan"),
                }
            )
    return table


def precision_records(results: RequestWindowsResults) -> list[dict[str, Any]]:
    """Tables 1 and 2 for each set and classifier, in percent, beside the paper's."""
    table = []
    for of, by in detectors(results):
        for name, figures in precisions(results.detected, of, by).items():
            paper = PAPER_PRECISION[name] if of == SEEN else (float("nan"),) * 4
            row: dict[str, Any] = {"set": of, "classifier": by, "of": name}
            row |= dict(zip(("least", "mean", "median", "greatest"), figures, strict=True))
            row |= dict(zip(("paper_least", "paper_mean", "paper_median", "paper_greatest"), paper, strict=True))
            table.append(row)
    return table


def accuracy(table: Any) -> float:
    """The share of a confusion matrix that is right."""
    return float(np.trace(table) / max(int(table.sum()), 1))


def format_accuracy(table: Any) -> str:
    """Of a hundred, with two decimals; never rounded up to all.

    >>> format_accuracy(np.diag([99999, 99999])), format_accuracy(np.array([[99999, 1], [0, 99999]]))
    ('100.00 %', '99.99 %')
    """
    share = 100 * accuracy(table)
    return f"{share if share == 100 else min(share, 99.99):.2f} %"


def detectors(results: RequestWindowsResults) -> list[tuple[str, str]]:
    """Sets and classifiers for which something is there."""
    pairs = [(of, by) for of in (SEEN, UNSEEN) for by in CLASSIFIERS]
    return [pair for pair in pairs if confusion(results.detected, *pair).sum()]


def _situation(results: RequestWindowsResults, number: int) -> dict[str, Any]:
    e = results.experiments[number]
    w = e.workload
    return {
        "experiment": number,
        "pattern": w.pattern,
        "operation": w.operation,
        "request": w.request,
        "nodes": e.nodes,
        "processes": w.processes,
    }
