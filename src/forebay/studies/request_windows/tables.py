"""The tables of the report, as text."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from forebay.history.toml import load_toml
from forebay.model.service_time import FITTED
from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.model.units import plural
from forebay.profile.pattern_detector import shipped_detector
from forebay.show.phrases import format_finite
from forebay.show.report import Table
from forebay.show.rows import Record, records, select
from forebay.studies.request_windows import results as study
from forebay.studies.request_windows.detection import CLASSIFIERS, confusion, precisions
from forebay.studies.request_windows.results import NOTABLE, PAPERS, SEEN, RequestWindowsResults, Way, percent


def situation_records(results: RequestWindowsResults) -> list[Record]:
    """Return for each situation its bandwidth under fifo (bytes per second), and its best and worst window."""
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


def window_records(results: RequestWindowsResults) -> list[Record]:
    """Return the mean bandwidth and the gain for each situation and window (nanoseconds; 0 is fifo)."""
    runs, means = results.runs(), results.bandwidths()
    columns = list(enumerate([(study.FIFO, 0), *((study.TWINS, int(w)) for w in results.windows)]))
    return [
        _situation(results, e)
        | {
            "scheduler": scheduler,
            "window": window,
            "bandwidth": float(means[e, column]),
            "deviation": float(select(runs, scheduler=scheduler, window=window, experiment=e)["run"].std()),
            "gain": float(means[e, column] / means[e, 0] - 1),
        }
        for e in range(len(results.experiments))
        for column, (scheduler, window) in columns
    ]


def scheduler_records(results: RequestWindowsResults) -> list[Record]:
    """Return the bandwidth over fifo's for each situation and scheduler; twins has its best window."""
    over = results.schedulers()
    return [
        _situation(results, e) | {"scheduler": name, "over_fifo": float(ratios[e])}
        for e in range(len(results.experiments))
        for name, ratios in over.items()
    ]


def learned_records(results: RequestWindowsResults) -> list[Record]:
    """Return what each tuner learned, bin by bin; `mode` is alone, after similar situations, or in turns."""
    rows = records(results.learned)
    for row in rows:
        similar, turns = row.pop("similar"), row.pop("together")
        row["mode"] = "in turns" if turns else "after similar" if similar else "alone"
    return rows


def detected_records(results: RequestWindowsResults) -> list[Record]:
    """Count the periods recognised as each pattern, for each experiment, window and classifier."""
    rows = records(results.detected)
    for row in rows:
        counts = row.pop("found")
        row["pattern"] = PATTERNS[row["pattern"]]
        row |= {f"as_{name.replace('-', '_')}": int(count) for name, count in zip(PATTERNS, counts, strict=True)}
    return rows


def tuner_records(results: RequestWindowsResults) -> list[Record]:
    """Return the loss of each tuner after all steps, and how near it is to the best at the end, over all situations."""
    base = study.last_values(results.learned_alone(Way(study.TENTH)), "regret")
    table = []
    for way in results.ways():
        rows = results.learned_alone(way)
        lost = study.last_values(rows, "regret")
        table.append(
            {
                "tuner": way.tuner,
                "similar": "yes" if way.similar else "no",
                "steps": results.steps,
                "regret": float(lost.mean()),
                "of_epsilon_0.1": float(lost.mean() / base.mean()) if base.size else float("nan"),
                "situations_at_most_half": float((lost <= 0.5 * base).mean()) if base.size else float("nan"),
                "largest_regret": float(lost.max()),
                "share": float(study.last_values(rows, "share").mean()),
                "precision": float(study.last_values(rows, "precision").mean()),
                "reached": study.step_reached(rows),
            }
        )
    return table


def instance_records(results: RequestWindowsResults) -> list[Record]:
    """Return the share of the best and the precision in the first and the last bin of the paper's instances."""
    table = []
    for (letter, number), way in product(results.instances().items(), results.ways()):
        row: Record = {"instance": letter, "tuner": way.tuner, "similar": "yes" if way.similar else "no"}
        for column in ("share", "precision"):
            _, values = study.over_steps(select(results.learned_alone(way), experiment=number), column)
            row |= {f"first_{column}": float(values[0]), f"last_{column}": float(values[-1])}
        first, last = study.PAPER["shares"][letter] if way == Way(PAPERS) else _UNKNOWN[:2]
        table.append(row | {"paper_first_share": first, "paper_last_share": last})
    return table


def precision_records(results: RequestWindowsResults) -> list[Record]:
    """Return Tables 1 and 2 for each set and classifier, in percent, beside the paper's numbers."""
    columns, paper = ("least", "mean", "median", "greatest"), study.PAPER["precision"]
    heads = ("set", "classifier", "of", *columns, *(f"paper_{name}" for name in columns))
    return [
        dict(zip(heads, (of, by, name, *shares, *(paper[name] if of == SEEN else _UNKNOWN)), strict=True))
        for of, by in detectors(results)
        for name, shares in precisions(results.detected, of, by).items()
    ]


def accuracy(table: Any) -> float:
    """Return the share of correct entries in a confusion matrix."""
    return float(np.trace(table) / max(int(table.sum()), 1))


def format_accuracy(table: Any) -> str:
    """Format the accuracy in percent; only a perfect one is 100 %.

    >>> format_accuracy(np.diag([99999, 99999])), format_accuracy(np.array([[99999, 1], [0, 99999]]))
    ('100.00 %', '99.99 %')
    """
    share = 100 * accuracy(table)
    return f"{share if share == 100 else min(share, 99.99):.2f} %"


def detectors(results: RequestWindowsResults) -> list[tuple[str, str]]:
    """Return the pairs of set and classifier that have results."""
    pairs = [(of, by) for of in (SEEN, study.UNSEEN) for by in CLASSIFIERS]
    return [pair for pair in pairs if confusion(results.detected, *pair).sum()]


def _situation(results: RequestWindowsResults, number: int) -> Record:
    columns = ("pattern", "operation", "request", "nodes", "processes")
    return {"experiment": number} | {name: study.value_of(results.experiments[number], name) for name in columns}


_NONE = "–"
_UNKNOWN = (float("nan"),) * 4


def gains_table(results: RequestWindowsResults) -> Table:
    """Tabulate the gains for each pattern and operation, and for each number of I/O nodes."""
    kinds: dict[str, Record] = {
        f"{study.SHORT[p]}, {o}s": {"pattern": p, "operation": o} for p in PATTERNS for o in OPERATIONS
    }
    kinds |= {plural(n, "I/O node"): {"nodes": n} for n in results.values_of("nodes")}
    rows = []
    for name, kind in kinds.items():
        gains = results.gains()[results.find_experiments(**kind)]
        if not len(gains):
            continue
        best = gains.max(axis=1)
        at = np.bincount(gains.argmax(axis=1), minlength=gains.shape[1])
        often = [int(k) for k in np.argsort(-at, kind="stable")[:3] if at[k]]
        rows.append(
            {
                "situations": name,
                "count": str(len(gains)),
                "gain": str(int((best > NOTABLE).sum())),
                "lose": str(int((best < -NOTABLE).sum())),
                "median best": percent(float(np.median(best)), 1),
                "largest": percent(float(best.max()), 1),
                "largest loss": percent(float(gains.min()), 1),
                "best windows, ms": ", ".join(f"{study.milliseconds(results.windows[k])} ({at[k]})" for k in often),
            }
        )
    return Table.of("Gains and losses of windows against fifo", rows)


def precision_table(results: RequestWindowsResults) -> Table:
    """Tables 1 and 2: least / mean / median / greatest of all experiments, in percent."""
    sets = list(detectors(results))
    by_set = {key: precisions(results.detected, *key) for key in sets}
    rows = [
        (study.SHORT.get(name, name), _four(paper), *(_four(by_set[key].get(name)) for key in sets))
        for name, paper in study.PAPER["precision"].items()
        if any(name in figures for figures in by_set.values())
    ]
    heads = ("", "paper", *(f"{by}, {of}" for of, by in sets))
    return Table("Tables 1 and 2: precision of detection, least / mean / median / greatest, %", heads, rows)


def instance_table(results: RequestWindowsResults) -> Table:
    """Tabulate the first and last bin of the paper's instances, with its epsilon, epsilon 0.1 and forebay."""
    rows = [
        {
            "instance": r["instance"],
            "tuner": study.tuner_label(r["tuner"]),
            "paper: share": f"{r['paper_first_share']:.2f} → {r['paper_last_share']:.2f}"
            if r["tuner"] == PAPERS
            else _NONE,
            "ours: share of the best, first → last bin": f"{r['first_share']:.2f} → {r['last_share']:.2f}",
            "precision": f"{100 * r['first_precision']:.0f} → {100 * r['last_precision']:.0f} %",
        }
        for r in instance_records(results)
        if r["tuner"] in (PAPERS, study.TENTH, study.FOREBAY) and r["similar"] == "no"
    ]
    return Table.of(f"Instances of section 6.1 over {results.steps} steps", rows)


def tuner_table(results: RequestWindowsResults) -> Table:
    """Tabulate the tuners, the one that loses least first."""
    rows = [
        {
            "tuner": Way(r["tuner"], r["similar"] == "yes").label,
            f"lost after {results.steps} steps": f"{r['regret']:.2f}",
            "of epsilon 0.1's": format_finite(r["of_epsilon_0.1"], "{:.2f}"),
            "at most half of it in": format_finite(100 * r["situations_at_most_half"], "{:.0f} % of situations"),
            "most lost in a situation": f"{r['largest_regret']:.1f}",
            "last share": f"{100 * r['share']:.2f} %",
            "last precision": f"{100 * r['precision']:.0f} %",
            f"{100 * study.NEAR:.0f} % from step": format_finite(r["reached"], "{:.0f}"),
        }
        for r in sorted(tuner_records(results), key=lambda row: row["regret"])
    ]
    return Table.of("Tuners, means over all situations; losses in steps of the best window", rows)


def scheduler_table(results: RequestWindowsResults) -> Table:
    """Tabulate the schedulers against fifo."""
    over = {name: ratio - 1 for name, ratio in results.schedulers().items() if name != study.FIFO}
    rows = [
        {
            "scheduler": f"{name}, best window" if name == study.TWINS else name,
            "median": percent(float(np.median(gain)), 1),
            "least": percent(float(gain.min()), 1),
            "greatest": percent(float(gain.max()), 1),
            "gain": str(int((gain > NOTABLE).sum())),
            "lose": str(int((gain < -NOTABLE).sum())),
        }
        for name, gain in sorted(over.items(), key=lambda item: -float(np.median(item[1])))
    ]
    return Table.of("Schedulers against fifo", rows)


def situation_table(results: RequestWindowsResults) -> Table:
    """Tabulate all situations, those that windows help most first."""
    rows = [
        {
            "situation": results.describe_experiment(r["experiment"]),
            "fifo": f"{r['fifo'] / 1e6:.0f} MB/s",
            "best window": f"{study.milliseconds(r['best_window'])} ms",
            "over fifo": percent(r["best_gain"], 1),
            "worst window": f"{study.milliseconds(r['worst_window'])} ms",
            "worst over fifo": percent(r["worst_gain"], 1),
        }
        for r in sorted(situation_records(results), key=lambda row: -row["best_gain"])
    ]
    return Table.of(f"{len(rows)} lines, the largest gain first", rows)


def model_table() -> Table:
    """Tabulate every number of the server model."""
    model = load_toml(Path(__file__).with_name("model.toml"))
    rows = [(label, f"{getattr(FITTED, name) / scale:g}") for name, (label, scale) in model.items()]
    return Table("The server model, fitted to the paper", ("", "value"), rows)


def classifier_table() -> Table:
    """Tabulate the accuracy of the shipped classifiers on training data, on held-out data and on unseen sizes."""
    results = shipped_detector().document["results"]
    periods = {name: int(np.sum(result["confusion"])) for name, result in next(iter(results.values())).items()}
    rows = [
        {"classifier": by}
        | {f"{name} ({count:,})": f"{100 * results[by][name]['accuracy']:.2f} %" for name, count in periods.items()}
        for by in results
    ]
    return Table.of("Accuracy of the classifiers that come with Forebay, measured after training", rows)


def _four(values: Sequence[float] | None) -> str:
    return " / ".join(f"{v:.1f}".removesuffix(".0") for v in values) if values else _NONE
