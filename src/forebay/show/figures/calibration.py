"""The figure of a calibration: predicted against measured seconds, reads and writes apart."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from forebay.profile.calibration.check import Check
from forebay.profile.calibration.prediction import OPERATIONS, is_usable, predict_seconds
from forebay.show.figures.looks import FAINT, INK
from forebay.show.figures.sheet import house_style, panels, write

_COLOURS = ("#009E73", "#0072B2")


def draw_calibration(check: Check, out: Path) -> Path:
    """Draw the runs that the fit used and those that checked it."""
    with house_style():
        figure, axes = panels(2, columns=2, height=3.4)
        for side, panel in enumerate(axes):
            _draw_side(panel, check, side)
        return write(figure, out)


def _draw_side(axes: Axes, check: Check, side: int) -> None:
    ends: list[float] = []
    for runs, colour, label in ((check.earlier, FAINT, "fitted"), (check.later, _COLOURS[side], "checked")):
        chosen = runs[is_usable(runs, side)]
        measured, predicted = chosen["seconds"][:, side], predict_seconds(chosen, side, check.parameters)
        axes.scatter(measured, predicted, s=16, color=colour, alpha=0.8, zorder=3, label=f"{label} ({chosen.size:,})")
        ends += [*measured.tolist(), *predicted.tolist()]
    score = check.scores[side]
    off = "too few to check" if score is None else f"off by a factor of {score.median:.2f} (median)"
    if ends:
        line = np.array([min(ends) / 2, max(ends) * 2])
        axes.plot(line, line, color=INK, linewidth=0.8, zorder=2)
        for factor, label in ((0.5, "off by a factor of 2"), (2.0, "_")):
            axes.plot(line, factor * line, color=INK, linewidth=0.6, linestyle=(0, (3, 2)), zorder=2, label=label)
        axes.set(xscale="log", yscale="log", xlim=line, ylim=line)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(numticks=8))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.legend(loc="upper left", fontsize=7)
    axes.set(title=f"{OPERATIONS[side]}: {off}", xlabel="measured seconds, all processes", ylabel="predicted seconds")
