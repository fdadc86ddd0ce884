"""Every OST: the bytes on it, and how slow it was against the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from forebay.profile.ost_health import OstHealth
from forebay.show.figures.looks import FAINT, INK
from forebay.show.figures.sheet import WIDTH, house_style, write
from forebay.show.phrases import size
from forebay.show.rows import Floats

_COLOURS = {"sick": "#D55E00", "fine": "#0072B2", "too little data": FAINT}
_MARKERS = {"sick": "D", "fine": "o", "too little data": "x"}
_NAMED = 12
_MOST_SYSTEMS = 3


def draw_osts(osts: Sequence[OstHealth], out: Path) -> Path:
    """Write to `out`, for each file system, bars of bytes by OST, and below the slowness of each in its runs where it
    is known; sick ones are named. Of many file systems those with sick OSTs or most bytes are shown."""
    every = [[o for o in osts if o.filesystem == name] for name in {o.filesystem: None for o in osts}]
    every.sort(key=lambda own: (-sum(o.verdict == "sick" for o in own), -sum(o.total_bytes for o in own)))
    systems = every[:_MOST_SYSTEMS]
    panels = sum(1 + _tells(own) for own in systems)
    with house_style():
        figure = Figure(figsize=(WIDTH, 2.1 * panels))
        FigureCanvasAgg(figure)
        axes = iter(figure.subplots(panels, 1, squeeze=False)[:, 0])
        for own in systems:
            above = last = next(axes)
            _draw_bytes(above, own)
            if _tells(own):
                last = next(axes)
                last.sharex(above)
                above.tick_params(labelbottom=False)
                _draw_slowness(last, own)
            last.set_xlabel("OST")
            last.xaxis.set_major_locator(MaxNLocator(12, integer=True))
        part = f"{len(systems)} of {len(every)} file systems; --filesystem shows another"
        title = part if len(systems) < len(every) else None
        figure.legend(handles=_entries(systems), loc="outside lower center", ncols=3, title=title)
        return write(figure, out)


def _tells(osts: Sequence[OstHealth]) -> bool:
    return any(o.slowness is not None for o in osts)


def _entries(systems: Sequence[Sequence[OstHealth]]) -> list[Line2D]:
    """What each colour says: as a point where there are points, or as a bar."""
    shown = [o for osts in systems for o in osts]
    pointed = {o.verdict for o in shown if o.slowness is not None}
    return [
        Line2D([], [], color=colour, marker=_MARKERS[v] if v in pointed else "s", linestyle="none", label=v)
        for v, colour in _COLOURS.items()
        if any(o.verdict == v for o in shown)
    ]


def _draw_bytes(axes: Axes, osts: Sequence[OstHealth]) -> None:
    wide = 0.8 if len(osts) <= 200 else 1.0
    axes.bar([o.ost for o in osts], [o.total_bytes for o in osts], wide, color=[_COLOURS[o.verdict] for o in osts])
    axes.set_ylabel("volume")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: size(round(value))))
    axes.grid(axis="x", visible=False)
    sick = sum(o.verdict == "sick" for o in osts)
    where = osts[0].filesystem or "unknown file system"
    axes.set_title(f"{where}: {len(osts)} {'OST' if len(osts) == 1 else 'OSTs'}, {sick or 'none'} sick", loc="left")


def _draw_slowness(axes: Axes, osts: Sequence[OstHealth]) -> None:
    known = [o for o in osts if o.slowness is not None]
    for verdict, colour in _COLOURS.items():
        alike = [o for o in known if o.verdict == verdict]
        at, median, worst = (_column(alike, name) for name in ("ost", "slowness", "worst_slowness"))
        axes.vlines(at, median, worst, color=colour, linewidth=0.8, alpha=0.7, zorder=2)
        axes.scatter(at, median, s=22 if verdict == "sick" else 10, color=colour, marker=_MARKERS[verdict], zorder=3)
    _slowness_axis(axes, _column(known, "slowness").min(initial=1), _column(known, "worst_slowness").max(initial=1))
    for o in [o for o in known if o.verdict == "sick"][:_NAMED]:
        _name(axes, o, right=o.ost > 0.7 * max(o.ost for o in osts))


def _slowness_axis(axes: Axes, low: float, high: float) -> None:
    axes.set_yscale("log")
    axes.set_ylim(min(0.5, 0.8 * low), max(2.5, 1.6 * high))
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (3, 2)), zorder=2)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("slowness in a run:\nmedian, up to the worst")


def _name(axes: Axes, ost: OstHealth, *, right: bool) -> None:
    label = f"OST {ost.ost}: {ost.slowness:.3g} times the median OST"
    if ost.compared_runs > 1:
        label += f", at worst {ost.worst_slowness:.3g}"
    how: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7, "color": _COLOURS["sick"], "va": "center"}
    where = (ost.ost, ost.worst_slowness or 1.0)
    axes.annotate(label, where, (-6 if right else 6, 0), ha="right" if right else "left", **how)


def _column(osts: Sequence[OstHealth], name: str) -> Floats:
    values: Floats = np.array([getattr(o, name) for o in osts], dtype=float)
    return values
