"""The figures: those of Bez et al. 2019 by their numbers, and more."""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from forebay.model.arrays import Floats
from forebay.model.units import format_binary, plural
from forebay.show.figures.looks import INK, LOOKS, Look, boxes, key, looks_of
from forebay.show.figures.sheet import WIDTH, Sketch, Style, blank_sheet, draw_panels, legend_above, panels, sketch_each
from forebay.show.phrases import join_names
from forebay.show.rows import Rows, distinct_values, select
from forebay.simulate.requests.learning import BIN
from forebay.studies.request_windows import results as study
from forebay.studies.request_windows.demand import SHARES, STAYS, THINKS
from forebay.studies.request_windows.detection import confusion
from forebay.studies.request_windows.results import RequestWindowsResults, Way, percent
from forebay.studies.request_windows.tables import detectors, format_accuracy

_REWARD_LABELS = {"bandwidth": "reward: bandwidth", "demand": "reward: bandwidth over demand"}
_SETS = {study.SEEN: "the study's situations", study.UNSEEN: "other sizes"}
_CLASSES = ("FPP", "SC", "SS")
_ROW, _ABOVE = 0.135, 0.36  # inches: height of a situation, and space above each panel
_WIDTHS = (2.0, 0.9, 0.6)  # of the lines of the last, the last but one and earlier tuners
_HORIZON = (*(f"{study.GREEDY}:epsilon={e:g}" for e in (0.05, 0.1, 0.15)), "epsilon-decreasing", study.FOREBAY)
_OVER_FIFO, _PRECISION, _SHARE = "bandwidth over fifo (%)", "best window taken (%)", "share of the best (%)"


def figures_of(results: RequestWindowsResults) -> Iterator[Sketch]:
    letters = results.instances()
    values = {
        "situations": len(results.experiments),
        "windows": len(results.windows),
        "repetitions": plural(int(results.periods["repetition"].max(initial=0)) + 1, "repetition"),
        "limit": _limit(100 * results.gains()),
        "replays": results.settings.get("replays", "all"),
        "demand_replays": results.settings.get("demand replays", "all"),
        "bin": BIN,
        "steps": results.steps,
        "hits": f"{100 * study.PAPER_PRECISION:.0f} %",
        "letters": len(letters),
        "instances": " ".join(f"({k}) {results.describe_experiment(n)}." for k, n in letters.items()),
        "shares": join_names([f"{100 * share:g} %" for share in SHARES]),
        "thinks": join_names([f"{1e3 * think:g}" for think in THINKS]),
        "stays": STAYS,
    }
    draws = (heat, spread, confusions, precision, horizon, concurrent, tuners, demand, schedulers)
    return sketch_each(__file__, draws, results, **values)


def heat(results: RequestWindowsResults) -> Figure:
    """A panel for each pattern, operation and size of requests; a line for each number of nodes and processes."""
    gains = 100 * results.gains()
    kinds = list(dict.fromkeys((e.workload.operation, e.workload.request) for e in results.experiments))
    patterns = results.values_of("pattern")
    places = sorted({(e.nodes, e.workload.processes) for e in results.experiments})
    limit = _limit(gains)

    def draw(axes: Axes, kind: tuple[str, int], pattern: str) -> None:
        table = np.full((len(places), gains.shape[1]), np.nan)
        for e in results.find_experiments(pattern=pattern, operation=kind[0], request=kind[1]):
            experiment = results.experiments[e]
            table[places.index((experiment.nodes, experiment.workload.processes))] = gains[e]
        # Most colour-blind readers can tell red from blue, and the number has the sign too.
        axes.imshow(table, cmap="RdBu", norm=Normalize(-limit, limit), aspect="auto", interpolation="none")
        for (y, x), value in np.ndenumerate(table):
            if np.isfinite(value):
                how: Style = {"ha": "center", "va": "center", "fontsize": 5.4}
                how["color"] = "white" if abs(value) > 0.68 * limit else "black"
                how["weight"] = "bold" if value == np.nanmax(table[y]) else "normal"
                axes.text(x, y, percent(value / 100).removesuffix(" %").replace("-", "\N{MINUS SIGN}"), **how)
        _hide_frame(axes)
        axes.tick_params(pad=2)
        axes.set_title(f"{study.SHORT[pattern]}, {kind[0]}, {format_binary(kind[1])}", fontsize=7.5, pad=3)
        lines = [f"{nodes},{processes:>4}" if pattern == patterns[0] else "" for nodes, processes in places]
        axes.set_yticks(range(len(places)), lines, fontsize=5.8, family="DejaVu Sans Mono")
        names = [study.milliseconds(w) if kind == kinds[-1] else "" for w in results.windows]
        axes.set_xticks(range(len(names)), names, fontsize=6)
        if kind == kinds[-1]:
            axes.set_xlabel("window (ms)", fontsize=7, labelpad=2)
        for y, (above, this) in enumerate(pairwise(places)):
            if above[0] != this[0]:
                axes.axhline(y + 0.5, color="white", linewidth=1.6)

    height = len(places) * _ROW + _ABOVE + 0.4 / len(kinds)
    figure = draw_panels(product(kinds, patterns), draw, columns=len(patterns), height=height)
    grid = figure.axes
    bar = figure.colorbar(grid[-1].images[0], ax=grid, location="bottom", shrink=0.5, aspect=45, pad=0.01)
    bar.set_label(_OVER_FIFO)
    bar.outline.set_visible(False)
    figure.supylabel("I/O nodes, processes", fontsize=8)
    return figure


def _limit(gains: Floats) -> float:
    """Return the limit of the colours in percent, the same in both directions; the few largest do not stretch it."""
    return float(max(10.0 * np.ceil(np.nanpercentile(np.abs(gains), 95) / 10), 10.0))


def _hide_frame(axes: Axes) -> None:
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def spread(results: RequestWindowsResults) -> Figure:
    """A panel for each operation and pattern, a box for each window."""
    gains = 100 * results.gains()
    names = [study.milliseconds(w) for w in results.windows]

    def draw(axes: Axes, chosen: Any, pattern: str) -> None:
        looks = dict.fromkeys(names, LOOKS["patterns"][pattern])
        boxes(axes, {name: gains[chosen, k] for k, name in enumerate(names)}, looks)
        axes.set_xticks(range(len(names)), names, fontsize=6.5)

    return _draw_kinds(results, draw, height=1.9, xlabel="window (ms)")


def schedulers(results: RequestWindowsResults) -> Figure:
    """A panel for each operation and pattern, a box for each scheduler but fifo."""
    over = {name: 100 * (ratio - 1) for name, ratio in results.schedulers().items() if name != study.FIFO}
    names = sorted(over, key=lambda name: (name != study.TWINS, -float(np.median(over[name]))))
    looks = looks_of(names, "schedulers")

    def draw(axes: Axes, chosen: Any, _pattern: str) -> None:
        boxes(axes, {name: over[name][chosen] for name in names}, looks)

    legend = [key(f"{name} (best window)" if name == study.TWINS else name, looks[name], line=False) for name in names]
    return _draw_kinds(results, draw, height=1.8, legend=legend)


def _draw_kinds(results: RequestWindowsResults, draw: Any, **layout: Any) -> Figure:
    """Draw a panel for each operation and pattern with `draw(axes, experiments, pattern)`."""

    def draw_kind(axes: Axes, operation: str, pattern: str) -> None:
        chosen = results.find_experiments(operation=operation, pattern=pattern)
        draw(axes, chosen, pattern)
        axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
        axes.set_title(f"{study.SHORT[pattern]}, {operation}s ({chosen.size})", loc="left")

    kinds = product(results.values_of("operation"), study.SHORT)
    some = [kind for kind in kinds if results.find_experiments(operation=kind[0], pattern=kind[1]).size]
    return draw_panels(some, draw_kind, ylabel=_OVER_FIFO, sharey="row", **layout)


def confusions(results: RequestWindowsResults) -> Figure:
    """Fig. 3: a matrix for each set of experiments and each classifier."""

    def draw(axes: Axes, of: str, by: str) -> None:
        table = confusion(results.detected, of, by)
        shares = table / np.maximum(table.sum(axis=0, keepdims=True), 1)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
        for (y, x), count in np.ndenumerate(table):
            how: Style = {"ha": "center", "va": "center", "color": "white" if shares[y, x] > 0.6 else "black"}
            axes.text(x, y - 0.12, f"{count:,}", fontsize=6.6, **how)
            axes.text(x, y + 0.2, f"{100 * shares[y, x]:.1f} %", fontsize=5.6, **how)
        places = range(len(_CLASSES))
        axes.set(xticks=places, xticklabels=_CLASSES, yticks=places, yticklabels=_CLASSES)
        axes.set_title(f"{by}, {_SETS[of]}\n{format_accuracy(table)} right", loc="left", fontsize=7.5)
        _hide_frame(axes)

    return draw_panels(detectors(results), draw, ylabel="detected", xlabel="true pattern", columns=4, height=2.15)


def precision(results: RequestWindowsResults) -> Figure:
    """Fig. 4: a column for each instance; above, how often the best window is taken, below, the share of the best."""
    letters = results.instances()
    names = [way.tuner for way in results.ways() if not way.similar and way.tuner.partition(":")[0] == study.GREEDY]
    looks = looks_of(names, "tuners")

    def draw(axes: Axes, column: str, letter: str) -> None:
        for name, look in looks.items():
            _draw_line(axes, select(results.learned_alone(Way(name)), experiment=letters[letter]), column, look)
        if column == "precision":
            axes.set_title(f"({letter})", loc="left")
            axes.set_ylim(0, 102)
        else:
            axes.set_ylim(min(axes.get_ylim()[0], 95), 100.5)
            axes.set_xlabel("steps")

    return draw_panels(
        product(("precision", "share"), letters if names else ()),
        draw,
        ylabel=(_PRECISION, _SHARE),
        columns=len(letters),
        height=1.9,
        legend=[key(study.tuner_label(name), look) for name, look in looks.items()],
        legend_columns=5,
    )


def horizon(results: RequestWindowsResults) -> Figure:
    """Draw how often the best window is taken over many more steps than in Fig. 4, a panel for each instance."""
    letters, rows = results.instances(), results.learned_longer
    looks = looks_of([name for name in distinct_values(rows, "tuner") if name in _HORIZON], "tuners")

    def draw(axes: Axes, letter: str) -> None:
        for name, look in looks.items():
            chosen = select(rows, tuner=name, experiment=letters[letter])
            _draw_line(axes, chosen, "precision", look, marks=6, linewidth=1.0)
        axes.axhline(100 * study.PAPER_PRECISION, color=INK, linewidth=0.8, linestyle="dotted")
        axes.axvline(results.steps, color=INK, linewidth=0.8, linestyle="dotted")
        axes.set(xscale="log", ylim=(0, 102))

    return draw_panels(
        [(letter,) for letter in letters if looks],
        draw,
        title=lambda letter: f"({letter})",
        ylabel=_PRECISION,
        xlabel="steps",
        columns=len(letters),
        height=2.1,
        sharey="row",
        legend=[key(study.tuner_label(name), look) for name, look in looks.items()],
        legend_columns=5,
    )


def concurrent(results: RequestWindowsResults) -> Figure:
    """Fig. 5: instances that take turns, under epsilon 0.1 and under forebay."""
    letters = results.instances()
    names = [name for name in (study.TENTH, study.FOREBAY) if letters and results.learned_together(name).size]

    def draw(axes: Axes, name: str, column: str) -> None:
        learned = results.learned_together(name)
        for letter, number in letters.items():
            _draw_line(axes, select(learned, experiment=number), column, LOOKS["instances"][letter])
        if column == "precision":
            axes.set_ylim(0, 102)
        axes.set_ylabel(_PRECISION if column == "precision" else _SHARE)

    legend = [key(f"({letter})", LOOKS["instances"][letter]) for letter in letters]
    figure = draw_panels(
        product(names, ("precision", "share")),
        draw,
        title=lambda name, _: study.tuner_label(name),
        xlabel="steps of all instances together",
        columns=2,
        height=1.9,
        legend=legend,
    )
    floor = min((axes.get_ylim()[0] for axes in figure.axes[1::2]), default=95)
    for axes in figure.axes[1::2]:
        axes.set_ylim(min(floor, 95), 100.5)
    return figure


def tuners(results: RequestWindowsResults) -> Figure:
    """Draw all tuners over all situations: loss so far, share of the best, precision, and the spread of losses."""
    learned = {way: results.learned_alone(way) for way in results.ways()}
    if not learned:
        return blank_sheet(WIDTH, 1)
    plain = looks_of(dict.fromkeys(way.tuner for way in learned), "tuners")
    looks = {way: LOOKS["ways"]["after-similar"] if way.similar else plain[way.tuner] for way in learned}
    figure, (regret, share, hits, spread) = panels(4, columns=2, height=2.3)
    for way, rows in learned.items():
        _draw_line(regret, rows, "regret", looks[way], factor=1)
        _draw_line(share, rows, "share", looks[way])
        _draw_line(hits, rows, "precision", looks[way])
    losses = {way.label: study.last_values(rows, "regret") for way, rows in learned.items()}
    boxes(spread, losses, {way.label: look for way, look in looks.items()})
    regret.set(xlabel="steps", ylabel="lost so far (steps)", ylim=(0, None))
    share.set(xlabel="steps", ylabel=_SHARE, ylim=(None, 100.3))
    hits.set(xlabel="steps", ylabel=_PRECISION, ylim=(0, 102))
    spread.set(ylabel=f"lost after {results.steps} steps", ylim=(0, None))
    legend_above(figure, [key(way.label, look) for way, look in looks.items()])
    return figure


def _draw_line(
    axes: Axes, rows: Rows, column: str, look: Look, *, factor: float = 100, marks: int = 10, **how: Any
) -> None:
    """Draw the mean of a column over the steps, by default in percent."""
    at, values = study.over_steps(rows, column)
    axes.plot(at, factor * values, markevery=max(1, at.size // marks), **look.style() | how)


def demand(results: RequestWindowsResults) -> Figure:
    """A column for each instance; a row for each kind of demand, a colour for each reward."""
    rows = results.demanded
    letters = {k: n for k, n in results.instances().items() if (rows["experiment"] == n).any()}
    names = distinct_values(rows, "tuner")
    widths = {name: _WIDTHS[min(place, len(_WIDTHS) - 1)] for place, name in enumerate(names[::-1])}
    looks = looks_of(distinct_values(rows, "reward"), "rewards")

    def draw(axes: Axes, kind: str, letter: str) -> None:
        for (tuner, width), (reward, look) in product(widths.items(), looks.items()):
            chosen = select(rows, demand=kind, experiment=letters[letter], tuner=tuner, reward=reward)
            _draw_line(axes, chosen, "share", look, marks=8, linewidth=width)

    figure = draw_panels(
        product([kind for kind in study.DEMANDS if (rows["demand"] == kind).any()], letters),
        draw,
        title=lambda kind, letter: f"({letter}) {kind}",
        ylabel=_SHARE,
        xlabel="steps",
        columns=len(letters),
        height=1.7,
        sharey="row",
        legend=[
            *(key(_REWARD_LABELS.get(name, name), look) for name, look in looks.items()),
            *(Line2D([], [], color=INK, linewidth=w, label=study.tuner_label(name)) for name, w in widths.items()),
        ],
    )
    for axes in figure.axes[:: max(len(letters), 1)]:
        axes.set_ylim(top=100.5)
    return figure
