"""Fig. 4 and 5 of Bez et al. 2019, and all tuners side by side."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from forebay.show.figures.boxes import boxes
from forebay.show.figures.looks import Look, key, looks_of
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.simulate.requests.learning import BIN
from forebay.studies.request_windows.figures.looks import INSTANCE, TUNERS, looks_of_ways
from forebay.studies.request_windows.results import RequestWindowsResults
from forebay.studies.request_windows.view import (
    FOREBAY,
    GREEDY,
    TENTH,
    Floats,
    Rows,
    Way,
    alone,
    called,
    instances,
    last,
    of_experiment,
    over_steps,
    steps,
    together,
    told,
    ways,
)

_PRECISION, _SHARE = "best window taken (%)", "share of the best (%)"


def precision(results: RequestWindowsResults) -> Sketch | None:
    """Fig. 4: an instance a column, how often the best window is taken above, what that is worth below."""
    letters = instances(results)
    names = [way.tuner for way in ways(results) if not way.similar and way.tuner.partition(":")[0] == GREEDY]
    if not letters or not names:
        return None
    looks = looks_of(names, TUNERS)
    figure, grid = panels(2 * len(letters), columns=len(letters), height=1.9)
    for place, (letter, number) in enumerate(letters.items()):
        above, below = grid[place], grid[place + len(letters)]
        for name, look in looks.items():
            own = of_experiment(alone(results, Way(name)), number)
            _line(above, own, "precision", look)
            _line(below, own, "share", look)
        above.set_title(f"({letter})", loc="left")
        above.set_ylim(0, 102)
        below.set_ylim(min(below.get_ylim()[0], 95), 100.5)
    _outer(grid, len(letters))
    legend_above(figure, [key(called(name), look) for name, look in looks.items()], columns=5)
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
    letters = instances(results)
    names = [name for name in (TENTH, FOREBAY) if together(results, name).size]
    if not letters or not names:
        return None
    figure, grid = panels(2 * len(names), columns=2, height=1.9)
    for row, name in enumerate(names):
        left, right = grid[2 * row : 2 * row + 2]
        for letter, number in letters.items():
            own = of_experiment(together(results, name), number)
            _line(left, own, "precision", INSTANCE[letter])
            _line(right, own, "share", INSTANCE[letter])
        left.set_ylim(0, 102)
        left.set_ylabel(_PRECISION)
        right.set_ylabel(_SHARE)
        for axes in (left, right):
            axes.set_title(called(name), loc="left")
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
    found = {way: alone(results, way) for way in ways(results)}
    if not found:
        return None
    looks = looks_of_ways(found)
    figure, (regret, share, hits, spread) = panels(4, columns=2, height=2.3)
    for way, rows in found.items():
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
    _losses(spread, {way: last(rows, "regret") for way, rows in found.items()}, looks)
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
    return " ".join(f"({letter}) {told(results.experiments[number])}." for letter, number in letters.items())
