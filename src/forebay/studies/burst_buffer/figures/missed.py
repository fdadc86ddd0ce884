"""Figure 9: split requests that failed or were refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from forebay.show.figures.looks import INK, Look
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.phrases import size
from forebay.show.rows import select
from forebay.studies.burst_buffer.figures.subject import StorageSubject, mode_title, name_policies, some_of, width_for
from forebay.studies.burst_buffer.view import by_policy, missed

_TERABYTE = 10**12
_CAPACITIES = (8 * _TERABYTE, 16 * _TERABYTE, 32 * _TERABYTE)
_REFUSED: dict[str, Any] = {"hatch": "//////", "linewidth": 0.7}


def missed_requests(subject: StorageSubject) -> Sketch | None:
    """Figure 9: of all runs of a policy at a capacity, the one that served the fewest split requests."""
    view = subject.view
    runs = select(view.runs, split=view.split)
    if not view.split or not runs.size:
        return None
    columns = some_of(sorted(set(runs["capacity"].tolist())), _CAPACITIES)
    modes = [m for m in view.modes if select(runs, mode=m).size]
    figure, grid = panels(len(modes) * len(columns), columns=len(columns), height=1.9, width=width_for(len(columns)))
    names = list(by_policy(runs, list(subject.looks)))
    tops: dict[int, int] = {}
    for axes, (mode, capacity) in zip(grid, ((m, c) for m in modes for c in columns), strict=True):
        counts = {n: missed(own) for n, own in by_policy(select(runs, mode=mode, capacity=capacity)).items()}
        tops[capacity] = max(tops.get(capacity, 1), *(sum(both) for both in counts.values()), 1)
        _panel(axes, names, counts, subject.looks)
        axes.set_title(f"{size(capacity)}, {mode_title(mode)}", loc="left")
        name_policies(axes, names if mode == modes[-1] else [])
    for axes, capacity in zip(grid, columns * len(modes), strict=True):
        axes.set_ylim(0, 1.15 * tops[capacity])  # the same for all modes
    for axes in grid[:: len(columns)]:
        axes.set_ylabel("split requests")
    legend_above(
        figure,
        [
            Patch(color="#666666", label="failed: accepted, but the space was not there"),
            Patch(facecolor="#66666640", edgecolor="#666666", label="refused", **_REFUSED),
        ],
    )
    return Sketch(
        name="figure-09-failed-and-refused",
        title=f"Most split requests (above {size(view.split)}) that failed or were refused in one run",
        caption="Of all runs of a policy at a capacity, the one that missed most. The scale is the same for all "
        "sets of rules, but differs from capacity to capacity.",
        figure=figure,
    )


def _panel(axes: Axes, names: list[str], counts: Mapping[str, tuple[int, int]], looks: Mapping[str, Look]) -> None:
    for x, name in enumerate(names):
        if name not in counts:
            continue
        (failed, refused), colour = counts[name], looks[name].colour
        axes.bar(x, failed, 0.7, color=colour, zorder=2)
        axes.bar(x, refused, 0.7, failed, color=(colour, 0.25), edgecolor=colour, zorder=2, **_REFUSED)
        axes.text(x, failed + refused, f"{failed + refused}", ha="center", va="bottom", fontsize=6.5, color=INK)
    axes.set_xlim(-0.6, max(len(names), 3) - 0.4)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="x", visible=False)
