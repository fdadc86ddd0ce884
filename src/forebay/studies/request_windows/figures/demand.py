"""What rewards teach when demand changes, which is not the window's doing."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from forebay.show.figures.looks import INK, Look, key, looks_of
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.phrases import join_names
from forebay.studies.request_windows.demand import SHARES, STAYS, THINKS
from forebay.studies.request_windows.figures.looks import REWARDS
from forebay.studies.request_windows.results import BURSTS, STEADY, THINKING, RequestWindowsResults
from forebay.studies.request_windows.view import Rows, called, instances, of_experiment, over_steps

_WORDS = {"bandwidth": "reward: bandwidth", "demand": "reward: bandwidth over demand"}
_DEMAND = {STEADY: "steady", BURSTS: "bursts", THINKING: "thinking"}
_WIDTHS = (2.0, 0.9, 0.6)  # of the lines of the last, the last but one and earlier tuners


def demand(results: RequestWindowsResults) -> Sketch | None:
    """A column for each instance; a row for each kind of demand, a colour for each reward."""
    rows = results.demanded
    letters = {k: n for k, n in instances(results).items() if (rows["experiment"] == n).any()}
    if not letters:
        return None
    tuners = list(dict.fromkeys(rows["tuner"].tolist()))
    looks = looks_of(list(dict.fromkeys(rows["reward"].tolist())), REWARDS)
    kinds = [kind for kind in _DEMAND if (rows["demand"] == kind).any()]
    figure, grid = panels(len(kinds) * len(letters), columns=len(letters), height=1.7, sharey="row")
    for row, kind in enumerate(kinds):
        for axes, (letter, number) in zip(grid[row * len(letters) :], letters.items(), strict=False):
            own = of_experiment(rows[rows["demand"] == kind], number)
            _lines(axes, own, tuners, looks)
            axes.set_title(f"({letter}) {_DEMAND[kind]}", loc="left")
        grid[row * len(letters)].set_ylabel("share of the best (%)")
        grid[row * len(letters)].set_ylim(top=100.5)
    figure.supxlabel("steps", fontsize=8)
    entries = [key(_WORDS.get(name, name), look) for name, look in looks.items()]
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


def _lines(axes: Axes, rows: Rows, tuners: list[str], looks: dict[str, Look]) -> None:
    for tuner, width in zip(tuners[::-1], _widths(tuners), strict=True):
        for reward, look in looks.items():
            own = rows[(rows["tuner"] == tuner) & (rows["reward"] == reward)]
            at, values = over_steps(own, "share")
            style = look.style() | {"linewidth": width}
            axes.plot(at, 100 * values, markevery=max(1, at.size // 8), **style)


def _widths(tuners: list[str]) -> list[float]:
    return [_WIDTHS[min(place, len(_WIDTHS) - 1)] for place in range(len(tuners))]


def _tuner(name: str, width: float) -> Line2D:
    return Line2D([], [], color=INK, linewidth=width, label=called(name))
