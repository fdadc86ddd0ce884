"""The figures: those of Kim et al. 2022 by their numbers, and one on noise."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from forebay.model.arrays import Floats
from forebay.model.units import plural
from forebay.show.figures.looks import Band, draw_band, key, looks_of
from forebay.show.figures.sheet import Sketch, Style, draw_panels, printable, read_texts, sketch
from forebay.show.rows import distinct_values, select
from forebay.studies.striping.results import APART, NOBODY, OTHERS, StripingResults, first_near, later_runs

_TEXTS = read_texts(__file__)
_BESIDE = 14
_HISTORY = {OTHERS: "other runs known", NOBODY: "no runs known"}


def figures_of(results: StripingResults) -> Iterator[Sketch]:
    """Yield every figure that the results allow, with the policies that were run."""
    for number in results.figures():
        runs = results.of(figure=number)
        later = later_runs(runs) if number == _BESIDE else runs
        application = str(runs["application"][0])
        figure = (beside if number == _BESIDE else run_by_run)(results, number)
        yield sketch(
            _TEXTS["beside" if number == _BESIDE else "run_by_run"],
            figure,
            number=number,
            slug="-".join(application.lower().split()),
            subject=_TEXTS["subjects"].get(str(number), application),
            first=later["run"].min(),
            last=runs["run"].max(),
            repetitions=plural(int(runs["repetition"].max()) + 1, "repetition"),
        )
    if results.noise.size:
        rows = results.noise
        yield sketch(
            _TEXTS["noise"],
            noise_figure(results),
            cases=plural(len(np.unique(rows[["machine", "application", "processes"]])), "case"),
            seeds=plural(int(rows["seed"].max()) + 1, "seed"),
            last=results.noise_runs,
            after=results.noise_runs + 1,
        )


def run_by_run(results: StripingResults, number: int) -> Figure:
    """Figures 7 to 13: a panel for each number of processes or nodes, a line for each policy over the runs."""
    runs = results.of(figure=number)
    looks = looks_of(distinct_values(runs, "policy"), "stripe")
    last = int(runs["run"].max())

    def draw(axes: Axes, application: str, processes: int, fio: int) -> None:
        here = select(runs, application=application, processes=processes, fio=fio)
        for name, look in looks.items():
            mine = select(here, policy=name)
            x = np.array(sorted(distinct_values(mine, "run")))
            values: list[Floats] = [select(mine, run=n)["throughput"] / 1e9 for n in x]
            mean, spread = (np.array([measure(v) for v in values]) for measure in (np.mean, np.std))
            draw_band(axes, Band(x.astype(float), mean, mean - spread, mean + spread), look)
        axes.set(xticks=range(1, last + 1, 1 if last < 6 else 3), xlim=(0.5, last + 0.5))
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1] / 1.05)

    def title(application: str, processes: int, fio: int) -> str:
        here = select(runs, application=application, processes=processes, fio=fio)[0]
        return plural(processes, "process") if here["machine"] == "local" else plural(int(here["nodes"]), "node")

    legend = [key(label(name), look) for name, look in looks.items()]
    ylabel = "write throughput (GB/s)"
    return draw_panels(
        results.panels(number), draw, title=title, xlabel="run", ylabel=ylabel, columns=4, height=2.1, legend=legend
    )


def beside(results: StripingResults, number: int) -> Figure:
    """Figure 14: a panel for each application, a group of bars for each number of OSSs that FIO writes to."""
    runs = later_runs(results.of(figure=number))
    looks = looks_of(distinct_values(runs, "policy"), "stripe")
    width = 0.8 / len(looks)

    def draw(axes: Axes, processes: int, application: str) -> None:
        here = select(runs, application=application, processes=processes)
        counts = np.unique(here["fio"]).tolist()
        for k, (name, look) in enumerate(looks.items()):
            values = [select(here, fio=n, policy=name)["throughput"] / 1e9 for n in counts]
            x = np.arange(len(counts)) + (k - (len(looks) - 1) / 2) * width
            thin: Style = {"ecolor": "#555555", "error_kw": {"linewidth": 0.7}, "yerr": [v.std() for v in values]}
            axes.bar(x, [v.mean() for v in values], 0.92 * width, color=look.colour, zorder=2, **thin)
        axes.set_xticks(np.arange(len(counts)), [str(n) for n in counts])
        axes.tick_params(axis="x", length=0)
        axes.grid(axis="x", visible=False)

    cells = list(dict.fromkeys((processes, name) for name, processes, _ in results.panels(number)))
    figure = draw_panels(
        cells,
        draw,
        title=lambda processes, application: f"{printable(application)}, {plural(processes, 'process')}",
        ylabel="write throughput (GB/s)",
        xlabel="OSSs that FIO writes to",
        columns=len({name for _, name in cells}),
        height=2.0,
        sharey=True,
        legend=[Patch(color=look.colour, label=printable(label(name))) for name, look in looks.items()],
    )
    figure.axes[0].set_ylim(bottom=0)  # for all panels; only now, because it fixes the upper limit too
    return figure


def noise_figure(results: StripingResults) -> Figure:
    """Draw a row of panels for each history: throughput, worst run, first run near the best, and share of such runs."""
    rows, last = results.noise, results.noise_runs
    looks = looks_of(distinct_values(rows, "policy"), "stripe")
    measures = {
        "throughput (% of best)": (100 * rows["total"], 104),
        "worst regression (%)\nmean, and thin: largest": (100 * (1 - rows["worst"]), None),
        "first run near best": (first_near(rows, last), 1.08 * last),
        "later runs near best (%)": (100 * rows["settled"], 104),
    }

    def draw(axes: Axes, history: str, measure: str) -> None:
        values, top = measures[measure]
        levels = np.unique(rows["noise"])
        for name, look in looks.items():
            mine = (rows["history"] == history) & (rows["policy"] == name)
            samples = [values[mine & (rows["noise"] == level)] for level in levels]
            axes.plot(100 * levels, [v.mean() for v in samples], **look.style())
            if top is None:
                thin = look.style() | {"linewidth": 0.7, "marker": "none", "alpha": 0.7}
                axes.plot(100 * levels, [np.percentile(v, 99) for v in samples], **thin)
        axes.margins(x=0.12)
        label = f"{_HISTORY[history]}\n{measure}" if measure.startswith("throughput") else measure
        axes.set(xticks=100 * levels, ylim=(0, top), ylabel=label)

    cells = product([h for h in _HISTORY if (rows["history"] == h).any()], measures)
    legend = [key(name, look) for name, look in looks.items()]
    return draw_panels(cells, draw, xlabel="variation of equal runs (%)", columns=4, height=1.9, legend=legend)


def label(policy: str) -> str:
    """
    >>> label("dca-io:interference=false")
    'dca-io without Procedure 3'
    """
    return "dca-io without Procedure 3" if policy == APART else policy
