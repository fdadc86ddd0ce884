"""The figures: those of Kim et al. 2022 by their numbers, and one on noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from forebay.model.units import plural
from forebay.show.figures.looks import Band, Look, draw_band, key, looks_of
from forebay.show.figures.sheet import Sketch, legend_above, panels, printable
from forebay.show.rows import Floats, Rows, distinct, select
from forebay.studies.striping.results import (
    APART,
    DCA,
    DEFAULT,
    FOREBAY,
    NOBODY,
    OTHERS,
    TAPP,
    StripingResults,
    later_runs,
)
from forebay.studies.striping.tables import first_near

_TITLES = {
    7: "FIO, sequential writes, a file for each process, on the local cluster",
    8: "FIO, random writes, a file for each process, on the local cluster",
    9: "VPIC-IO, collective writes to a shared file, on the local cluster",
    10: "GCRM-IO, collective writes to a shared file, on the local cluster",
    11: "VORPAL-IO, collective writes to a shared file, on the local cluster",
    12: "VPIC-IO, independent writes to a shared file, on Cori",
    13: "VPIC-IO, collective writes to a shared file, on Cori",
    14: "Beside FIO, whose four processes write to 1, 2 or 4 OSSs of the local cluster",
}
_BESIDE = 14
_HISTORY = {OTHERS: "runs of others known", NOBODY: "nothing known"}
LOOKS: Mapping[str, Look] = {
    DEFAULT: Look("#7F7F7F", "x", (0, (1, 1.2))),
    TAPP: Look("#E69F00", "s", (0, (5, 1.5))),
    APART: Look("#56B4E9", "v", (0, (3, 1))),
    DCA: Look("#0072B2", "^"),
    FOREBAY: Look("#000000", "o", "-", 1.8, 5),
}


def figures_of(results: StripingResults) -> Iterator[Sketch]:
    """Every figure that the results allow, with the policies that were run."""
    for number in results.figures():
        yield (beside if number == _BESIDE else run_by_run)(results, number)
    if results.noise.size:
        yield noise_figure(results.noise, int(str(results.settings.get("noise runs", 20))))


def run_by_run(results: StripingResults, number: int) -> Sketch:
    """Figures 7 to 13: a panel for each number of processes or nodes, a line for each policy over the runs."""
    runs = results.of(figure=number)
    looks = looks_of(distinct(runs, "policy"), LOOKS)
    shown = results.panels(number)
    figure, grid = panels(len(shown), columns=4, height=2.1)
    for axes, (application, processes, fio) in zip(grid, shown, strict=True):
        here = select(runs, application=application, processes=processes, fio=fio)
        for name, look in looks.items():
            draw_band(axes, _over_runs(select(here, policy=name)), look)
        nodes = int(here["nodes"][0])
        large = here["machine"][0] != "local"
        axes.set_title(plural(nodes, "node") if large else plural(processes, "process"), loc="left")
        _from_zero(axes, here["run"].max())
    grid[0].set_ylabel("write throughput (GB/s)")
    figure.supxlabel("run", fontsize=8)
    legend_above(figure, [key(label(name), look) for name, look in looks.items()])
    return Sketch(
        name=f"figure-{number:02}-{'-'.join(runs['application'][0].lower().split())}",
        title=f"Figure {number}: {_TITLES.get(number, str(runs['application'][0]))}",
        caption=f"Write throughput of the first {runs['run'].max()} runs: means of {_repetitions(runs)}, and areas of "
        "one standard deviation around them. Scales differ from panel to panel.",
        figure=figure,
    )


def beside(results: StripingResults, number: int) -> Sketch:
    """Figure 14: a panel for each application, a group of bars for each number of OSSs that FIO writes to."""
    runs = later_runs(results.of(figure=number))
    looks = looks_of(distinct(runs, "policy"), LOOKS)
    shown = list(dict.fromkeys((processes, name) for name, processes, _ in results.panels(number)))
    across = len({name for _, name in shown})
    figure, grid = panels(len(shown), columns=across, height=2.0, sharey=True)
    for axes, (processes, application) in zip(grid, shown, strict=True):
        _groups(axes, select(runs, application=application, processes=processes), looks)
        axes.set_title(f"{printable(application)}, {plural(processes, 'process')}", loc="left")
    for axes in grid[::across]:
        axes.set_ylabel("write throughput (GB/s)")
    grid[0].set_ylim(bottom=0)  # of all panels, and only now: it ends the search for the top
    figure.supxlabel("OSSs that FIO writes to", fontsize=8)
    legend_above(figure, [Patch(color=look.colour, label=printable(label(name))) for name, look in looks.items()])
    return Sketch(
        name=f"figure-{number:02}-beside-fio",
        title=f"Figure {number}: {_TITLES[number]}",
        caption=f"Means of runs {runs['run'].min()} to {runs['run'].max()} of {_repetitions(runs)}; thin lines are one "
        "standard deviation of a run. The default layout meets FIO or not, by chance. The paper has four processes "
        "of each application; with two the rule leaves targets free.",
        figure=figure,
    )


def _over_runs(runs: Rows) -> Band:
    numbers = np.unique(runs["run"])
    values = [runs["throughput"][runs["run"] == n] / 1e9 for n in numbers]
    middle = np.array([v.mean() for v in values])
    spread = np.array([v.std() for v in values])
    return Band(numbers.astype(float), middle, middle - spread, middle + spread)


def _groups(axes: Axes, runs: Rows, looks: dict[str, Look]) -> None:
    counts = np.unique(runs["fio"]).tolist()
    width = 0.8 / len(looks)
    for k, (name, look) in enumerate(looks.items()):
        values = [select(runs, fio=n, policy=name)["throughput"] / 1e9 for n in counts]
        x = np.arange(len(counts)) + (k - (len(looks) - 1) / 2) * width
        spread = [v.std() for v in values]
        thin: dict[str, Any] = {"ecolor": "#555555", "error_kw": {"linewidth": 0.7}}
        axes.bar(x, [v.mean() for v in values], 0.92 * width, yerr=spread, color=look.colour, zorder=2, **thin)
    axes.set_xticks(np.arange(len(counts)), [str(n) for n in counts])
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)


def _from_zero(axes: Axes, last: int) -> None:
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1] / 1.05)
    axes.set_xlim(0.5, last + 0.5)
    step = 1 if last < 6 else 3
    axes.set_xticks(range(1, last + 1, step))


def _repetitions(runs: Rows) -> str:
    return plural(int(runs["repetition"].max()) + 1, "repetition")


def noise_figure(rows: Rows, last: int) -> Sketch:
    """A row of panels for each history: throughput, the worst run, when and how often the best is near.

    `last` is how many runs there were.
    """
    looks = looks_of(distinct(rows, "policy"), LOOKS)
    histories = [h for h in _HISTORY if (rows["history"] == h).any()]
    figure, grid = panels(4 * len(histories), columns=4, height=1.9)
    for row, history in enumerate(histories):
        known = select(rows, history=history)
        total, worst, first, near = grid[4 * row : 4 * row + 4]
        _lines(total, known, looks, 100 * known["total"])
        total.set_ylabel(f"{_HISTORY[history]}\nthroughput (% of best)")
        _lines(worst, known, looks, 100 * (1 - known["worst"]), tail=True)
        worst.set_ylabel("worst regression (%)\nmean, and thin: largest")
        _lines(first, known, looks, first_near(known, last))
        first.set_ylabel("first run near best")
        _lines(near, known, looks, 100 * known["settled"])
        near.set_ylabel("later runs near best (%)")
        for axes, top in ((total, 104), (near, 104), (first, 1.08 * last), (worst, None)):
            axes.set_ylim(0, top)
    figure.supxlabel("variation of equal runs (%)", fontsize=8)
    legend_above(figure, [key(name, look) for name, look in looks.items()])
    cases = len(np.unique(rows[["machine", "application", "processes"]]))
    return Sketch(
        name="figure-noise",
        title="What noise does to each policy",
        caption=f"Means over {plural(cases, 'case')} (application, machine, processes) and "
        f"{plural(int(rows['seed'].max()) + 1, 'seed')}, first {last} runs; above, the policies see runs of others, "
        "below none. From left to right: throughput as a share of what the best layout gives; how far the worst run "
        "lies below the best layout used before it or the default (thin lines: the 99th percentile); the first run "
        f"with a layout within 5 % of the best ({last + 1} where none is); the share of such runs in the second half. "
        "All are counted without the noise that the policies see.",
        figure=figure,
    )


def _lines(axes: Axes, rows: Rows, looks: dict[str, Look], values: Floats, *, tail: bool = False) -> None:
    levels = np.unique(rows["noise"])
    for name, look in looks.items():
        samples = [values[(rows["policy"] == name) & (rows["noise"] == level)] for level in levels]
        axes.plot(100 * levels, [v.mean() for v in samples], **look.style())
        if tail:
            style = look.style() | {"linewidth": 0.7, "marker": "none", "alpha": 0.7}
            axes.plot(100 * levels, [np.percentile(v, 99) for v in samples], **style)
    axes.set_xticks(100 * levels)
    axes.margins(x=0.12)


def label(policy: str) -> str:
    """
    >>> label("dca-io:interference=false")
    'dca-io without Procedure 3'
    """
    return "dca-io without Procedure 3" if policy == APART else policy
