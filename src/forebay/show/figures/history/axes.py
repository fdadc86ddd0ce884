"""An axis of bandwidths, as several of the history's pictures have one."""

from __future__ import annotations

from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from forebay.model.units import format_bandwidth
from forebay.show.history.tables import short

LEAST_RATIO = 8.0
"""From end to end: there are always two of 1, 2, 5, 10, ... in it."""


def bandwidths(axes: Axes, which: Literal["x", "y"], values: Any, most_ticks: int = 12) -> None:
    """Make it logarithmic, from a bit under the lowest of the values to a bit over the highest, in bytes per second."""
    low, high = limits(float(values.min()), float(values.max()))
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis.set_major_locator(LogLocator(subs=(1,) if high > 50 * low else (1, 2, 5), numticks=most_ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(format_bandwidth(value))))
    axis.set_minor_formatter(NullFormatter())


def limits(low: float, high: float) -> tuple[float, float]:
    """
    >>> limits(10.0, 10.0)[1] / limits(10.0, 10.0)[0]
    8.000000000000002
    """
    ratio = high / low
    margin = max(ratio**0.1, (LEAST_RATIO / ratio) ** 0.5)
    return low / margin, high * margin
