"""All figures of the striping study: those of Kim et al. 2022 by their numbers, and one on noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from numpy.typing import NDArray

from forebay.model.units import plural
from forebay.show.figures.looks import Look, draw_band, key, looks_of
from forebay.show.figures.series import Band
from forebay.show.figures.sheet import Sketch, house_style, legend_above, panels
from forebay.show.figures.text import printable
from forebay.studies.striping.figures.looks import LOOKS, label
from forebay.studies.striping.figures.noise import noise_figure
from forebay.studies.striping.results import StripingResults, policies_of, select, settled

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

Rows = NDArray[np.void]


@house_style()
def sketch_striping_study(results: StripingResults) -> list[Sketch]:
    """Every figure that the results allow.

    A figure shows the policies that are there; one for which nothing is there is left out.
    """
    sketches = [(beside if n == _BESIDE else run_by_run)(results, n) for n in results.figures()]
    if results.noise.size:
        sketches.append(noise_figure(results.noise, int(str(results.settings.get("noise runs", 20)))))
    return sketches


def run_by_run(results: StripingResults, number: int) -> Sketch:
    """Figures 7 to 13: a panel for each number of processes or nodes, a line for each policy over the runs."""
    own = results.of(figure=number)
    looks = looks_of(policies_of(own), LOOKS)
    shown = results.panels(number)
    figure, grid = panels(len(shown), columns=4, height=2.1)
    for axes, (application, processes, fio) in zip(grid, shown, strict=True):
        here = select(own, application=application, processes=processes, fio=fio)
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
        name=f"figure-{number:02}-{'-'.join(own['application'][0].lower().split())}",
        title=f"Figure {number}: {_TITLES.get(number, str(own['application'][0]))}",
        caption=f"Write throughput of the first {own['run'].max()} runs: means of {_repetitions(own)}, and areas of "
        "one standard deviation around them. Scales differ from panel to panel.",
        figure=figure,
    )


def beside(results: StripingResults, number: int) -> Sketch:
    """Figure 14: a panel for each application, a group of bars for each number of OSSs that FIO writes to."""
    own = settled(results.of(figure=number))
    looks = looks_of(policies_of(own), LOOKS)
    shown = list(dict.fromkeys((processes, name) for name, processes, _ in results.panels(number)))
    across = len({name for _, name in shown})
    figure, grid = panels(len(shown), columns=across, height=2.0, sharey=True)
    for axes, (processes, application) in zip(grid, shown, strict=True):
        _groups(axes, select(own, application=application, processes=processes), looks)
        axes.set_title(f"{printable(application)}, {plural(processes, 'process')}", loc="left")
    for axes in grid[::across]:
        axes.set_ylabel("write throughput (GB/s)")
    grid[0].set_ylim(bottom=0)  # of all panels, and only now: it ends the search for the top
    figure.supxlabel("OSSs that FIO writes to", fontsize=8)
    legend_above(figure, [Patch(color=look.colour, label=printable(label(name))) for name, look in looks.items()])
    return Sketch(
        name=f"figure-{number:02}-beside-fio",
        title=f"Figure {number}: {_TITLES[number]}",
        caption=f"Means of runs {own['run'].min()} to {own['run'].max()} of {_repetitions(own)}; thin lines are one "
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
