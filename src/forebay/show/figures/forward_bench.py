"""Figures of the forwarding layer's benchmark: bandwidth by scheduler, and windows over time."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from forebay.act.forward.bench.layer import Decision
from forebay.act.forward.bench.rounds import Comparison
from forebay.act.forward.council.parameters import DEFAULT_WINDOWS
from forebay.model.units import parse_duration
from forebay.show.figures.looks import Look, annotate, looks_of
from forebay.show.figures.sheet import WIDTH, house_style, panels, printable, write


def draw_ways(ways: Sequence[Comparison], dilation: float, out: Path) -> Path:
    """Write to `out`, as PNG or PDF, a panel for each operation: rounds as points, medians as lines."""
    doings = list(dict.fromkeys(way.doing for way in ways))
    names = list(dict.fromkeys(way.name for way in ways))
    looks = looks_of(names, "spare")
    most = max(b for way in ways for b in way.bandwidths) * dilation / 1e6
    with house_style():
        figure, grid = panels(len(doings), columns=2, height=0.7 + 0.45 * len(names), sharey="row")
        for axes, doing in zip(grid, doings, strict=True):
            for place, way in enumerate(way for way in ways if way.doing == doing):
                _draw_way(axes, place, way, dilation, looks[way.name])
            axes.set(xlim=(0, 1.45 * most), xlabel="bandwidth (MB/s)")
            axes.set_title(doing, loc="center")
            axes.grid(visible=False, axis="y")
        grid[0].set_ylim(len(names) - 0.4, -0.6)
        grid[0].set_yticks(range(len(names)), [printable(name, 40) for name in names])
        return write(figure, out)


def _draw_way(axes: Axes, place: int, way: Comparison, dilation: float, look: Look) -> None:
    widths = [b * dilation / 1e6 for b in way.bandwidths]
    middle = way.bandwidth * dilation / 1e6
    spread = [place + 0.5 * ((k + 0.5) / len(widths) - 0.5) for k in range(len(widths))]
    axes.plot(widths, spread, **look.style() | {"linestyle": "none"})
    axes.vlines(middle, place - 0.35, place + 0.35, color=look.colour, linewidth=1.8)
    label = f"{middle:.0f}" if place == 0 else f"{middle:.0f} ({way.ratio:.2f})"
    annotate(axes, label, (max(widths), place), (7, 0), va="center", fontsize=7)


def draw_windows(chosen: Sequence[Decision], dilation: float, out: Path) -> Path:
    """Write to `out` the window that a council chose over time, and below it the bandwidth of each period."""
    begin = chosen[0].seconds if chosen else 0.0
    seconds = [d.seconds - begin for d in chosen]
    with house_style():
        figure, (above, below) = panels(2, columns=1, width=WIDTH, height=2.0)
        figure.set_figwidth(WIDTH)
        choices = [1e3 * parse_duration(window) for window in DEFAULT_WINDOWS]
        none = min(filter(None, choices)) / 2  # the place of "no windows" on the logarithmic axis
        windows = [math.nan if d.window is None else 1e3 * d.window / dilation or none for d in chosen]
        above.step(seconds, windows, where="post", color="#0072B2", linewidth=1.2, marker="o", markersize=3)
        above.set_yscale("log", base=2)
        above.set_yticks([choice or none for choice in choices], [f"{choice:g}" for choice in choices])
        above.minorticks_off()
        above.set(ylabel="window (ms)", ylim=(0.8 * none, 10))
        below.plot(seconds, [d.bandwidth * dilation / 1e6 for d in chosen], color="#D55E00", linewidth=1.2)
        below.set(xlabel="time (s)", ylabel="bandwidth (MB/s)", ylim=(0, None))
        return write(figure, out)
