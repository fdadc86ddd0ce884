"""With feedback: how much longer jobs take."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from forebay.show.figures.looks import key
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.figures.text import printable
from forebay.show.phrases import splitting
from forebay.show.rows import Rows, select
from forebay.studies.burst_buffer.figures.subject import StorageSubject, mode_title, width_for
from forebay.studies.burst_buffer.results import OPTIMAL

_MOST_PLATFORMS = 40


def slowdowns(subject: StorageSubject) -> Sketch | None:
    """Mean slowdown of the jobs by platform and policy, a panel for each splitting."""
    runs = subject.view.results.runs
    runs = runs[np.isfinite(runs["mean_slowdown"]) & (runs["policy"] != OPTIMAL)]
    if not runs.size:
        return None
    platforms = list(dict.fromkeys(runs["platform"].tolist()))[:_MOST_PLATFORMS]
    kinds = [(m, s) for m in subject.view.modes for s in sorted(set(select(runs, mode=m)["split"].tolist()))]
    columns = min(len(kinds), 3)
    figure, grid = panels(
        len(kinds), columns=columns, height=0.8 + 0.21 * max(len(platforms), 4), sharey=True, width=width_for(columns)
    )
    for axes, (mode, split) in zip(grid, kinds, strict=True):
        _panel(axes, subject, select(runs, mode=mode, split=split), platforms)
        axes.set_title(f"{splitting(split)}, {mode_title(mode)}", loc="left")
    for axes in grid[::columns]:
        axes.set_yticks(range(len(platforms)), [printable(p, 28) for p in platforms])
    names = [n for n in subject.looks if (runs["policy"] == n).any()]
    legend_above(figure, [key(name, subject.looks[name], line=False) for name in names])
    return Sketch(
        name="figure-12-mean-job-slowdown",
        title="Mean slowdown of the jobs by policy and platform",
        caption="How much longer jobs take than without any I/O, from when they asked to start; jobs whose "
        "request is not served do their I/O on the parallel file system. Each dot is a run; the lower the better.",
        figure=figure,
    )


def _panel(axes: Axes, subject: StorageSubject, runs: Rows, platforms: list[str]) -> None:
    for name, look in subject.looks.items():
        own = runs[(runs["policy"] == name) & np.isin(runs["platform"], platforms)]
        y = [platforms.index(platform) for platform in own["platform"].tolist()]
        axes.plot(100 * (own["mean_slowdown"] - 1), y, **look.style() | {"linestyle": "none", "markersize": 5})
    axes.set_ylim(len(platforms) - 0.5, -0.5)
    axes.margins(x=0.08)
    if (runs["mean_slowdown"] > 1).all():  # from percents to hundreds of them
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlabel("mean slowdown, % over none")
