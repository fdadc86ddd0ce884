"""How tuners, schedulers, patterns and rewards look on figures of the study of request windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from forebay.show.figures.looks import INK, Look, boxes, key, looks_of
from forebay.show.figures.sheet import WIDTH, Sketch, legend_above, panels
from forebay.show.phrases import format_binary, join_names
from forebay.show.rows import Floats, Rows, distinct, select
from forebay.simulate.requests.learning import BIN
from forebay.studies.request_windows.demand import SHARES, STAYS, THINKS
from forebay.studies.request_windows.detection import CLASSIFIERS, confusion
from forebay.studies.request_windows.results import (
    BURSTS,
    FIFO,
    FOREBAY,
    GREEDY,
    SEEN,
    SHORT,
    STEADY,
    TENTH,
    THINKING,
    TWINS,
    UNSEEN,
    RequestWindowsResults,
    Way,
    describe_experiment,
    find_experiments,
    last_values,
    learned_alone,
    learned_together,
    milliseconds,
    over_steps,
    percent,
    steps,
    tuner_label,
    values_of,
    ways,
)
from forebay.studies.request_windows.tables import format_accuracy

# From light to dark: the more is explored, the darker.
EPSILONS: Mapping[str, Look] = {
    f"{GREEDY}:epsilon=0.05": Look("#F0C987", "s", (0, (5, 1.5)), 1.2),
    f"{GREEDY}:epsilon=0.1": Look("#E69F00", "^", "-", 1.7, 4),
    f"{GREEDY}:epsilon=0.15": Look("#D55E00", "D", (0, (3, 1)), 1.2),
    f"{GREEDY}:epsilon=0.2": Look("#A33B20", "v", (0, (6, 1.5, 1, 1.5)), 1.2),
    f"{GREEDY}:epsilon=0.3": Look("#5C1A0B", "P", (0, (3, 1, 1, 1, 1, 1)), 1.2),
}
TUNERS: Mapping[str, Look] = {
    **EPSILONS,
    GREEDY: Look("#E69F00", "^", "-", 1.7, 4),
    "epsilon-decreasing": Look("#CC79A7", "X", (0, (2, 1))),
    "ucb": Look("#009E73", "<", (0, (8, 2))),
    "thompson": Look("#56B4E9", ">", (0, (4, 1, 1, 1))),
    "fixed": Look("#7F7F7F", "x", (0, (1, 1.2))),
    FOREBAY: Look("#000000", "o", "-", 2.2, 6),
}
_AFTER = Look("#0072B2", "d", (0, (2, 2)), 1.4, 7)
SCHEDULERS: Mapping[str, Look] = {
    "twins": Look("#000000", "o", "-", 1.8, 5),
    "twins-work-conserving": Look("#0072B2", "^"),
    "hbrr": Look("#E69F00", "s"),
    "to-agg": Look("#D55E00", "D"),
    "mlf": Look("#009E73", "v"),
    "sjf": Look("#CC79A7", "P"),
    "wfq": Look("#56B4E9", "X"),
}
PATTERNS: Mapping[str, Look] = {
    "file-per-process": Look("#0072B2", "o"),
    "shared-contiguous": Look("#D55E00", "s"),
    "shared-strided": Look("#009E73", "^"),
}
INSTANCE: Mapping[str, Look] = {
    "A": Look("#009E73", "^"),
    "B": Look("#D55E00", "s", (0, (5, 1.5))),
    "C": Look("#0072B2", "o", (0, (3, 1, 1, 1))),
}
REWARDS: Mapping[str, Look] = {
    "bandwidth": Look("#D55E00", "s", (0, (4, 1.2)), 1.5, 5),
    "demand": Look("#0072B2", "o", "-", 1.8, 4),
}


def looks_of_ways(ways: Iterable[Way]) -> dict[Way, Look]:
    """A look for each; those that heard of similar situations look alike, and there is one as a rule."""
    ways = list(ways)
    plain = looks_of(dict.fromkeys(way.tuner for way in ways), TUNERS)
    return {way: _AFTER if way.similar else plain[way.tuner] for way in ways}


_ROW, _ABOVE = 0.135, 0.36  # inches: of a situation, and over each panel
# Red and blue are told apart by nearly everybody; the sign is in the number too.
_COLOURS = "RdBu"
_WHISKERS = "Boxes hold the middle half, whiskers reach from the 10th to the 90th percentile; a line marks the median, "
_WHISKERS += "a marker the mean."


def heat(results: RequestWindowsResults) -> Sketch:
    """A panel for each pattern, operation and size of requests; a line for each number of nodes and processes."""
    gains = 100 * results.gains()
    kinds = list(dict.fromkeys((e.workload.operation, e.workload.request) for e in results.experiments))
    patterns = values_of(results, "pattern")
    places = sorted({(e.nodes, e.workload.processes) for e in results.experiments})
    height = len(kinds) * (len(places) * _ROW + _ABOVE) + 0.55
    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(kinds), len(patterns), squeeze=False)
    norm = _norm(gains)
    for (down, (operation, request)), (across, pattern) in product(enumerate(kinds), enumerate(patterns)):
        axes = grid[down, across]
        chosen = find_experiments(results, pattern=pattern, operation=operation, request=request)
        table = np.full((len(places), gains.shape[1]), np.nan)
        for e in chosen:
            experiment = results.experiments[e]
            table[places.index((experiment.nodes, experiment.workload.processes))] = gains[e]
        _cells(axes, table, norm)
        axes.set_title(f"{SHORT[pattern]}, {operation}, {format_binary(request)}", loc="left", fontsize=7.5, pad=3)
        _labels(axes, results, places, left=across == 0, below=down == len(kinds) - 1)
    bar = figure.colorbar(axes.images[0], ax=grid.ravel().tolist(), location="bottom", shrink=0.5, aspect=45, pad=0.01)
    bar.set_label("bandwidth over fifo (%)")
    bar.outline.set_visible(False)
    figure.supylabel("I/O nodes, processes", fontsize=8)
    return Sketch(
        name="figure-windows",
        title="What each window wins or loses over fifo, in every situation",
        caption=f"Bandwidth of the whole run over that of fifo, in percent, of {gains.shape[0]} situations (lines: "
        f"I/O nodes, then processes) and {gains.shape[1]} windows (columns); blue wins, red loses, and the best window "
        f"of each situation is bold. Means of {_repetitions(results)}. Colours end at ±{norm.vmax:.0f} %, numbers "
        "don't. The server model is fitted to the paper's figures, so that this is no validation of them.",
        figure=figure,
    )


def spread(results: RequestWindowsResults) -> Sketch:
    """A panel for each operation and pattern, a box for each window."""
    gains = 100 * results.gains()
    kinds = [(operation, pattern) for operation in values_of(results, "operation") for pattern in SHORT]
    kinds = [kind for kind in kinds if find_experiments(results, operation=kind[0], pattern=kind[1]).size]
    figure, grid = panels(len(kinds), columns=3, height=1.9, sharey="row")
    for axes, (operation, pattern) in zip(grid, kinds, strict=True):
        gained = gains[find_experiments(results, operation=operation, pattern=pattern)]
        named = {milliseconds(w): gained[:, k] for k, w in enumerate(results.windows)}
        boxes(axes, named, dict.fromkeys(named, PATTERNS[pattern]))
        axes.set_xticks(range(len(named)), list(named), fontsize=6.5)
        axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
        axes.set_title(f"{SHORT[pattern]}, {operation}s ({len(gained)})", loc="left")
    for axes in grid[::3]:
        axes.set_ylabel("bandwidth over fifo (%)")
    figure.supxlabel("window (ms)", fontsize=8)
    return Sketch(
        name="figure-windows-spread",
        title="The same as distributions over situations, for each pattern and operation",
        caption=f"Bandwidth over that of fifo; in brackets, how many situations there are. {_WHISKERS}",
        figure=figure,
    )


def schedulers(results: RequestWindowsResults) -> Sketch:
    """A panel for each operation and pattern, a box for each scheduler but fifo."""
    over = {name: 100 * (ratio - 1) for name, ratio in results.schedulers().items() if name != FIFO}
    names = sorted(over, key=lambda name: (name != TWINS, -float(np.median(over[name]))))
    looks = looks_of(names, SCHEDULERS)
    kinds = [(operation, pattern) for operation in values_of(results, "operation") for pattern in SHORT]
    kinds = [kind for kind in kinds if find_experiments(results, operation=kind[0], pattern=kind[1]).size]
    figure, grid = panels(len(kinds), columns=3, height=1.8, sharey="row")
    for axes, (operation, pattern) in zip(grid, kinds, strict=True):
        chosen = find_experiments(results, operation=operation, pattern=pattern)
        boxes(axes, {name: over[name][chosen] for name in names}, looks)
        axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
        axes.set_title(f"{SHORT[pattern]}, {operation}s ({chosen.size})", loc="left")
    for axes in grid[::3]:
        axes.set_ylabel("bandwidth over fifo (%)")
    entries = [key(f"{name} (best window)" if name == TWINS else name, looks[name], line=False) for name in names]
    legend_above(figure, entries)
    return Sketch(
        name="figure-schedulers",
        title="All schedulers over fifo",
        caption="Bandwidth over that of fifo, in all situations of each pattern and operation (how many, in "
        "brackets). twins has the best of its windows in each situation, as if it was known; the others have their "
        "own settings, and run once. One program with requests of one size leaves some nothing to choose from. "
        f"{_WHISKERS}",
        figure=figure,
    )


def _norm(gains: Floats) -> Normalize:
    """The same both ways, and not stretched by the few largest."""
    limit = max(10.0 * np.ceil(np.nanpercentile(np.abs(gains), 95) / 10), 10.0)
    return Normalize(-limit, limit)


def _cells(axes: Axes, table: Floats, norm: Normalize) -> None:
    axes.imshow(table, cmap=_COLOURS, norm=norm, aspect="auto", interpolation="none")
    for (y, x), value in np.ndenumerate(table):
        if np.isfinite(value):
            how: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 5.4}
            how["color"] = "white" if abs(value) > 0.68 * float(norm.vmax or 1) else "black"
            how["weight"] = "bold" if value == np.nanmax(table[y]) else "normal"
            axes.text(x, y, percent(value / 100).removesuffix(" %").replace("-", "\N{MINUS SIGN}"), **how)
    axes.grid(visible=False)


def _labels(
    axes: Axes, results: RequestWindowsResults, places: list[tuple[int, int]], *, left: bool, below: bool
) -> None:
    axes.tick_params(length=0, pad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    labels = [f"{nodes},{processes:>4}" for nodes, processes in places]
    axes.set_yticks(range(len(places)), labels if left else [""] * len(labels), fontsize=5.8, family="DejaVu Sans Mono")
    names = [milliseconds(w) for w in results.windows]
    axes.set_xticks(range(len(names)), names if below else [""] * len(names), fontsize=6)
    if below:
        axes.set_xlabel("window (ms)", fontsize=7, labelpad=2)
    for y, (above, this) in enumerate(pairwise(places)):
        if above[0] != this[0]:
            axes.axhline(y + 0.5, color="white", linewidth=1.6)


def _repetitions(results: RequestWindowsResults) -> str:
    count = int(results.periods["repetition"].max(initial=0)) + 1
    return f"{count} repetition{'s' * (count > 1)}"


_CLASSES = ("FPP", "SC", "SS")
_SETS = {SEEN: "the study's situations", UNSEEN: "other sizes"}


def confusions(results: RequestWindowsResults) -> Sketch | None:
    """A matrix for each set of experiments and each classifier; None if nothing was detected."""
    shown = [(of, by) for of in _SETS for by in CLASSIFIERS if confusion(results.detected, of, by).sum()]
    if not shown:
        return None
    figure, grid = panels(len(shown), columns=4, height=2.15)
    for axes, (of, by) in zip(grid, shown, strict=True):
        table = confusion(results.detected, of, by)
        _matrix(axes, table)
        axes.set_title(f"{by}, {_SETS[of]}\n{format_accuracy(table)} right", loc="left", fontsize=7.5)
    grid[0].set_ylabel("detected")
    figure.supxlabel("true pattern", fontsize=8)
    return Sketch(
        name="figure-03-confusion",
        title="Figure 3: access patterns as they were recognised, seen and unseen",
        caption="Periods at I/O nodes: a row for each detected and a column for each true pattern, coloured by the "
        "share of its column. FPP: file per process; SC: shared file, contiguous; SS: shared file, 1D strided. "
        "The study's situations have sizes of requests that the classifiers were trained with; other sizes of "
        "requests and files, and other numbers of processes, they never saw. The paper: 99.82 % right in testing "
        "(11,595 of 11,616), all on sizes seen in training.",
        figure=figure,
    )


def _matrix(axes: Axes, table: Any) -> None:
    shares = table / np.maximum(table.sum(axis=0, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    for (y, x), count in np.ndenumerate(table):
        colour = "white" if shares[y, x] > 0.6 else "black"
        axes.text(x, y - 0.12, f"{count:,}", ha="center", va="center", fontsize=6.6, color=colour)
        axes.text(x, y + 0.2, f"{100 * shares[y, x]:.1f} %", ha="center", va="center", fontsize=5.6, color=colour)
    axes.set_xticks(range(len(_CLASSES)), _CLASSES)
    axes.set_yticks(range(len(_CLASSES)), _CLASSES)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


_REWARD_LABELS = {"bandwidth": "reward: bandwidth", "demand": "reward: bandwidth over demand"}
_DEMAND = {STEADY: "steady", BURSTS: "bursts", THINKING: "thinking"}
_WIDTHS = (2.0, 0.9, 0.6)  # of the lines of the last, the last but one and earlier tuners
_PRECISION, _SHARE = "best window taken (%)", "share of the best (%)"


def precision(results: RequestWindowsResults) -> Sketch | None:
    """Fig. 4: an instance a column, how often the best window is taken above, what that is worth below."""
    letters = results.instances()
    names = [way.tuner for way in ways(results) if not way.similar and way.tuner.partition(":")[0] == GREEDY]
    if not letters or not names:
        return None
    looks = looks_of(names, TUNERS)
    figure, grid = panels(2 * len(letters), columns=len(letters), height=1.9)
    for place, (letter, number) in enumerate(letters.items()):
        above, below = grid[place], grid[place + len(letters)]
        for name, look in looks.items():
            rows = select(learned_alone(results, Way(name)), experiment=number)
            _line(above, rows, "precision", look)
            _line(below, rows, "share", look)
        above.set_title(f"({letter})", loc="left")
        above.set_ylim(0, 102)
        below.set_ylim(min(below.get_ylim()[0], 95), 100.5)
    _outer(grid, len(letters))
    legend_above(figure, [key(tuner_label(name), look) for name, look in looks.items()], columns=5)
    return Sketch(
        name="figure-04-precision",
        title="Figure 4: how often epsilon-greedy takes the best window, for several epsilon",
        caption=f"Means of {results.settings.get('replays', 'all')} repetitions in bins of {BIN} steps. "
        f"{_legend(letters, results)} "
        "Below, what the paper doesn't draw: the mean bandwidth of the windows taken as a share of the best window's. "
        "Where windows are nearly tied, the best is seldom taken and little is lost by it. Scales of the lower "
        "panels differ.",
        figure=figure,
    )


def concurrent(results: RequestWindowsResults) -> Sketch | None:
    """Fig. 5: instances that take turns, under epsilon 0.1 and under forebay."""
    letters = results.instances()
    names = [name for name in (TENTH, FOREBAY) if learned_together(results, name).size]
    if not letters or not names:
        return None
    figure, grid = panels(2 * len(names), columns=2, height=1.9)
    for row, name in enumerate(names):
        left, right = grid[2 * row : 2 * row + 2]
        for letter, number in letters.items():
            rows = select(learned_together(results, name), experiment=number)
            _line(left, rows, "precision", INSTANCE[letter])
            _line(right, rows, "share", INSTANCE[letter])
        left.set_ylim(0, 102)
        left.set_ylabel(_PRECISION)
        right.set_ylabel(_SHARE)
        for axes in (left, right):
            axes.set_title(tuner_label(name), loc="left")
    floor = min(axes.get_ylim()[0] for axes in grid[1::2])
    for axes in grid[1::2]:
        axes.set_ylim(min(floor, 95), 100.5)
    figure.supxlabel("steps of all instances together", fontsize=8)
    legend_above(figure, [key(f"({letter})", INSTANCE[letter]) for letter in letters])
    return Sketch(
        name="figure-05-concurrent",
        title="Figure 5: instances that take turns",
        caption=f"At each step one of the {len(letters)} instances is active, as chance will have it; "
        "otherwise as Figure 4. "
        "Each has its own share of the steps and nothing else to do with the others. The paper has epsilon 0.1; "
        "beneath it, the same with forebay.",
        figure=figure,
    )


def tuners(results: RequestWindowsResults) -> Sketch | None:
    """All tuners over all situations: what is lost so far, share of the best, precision, and the losses' spread."""
    learned = {way: learned_alone(results, way) for way in ways(results)}
    if not learned:
        return None
    looks = looks_of_ways(learned)
    figure, (regret, share, hits, spread) = panels(4, columns=2, height=2.3)
    for way, rows in learned.items():
        at, lost = over_steps(rows, "regret")
        regret.plot(at, lost, markevery=max(1, at.size // 10), **looks[way].style())
        _line(share, rows, "share", looks[way])
        _line(hits, rows, "precision", looks[way])
    regret.set_ylabel("lost so far (steps)")
    share.set_ylabel(_SHARE)
    hits.set_ylabel(_PRECISION)
    regret.set_ylim(bottom=0)
    share.set_ylim(top=100.3)
    hits.set_ylim(0, 102)
    for axes in (regret, share, hits):
        axes.set_xlabel("steps")
    _losses(spread, {way: last_values(rows, "regret") for way, rows in learned.items()}, looks)
    spread.set_ylabel(f"lost after {steps(results)} steps")
    legend_above(figure, [key(way.label, look) for way, look in looks.items()])
    return Sketch(
        name="figure-tuners",
        title="All tuners over all situations: what they lose, and how near the best they come",
        caption=f"Means over {len(results.experiments)} situations and {results.settings.get('replays', 'all')} "
        "repetitions of each. Lost is the bandwidth that the best window would have given and the windows taken "
        "didn't, summed up, in steps of the best window. Lower right: its distribution over situations; boxes hold "
        "the middle half, whiskers reach from the 10th to the 90th percentile, a line marks the median, a marker the "
        "mean. Whoever is “after similar situations” has met other situations of the study before, in an order that "
        "is drawn.",
        figure=figure,
    )


def _losses(axes: Axes, losses: Mapping[Way, Floats], looks: Mapping[Way, Look]) -> None:
    named = {way.label: way for way in losses}
    boxes(axes, {label: losses[way] for label, way in named.items()}, {n: looks[w] for n, w in named.items()})
    axes.set_ylim(bottom=0)


def _line(axes: Axes, rows: Rows, column: str, look: Look) -> None:
    at, values = over_steps(rows, column)
    axes.plot(at, 100 * values, markevery=max(1, at.size // 10), **look.style())


def _outer(grid: list[Axes], across: int) -> None:
    grid[0].set_ylabel(_PRECISION)
    grid[across].set_ylabel(_SHARE)
    for axes in grid[across:]:
        axes.set_xlabel("steps")


def _legend(letters: Mapping[str, int], results: RequestWindowsResults) -> str:
    return " ".join(
        f"({letter}) {describe_experiment(results.experiments[number])}." for letter, number in letters.items()
    )


def demand(results: RequestWindowsResults) -> Sketch | None:
    """A column for each instance; a row for each kind of demand, a colour for each reward."""
    rows = results.demanded
    letters = {k: n for k, n in results.instances().items() if (rows["experiment"] == n).any()}
    if not letters:
        return None
    tuners = distinct(rows, "tuner")
    looks = looks_of(distinct(rows, "reward"), REWARDS)
    kinds = [kind for kind in _DEMAND if (rows["demand"] == kind).any()]
    figure, grid = panels(len(kinds) * len(letters), columns=len(letters), height=1.7, sharey="row")
    for row, kind in enumerate(kinds):
        for axes, (letter, number) in zip(grid[row * len(letters) :], letters.items(), strict=False):
            _draw_demand(axes, select(rows, demand=kind, experiment=number), tuners, looks)
            axes.set_title(f"({letter}) {_DEMAND[kind]}", loc="left")
        grid[row * len(letters)].set_ylabel("share of the best (%)")
        grid[row * len(letters)].set_ylim(top=100.5)
    figure.supxlabel("steps", fontsize=8)
    entries = [key(_REWARD_LABELS.get(name, name), look) for name, look in looks.items()]
    entries += [_tuner(name, width) for name, width in zip(tuners[::-1], _widths(tuners), strict=True)]
    legend_above(figure, entries)
    thinks = join_names([f"{1e3 * think:g}" for think in THINKS])
    return Sketch(
        name="figure-demand",
        title="Changing demand: bandwidth as the reward, and bandwidth over demand",
        caption="Demand is always full (steady); or each period has a burst of full demand, or of "
        f"{join_names([f'{100 * share:g} %' for share in SHARES])} of what fifo would move in it (bursts); or "
        f"processes think between requests, not at all or for {thinks} ms (thinking). Another of these is drawn every "
        f"{STAYS} steps on average. Shown is what the windows taken give as a share of what the best for each demand "
        f"would. Means of {results.settings.get('demand replays', 'all')} repetitions. By bandwidth alone, a window "
        "that was in force when little was asked for looks bad. Scales differ from row to row.",
        figure=figure,
    )


def _draw_demand(axes: Axes, rows: Rows, tuners: list[str], looks: dict[str, Look]) -> None:
    for tuner, width in zip(tuners[::-1], _widths(tuners), strict=True):
        for reward, look in looks.items():
            at, values = over_steps(select(rows, tuner=tuner, reward=reward), "share")
            style = look.style() | {"linewidth": width}
            axes.plot(at, 100 * values, markevery=max(1, at.size // 8), **style)


def _widths(tuners: list[str]) -> list[float]:
    return [_WIDTHS[min(place, len(_WIDTHS) - 1)] for place in range(len(tuners))]


def _tuner(name: str, width: float) -> Line2D:
    return Line2D([], [], color=INK, linewidth=width, label=tuner_label(name))


def figures_of(results: RequestWindowsResults) -> Iterator[Sketch | None]:
    """Every figure; None stands for one that the results don't allow."""
    for draw in (heat, spread, confusions, precision, concurrent, tuners, demand, schedulers):
        yield draw(results)
