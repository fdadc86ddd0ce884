"""The figure of `forebay size`: the share of the bytes served against the capacity of the platform."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from forebay.show.figures.looks import INK, annotate, looks_of
from forebay.show.figures.sheet import Style, house_style, legend_above, panels, printable, write
from forebay.show.phrases import size
from forebay.studies.sizing.search import Sizing


def draw_sizes(sizings: Sequence[Sizing], out: Path) -> Path:
    """Write to `out`, as PNG or PDF, a line for each sizing through all capacities tried."""
    several = len({s.policy for s in sizings}) < len(sizings)
    names = [f"{s.policy}, {s.family}" if several else s.policy for s in sizings]
    with house_style():
        figure, (axes,) = panels(1, height=3.2)
        for target in dict.fromkeys(100 * s.target for s in sizings):
            axes.axhline(target, color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
            annotate(axes, f"{target:g} %", (0, target), (4, -9), fontsize=7, xycoords=axes.get_yaxis_transform())
        entries = []
        for sizing, (name, look) in zip(sizings, looks_of(names, "storage").items(), strict=True):
            points = sorted((p.capacity, 100 * p.share) for p in sizing.points)
            axes.plot(*zip(*points, strict=True), **look.style())
            answer = "not reached"
            if sizing.answer is not None:
                answer = size(sizing.answer.capacity)
                ring: Style = {"s": 90, "facecolors": "none", "edgecolors": look.colour, "linewidths": 1.4}
                axes.scatter([sizing.answer.capacity], [100 * sizing.answer.share], zorder=look.front + 3, **ring)
            entries.append(Line2D([], [], label=f"{printable(name, 32)}: {answer}", **look.style()))
        axes.set(xlabel="capacity", ylabel="bytes served (%)", xlim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(round(value)) if value else "0"))
        legend_above(figure, entries, columns=2)
        return write(figure, out)
