"""Axes of figures: slowdowns from 1 up, bandwidths, dates, and scales that no single policy dominates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from forebay.model.units import format_bandwidth
from forebay.show.figures.looks import INK, Band, Look, draw_band
from forebay.show.figures.sheet import printable
from forebay.show.phrases import shorten

# A policy whose mean is this many times the median policy's would squeeze the others into one line.
_TOO_FAR = 5.0
_LEAST_RATIO = 8.0  # of the ends of an axis, so that it holds at least two of 1, 2, 5, 10, ...

Bands = Mapping[str, Band]


def plot_by_load(
    axes: Axes, bands: Bands, looks: Mapping[str, Look], *, title: str = "", without: Iterable[str] = (), **how: bool
) -> None:
    """Draw a line for each policy except those in `without`, whose values are written under the title."""
    drawn = {name: band for name, band in bands.items() if name not in without}
    single = len({x for band in drawn.values() for x in band.x.tolist()}) == 1
    steps = np.linspace(-0.5, 0.5, len(drawn) + 2)[1:-1]
    for step, (name, band) in zip(steps, drawn.items(), strict=True):
        # Points of the same load are drawn side by side.
        draw_band(axes, replace(band, x=band.x + 0.1 * step) if single else band, looks[name], **how)
    ranges = {name: [f"{end:.3g}" for end in (b.middle.min(), b.middle.max())] for name, b in bands.items()}
    above = [f"{printable(n)} ({' to '.join(dict.fromkeys(ranges[n]))})" for n in without if n in bands]
    if above:
        axes.text(0, 1.02, "above the scale: " + ", ".join(above), transform=axes.transAxes, fontsize=6.5, color=INK)
    axes.set_title(title, loc="left", pad=14 if above else 6)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    if single:
        x = next(iter(drawn.values())).x
        axes.set_xticks(x, [f"{x[0]:.3g}"])
        axes.margins(x=0.3)


def off_scale(several: Sequence[Bands]) -> list[str]:
    """Return the policies that are too far above the others to share a scale with them."""
    names = dict.fromkeys(name for bands in several for name in bands)
    means = {name: np.mean([b[name].middle.mean() for b in several if name in b]) for name in names}
    limit = _TOO_FAR * float(np.median(list(means.values()))) if means else 0.0
    return [name for name, mean in means.items() if mean > limit]


def top_of(several: Sequence[Bands], without: Iterable[str]) -> float:
    """Return the highest value to draw."""
    return max(
        (float(b.high.max()) for bands in several for name, b in bands.items() if name not in without), default=1
    )


def slowdown_axis(axes: Axes, top: float) -> None:
    """Make the y axis logarithmic, from 1, the least possible slowdown, to a little above `top`."""
    top = max(top * 1.06, 2.0)
    steps = (1, 2, 5) if top > 8 else (1, 1.5, 2, 3, 4, 5, 6, 7)
    log_axis(axes, LogLocator(subs=steps, numticks=30) if top < 1e4 else LogLocator())
    axes.set_ylim(1.0, top)


def log_axis(axes: Axes, ticks: LogLocator | None = None) -> None:
    """Make the y axis logarithmic, with plain numbers at `ticks`, or else at 1, 2, 5, 10 and so on.

    If what is drawn spans less than a factor of ten, there are numbers between these.
    """
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(ticks or LogLocator(subs=(1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def idle_axis(axes: Axes, bands: Bands) -> None:
    """Make the y axis one of percentages that starts a little below the lowest value, so that differences show."""
    low = min((float(band.low.min()) for band in bands.values()), default=0.0)
    high = top_of([bands], ())
    margin = 0.05 * (high - low) or 1.0
    axes.set_ylim(max(0.0, low - margin), high + margin)
    axes.set_ylabel("machine idle time (% of node time)")


def whole_numbers(axes: Axes, counts: Sequence[int]) -> None:
    """Put ticks at the measured numbers of targets, or at some whole numbers if there are many."""
    if len(counts) <= 8:
        axes.set_xticks(list(counts))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def bandwidth_axis(axes: Axes, which: Literal["x", "y"], values: Any, most_ticks: int = 12) -> None:
    """Make an axis logarithmic, in bytes per second, from a little below the least value to a little above the most."""
    low, high = log_limits(float(values.min()), float(values.max()))
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
    axis.set_major_locator(LogLocator(subs=(1,) if high > 50 * low else (1, 2, 5), numticks=most_ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: shorten(format_bandwidth(value))))
    axis.set_minor_formatter(NullFormatter())


def log_limits(low: float, high: float) -> tuple[float, float]:
    """
    >>> log_limits(10.0, 10.0)[1] / log_limits(10.0, 10.0)[0]
    8.000000000000002
    """
    ratio = high / low
    margin = max(ratio**0.1, (_LEAST_RATIO / ratio) ** 0.5)
    return low / margin, high * margin


def date_axis(axes: Axes, fewest: int, most: int) -> None:
    """Show x, in days since 1970, as dates with `fewest` to `most` ticks."""
    locator = AutoDateLocator(minticks=fewest, maxticks=most)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def name_groups(axes: Axes, names: Sequence[str]) -> None:
    """Write slanted names under groups at 0, 1, 2 and so on."""
    shown = [printable(name, 24) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=35, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)
