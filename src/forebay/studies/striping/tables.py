"""The tables: records for files, and text for people."""

from __future__ import annotations

import numpy as np

from forebay.model.layout import MIB
from forebay.show.report import Table
from forebay.show.rows import Record, distinct, group, select
from forebay.simulate.striping.machine import CORI, LOCAL, Machine
from forebay.studies.striping.results import APART, DCA, PAPER, TAPP, Gain, StripingResults, first_near, gains

_PANEL = ("figure", "machine", "application", "processes", "nodes", "fio", "policy", "run")
_LEVEL = ("noise", "history", "policy")


def mean_records(results: StripingResults) -> list[Record]:
    """Over the repetitions: mean and standard deviation of the throughput, and the layout that was used most."""
    records = []
    for panel, runs in group(results.runs, _PANEL):
        layouts, used = np.unique(runs[["stripe_count", "stripe_size"]], return_counts=True)
        count, size = layouts[np.argmax(used)].tolist()
        means = {
            "repetitions": int(runs.size),
            "throughput": float(runs["throughput"].mean()),
            "deviation": float(runs["throughput"].std()),
            "expected": float(runs["expected"].mean()),
            "stripe_count": count,
            "stripe_size": size,
        }
        records.append(panel | means)
    return records


def level_records(results: StripingResults) -> list[Record]:
    """For each level of noise, history and policy, over all cases and seeds."""
    return [
        key
        | {
            "sequences": int(rows.size),
            "first_near_best": float(first_near(rows, results.noise_runs).mean()),
            "never_near_best": float((rows["reached"] == 0).mean()),
            "later_runs_near_best": float(rows["settled"].mean()),
            "mean_worst_run": float(rows["worst"].mean()),
            "worst_run": float(rows["worst"].min()),
            "throughput": float(rows["total"].mean()),
        }
        for key, rows in group(results.noise, _LEVEL)
    ]


def gains_table(results: StripingResults) -> Table:
    """The paper's improvements beside ours, and those of `forebay`."""
    every = list(gains(results))
    others = {(g.figure, g.application, g.against): f"{g.percent:.0f} %" for g in every if g.policy != DCA}
    rows = [
        {
            "figure": str(g.figure),
            "application": g.application,
            "against": policy_label(g.against),
            "paper": f"{g.paper:.0f} %",
            "ours": f"{g.percent:.0f} %",
            "where": describe_place(g),
            "forebay": others.get((g.figure, g.application, g.against), "–"),
        }
        for g in every
        if g.policy == DCA
    ]
    return Table.of("By how many percent dca-io is faster, at most", rows)


def policy_label(policy: str) -> str:
    """A policy in the words of the paper."""
    return "itself without Procedure 3" if policy == APART else policy


def describe_place(gain: Gain) -> str:
    """With how many processes, or beside how much of FIO, the gain is largest."""
    if gain.fio:
        return f"FIO on {gain.fio} of 4"
    return f"{gain.processes:,} process{'' if gain.processes == 1 else 'es'}"


def noise_table(results: StripingResults) -> Table:
    """A line for each level of noise, history and policy."""
    rows = [
        {
            "noise": f"{100 * r['noise']:.0f} %",
            "history": r["history"],
            "policy": r["policy"],
            "first run near best": f"{r['first_near_best']:.1f}",
            "never": f"{100 * r['never_near_best']:.1f} %",
            "later runs near best": f"{100 * r['later_runs_near_best']:.1f} %",
            "mean worst run": f"{100 * r['mean_worst_run']:.1f} %",
            "worst run": f"{100 * r['worst_run']:.1f} %",
            "throughput": f"{100 * r['throughput']:.1f} %",
        }
        for r in level_records(results)
    ]
    return Table.of("What noise does to each policy", rows)


def model_table() -> Table:
    """Every number of both machines, and where it comes from."""
    rows = [
        (what, _format_number(name, LOCAL), _format_number(name, CORI), source)
        for name, (what, source) in PAPER["sources"].items()
    ]
    return Table("The model's numbers", ("", "local", "Cori", "from"), rows)


def assumed_table(results: StripingResults) -> Table:
    """A line for each number of the model, a column for each figure: halved, as it is, and doubled."""
    rows = results.assumed
    columns = [(f, against) for f, against in distinct(rows, "figure", "against") if f < 12 or against == TAPP]
    lines = []
    for number in distinct(rows, "number"):
        cells = [select(rows, number=number, figure=f, against=a)["percent"] for f, a in columns]
        label = PAPER["sources"].get(number, (number, ""))[0].partition(",")[0]
        lines.append((label, *(" / ".join(f"{p:.0f}" for p in cell) for cell in cells)))
    heads = ("number: half / as it is / twice", *(f"Fig. {figure}, {against}" for figure, against in columns))
    return Table("By how many percent the best layout is faster, at most, if a number is off", heads, lines)


def _format_number(name: str, machine: Machine) -> str:
    value = getattr(machine, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    scale = {"bandwidth": 1e6, "bytes": MIB, "seconds": 1e-3}.get(name.rpartition("_")[2], 1)
    return f"{value / scale:g}"
