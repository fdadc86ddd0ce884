"""The findings, computed from the results, and their differences from the paper."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

import numpy as np

from forebay.model.arrays import Floats
from forebay.model.layout import MIB
from forebay.model.units import plural
from forebay.show.phrases import join_names
from forebay.show.report import Report, Section, Table
from forebay.show.rows import Record, distinct_values, group, records, select
from forebay.simulate.striping.machine import CORI, LOCAL, Machine
from forebay.studies.striping import results as study
from forebay.studies.striping.figures import figures_of
from forebay.studies.striping.results import DCA, FOREBAY, PAPER, StripingResults, gains, later_runs

_PANEL = ("figure", "machine", "application", "processes", "nodes", "fio", "policy", "run")
_LEVEL = ("noise", "history", "policy")


def mean_records(results: StripingResults) -> list[Record]:
    """Return the mean and standard deviation of the throughput over the repetitions, and the most frequent layout."""
    records = []
    for panel, runs in group(results.runs, _PANEL):
        layouts, used = np.unique(runs[["stripe_count", "stripe_size"]], return_counts=True)
        throughput: Floats = runs["throughput"]
        expected: Floats = runs["expected"]
        means = {
            "repetitions": int(runs.size),
            "throughput": float(throughput.mean()),
            "deviation": float(throughput.std()),
            "expected": float(expected.mean()),
        }
        layout = dict(zip(("stripe_count", "stripe_size"), layouts[np.argmax(used)].tolist(), strict=True))
        records.append(panel | means | layout)
    return records


def level_records(results: StripingResults) -> list[Record]:
    """Return a record for each level of noise, history and policy, over all cases and seeds."""
    return [
        key
        | {
            "sequences": int(rows.size),
            "first_near_best": float(study.first_near(rows, results.noise_runs).mean()),
            "never_near_best": float((rows["reached"] == 0).mean()),
            "later_runs_near_best": float(rows["settled"].mean()),
            "mean_worst_run": float(rows["worst"].mean()),
            "worst_run": float(rows["worst"].min()),
            "throughput": float(rows["total"].mean()),
        }
        for key, rows in group(results.noise, _LEVEL)
    ]


def gains_table(results: StripingResults) -> Table:
    """Tabulate the paper's improvements beside ours, and those of `forebay`."""
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
    return Table.of("Largest gain of dca-io over other policies", rows)


def policy_label(policy: str) -> str:
    """Name a policy as the paper does."""
    return "itself without Procedure 3" if policy == study.APART else policy


def describe_place(gain: study.Gain) -> str:
    """Say with how many processes, or beside how many targets of FIO, the gain is largest."""
    return f"FIO on {gain.fio} of 4" if gain.fio else plural(gain.processes, "process")


def noise_table(results: StripingResults) -> Table:
    """Tabulate the effect of noise: a line for each level of noise, history and policy."""
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
    return Table.of("Effect of noise on each policy", rows)


def model_table() -> Table:
    """Tabulate every number of both machines with its source."""
    rows = [
        (what, _format_number(name, LOCAL), _format_number(name, CORI), source)
        for name, (what, source) in PAPER["sources"].items()
    ]
    return Table("The model's numbers", ("", "local", "Cori", "source"), rows)


def assumed_table(results: StripingResults) -> Table:
    """Tabulate the gains in each figure (column) with each number of the model (line) halved, unchanged and doubled."""
    rows = results.assumed
    columns = [
        (f, against) for f, against in distinct_values(rows, "figure", "against") if f < 12 or against == study.TAPP
    ]
    lines = []
    for number in distinct_values(rows, "number"):
        cells = [select(rows, number=number, figure=f, against=a)["percent"] for f, a in columns]
        label = PAPER["sources"].get(number, (number, ""))[0].partition(",")[0]
        lines.append((label, *(" / ".join(f"{p:.0f}" for p in cell) for cell in cells)))
    heads = ("number: halved / unchanged / doubled", *(f"Fig. {figure}, {against}" for figure, against in columns))
    return Table("Largest gain of the best layout in %, if a number of the model is wrong", heads, lines)


def _format_number(name: str, machine: Machine) -> str:
    value = getattr(machine, name)
    if isinstance(value, bool):
        return "yes" if value else "no"
    scale = {"bandwidth": 1e6, "bytes": MIB, "seconds": 1e-3}.get(name.rpartition("_")[2], 1)
    return f"{value / scale:g}"


_NEAR = 10.0  # percentage points within which our improvement counts as equal to the paper's


def conclusions(results: StripingResults) -> list[str]:
    """Return the findings as sentences. A comparison that lacks runs is left out."""
    return [sentence for part in (_figures, _compare_fewer_processes, _forebay, _noise) for sentence in part(results)]


def differences(results: StripingResults) -> list[str]:
    """Explain each figure in which our improvement is more than ten points off the paper's."""
    off = {g.figure for g in gains(results) if g.policy == DCA and abs(g.percent - g.paper) > _NEAR}
    reasons: dict[str, list[str]] = {}
    for figure in sorted(off):
        reasons.setdefault(PAPER["reasons"][str(figure)], []).append(str(figure))
    return [f"Figure{'s' * (len(figures) > 1)} {join_names(figures)}: {why}" for why, figures in reasons.items()]


def _figures(results: StripingResults) -> Iterator[str]:
    ours = [gain for gain in gains(results) if gain.policy == DCA]
    for figure, of_figure in groupby(ours, key=lambda g: g.figure):
        parts = []
        for application, alike in groupby(of_figure, key=lambda g: g.application):
            gained = [
                f"{_name_speed(g.percent)} than {policy_label(g.against)} (paper: {g.paper:.0f} %; {describe_place(g)})"
                for g in alike
            ]
            parts.append(f"{application} {join_names(gained)}")
        yield f"Figure {figure}, {DCA}: {'; '.join(parts)}."


def _name_speed(percent: float) -> str:
    """
    >>> _name_speed(12.3), _name_speed(0.2)
    ('up to 12 % faster', 'no faster')
    """
    return f"up to {percent:.0f} % faster" if percent >= 0.5 else "no faster"


def _compare_fewer_processes(results: StripingResults) -> Iterator[str]:
    """Give the gain of Procedure 3 with fewer processes than in the paper, where the rule leaves targets free."""
    runs = later_runs(results.of(figure=14))
    for processes in sorted(set(distinct_values(runs, "processes")) - {study.BESIDE}):
        gained = []
        for application, fio in distinct_values(runs, "application", "fio"):
            here = select(runs, application=application, fio=fio, processes=processes)
            ours, other = (select(here, policy=name)["throughput"] for name in (DCA, study.APART))
            if ours.size and other.size:
                gained.append((100 * float(ours.mean() / other.mean() - 1), f"{application}, FIO on {fio}"))
        if gained:
            percent, best = max(gained)
            yield (
                f"Beside FIO with {plural(processes, 'process')}, which is not in the paper, Procedure 3 makes "
                f"{DCA} {_name_speed(percent)} ({best} of 4)."
            )


def _forebay(results: StripingResults) -> Iterator[str]:
    """Compare `forebay` with `dca-io` over all runs of each panel."""
    ratios: dict[str, float] = {}
    for figure in results.figures():
        for application, processes, fio in results.panels(figure):
            here = results.of(figure=figure, application=application, processes=processes, fio=fio)
            ours, other = (select(here, policy=name)["expected"] for name in (FOREBAY, DCA))
            if ours.size and other.size:
                beside = f" with {plural(processes, 'process')}" + (f" beside FIO on {fio} of 4" if fio else "")
                ratios[f"{application}{beside}"] = float(ours.mean() / other.mean())
    if ratios:
        best, worst = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
        runs = int(results.runs["run"].max())
        yield (
            f"Over the first {runs} runs, without noise, {FOREBAY} has {_change(sum(ratios.values()) / len(ratios))} "
            f"throughput than {DCA} on average over {plural(len(ratios), 'panel')}: {_change(ratios[best])} at best "
            f"({best}), {_change(ratios[worst])} at worst ({worst})."
        )


def _change(ratio: float) -> str:
    """
    >>> _change(1.25), _change(0.9)
    ('25.0 % more', '10.0 % less')
    """
    return f"{100 * abs(ratio - 1):.1f} % {'more' if ratio >= 1 else 'less'}"


def _noise(results: StripingResults) -> Iterator[str]:
    rows = [r for r in level_records(results) if r["policy"] != study.DEFAULT]
    for history, known in ((study.OTHERS, "when other runs are known"), (study.NOBODY, "when no runs are known")):
        for noise in sorted({r["noise"] for r in rows}):
            parts = [
                f"{r['policy']} {100 * r['throughput']:.1f} % (worst run {100 * r['mean_worst_run']:.0f} % of the best "
                f"before it, near the best layout from run {r['first_near_best']:.1f} on)"
                for r in rows
                if (r["noise"], r["history"]) == (noise, history)
            ]
            if parts:
                yield f"Share of the best throughput with {100 * noise:.0f} % noise, {known}: {', '.join(parts)}."


def make_report(results: StripingResults) -> Report:
    settings, sentences, differ = results.settings, conclusions(results), differences(results)
    files = {
        "runs": records(results.runs),
        "means": mean_records(results),
        "gains": [asdict(gain) for gain in gains(results)],
        "noise": records(results.noise),
        "noise-levels": level_records(results),
        "assumed": records(results.assumed),
    }
    summary = [gains_table(results), noise_table(results)]
    return Report(
        about=f"The first {settings.get('runs')} runs of each application under each policy, in simulation, after "
        f"Kim et al. 2022, section 5; {settings.get('repetitions')} repetitions, seed {settings.get('seed')}.",
        findings=[
            Section("Findings", sentences),
            Section("Differences from the paper, and why", differ),
        ],
        records=files,
        document={
            "settings": dict(settings),
            "machines": [asdict(machine) for machine in (LOCAL, CORI)],
            "conclusions": sentences,
            "differences": differ,
            "gains": files["gains"],
            "means": files["means"],
            "noise": files["noise-levels"],
            "assumed": files["assumed"],
        },
        figures=figures_of(results),
        summary=summary,
        tables=[*summary, model_table(), assumed_table(results)],
    )
