"""Figures 4 and 5 of Bez et al. 2019, all tuners side by side, and what rewards teach when demand changes."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from forebay.show.figures.boxes import boxes
from forebay.show.figures.looks import INK, Look, key, looks_of
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.phrases import join_names
from forebay.show.rows import Floats, Rows, distinct, select
from forebay.simulate.requests.learning import BIN
from forebay.studies.request_windows.demand import SHARES, STAYS, THINKS
from forebay.studies.request_windows.figures.looks import INSTANCE, REWARDS, TUNERS, looks_of_ways
from forebay.studies.request_windows.results import BURSTS, STEADY, THINKING, RequestWindowsResults
from forebay.studies.request_windows.view import (
    FOREBAY,
    GREEDY,
    TENTH,
    Way,
    describe_experiment,
    last_values,
    learned_alone,
    learned_together,
    over_steps,
    steps,
    tuner_label,
    ways,
)

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
