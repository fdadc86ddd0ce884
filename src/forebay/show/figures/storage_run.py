"""The figure of one storage run: space in use over time, and the use of every disk."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from forebay.model.arrays import Floats
from forebay.show.figures.looks import INK, annotate, centre_groups
from forebay.show.figures.scales import date_axis
from forebay.show.figures.sheet import WIDTH, Style, blank_sheet, house_style, printable, write
from forebay.show.phrases import MODES, describe_splitting, size
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.run import Run
from forebay.simulate.storage.usage import ALLOCATED

_MOST, _MEAN = "#9DC3E0", "#0072B2"
_STEPS = 1200  # points of time in the picture, about as many as it has pixels
_DAY = 86_400.0


def draw_storage_run(run: Run, out: Path) -> Path:
    """Draw one run to `out`, as PDF if its suffix is .pdf, else as PNG."""
    outcome = document(run)
    with house_style():
        figure = blank_sheet(WIDTH, 5.2)
        above, use, crowd = figure.subplots(3, 1, height_ratios=(1.4, 1, 1))
        _draw_level(above, run)
        above.set_title(
            f"{printable(run.policy)} on {printable(run.platform.name)}, requests "
            f"{describe_splitting(run.rules.split)}, rules {MODES.get(run.rules.mode, run.rules.mode)}: "
            f"{100 * outcome['allocated_share']:.2f} % of the bytes served"
        )
        for axes, metric, factor in ((use, "use", 100), (crowd, "allocations", 1)):
            columns = ([disk[f"{of}_{metric}"] for disk in outcome["disks"]] for of in ("max", "mean"))
            _draw_disks(axes, *(factor * np.array(column, dtype=float) for column in columns))
        use.set(ylabel="use of the disk (%)", ylim=(0, 105), xticks=[])
        crowd.set_ylabel("allocations")
        _name_disks(crowd, run)
        entries = [Patch(color=_MOST, label="maximum"), Patch(color=_MEAN, label="mean")]
        figure.legend(handles=entries, loc="outside lower center", ncols=2, handlelength=1.4)
        return write(figure, out)


def levels(run: Run) -> tuple[Floats, Floats, Floats]:
    """Return the edges of equal intervals, and the maximum and mean bytes held in each."""
    state: NDArray[np.int8] = run.verdicts["state"]
    first: NDArray[np.int64] = run.verdicts["first"]
    last: NDArray[np.int64] = run.verdicts["last"]
    size: NDArray[np.int64] = run.parts["bytes"]
    held = state == ALLOCATED
    volumes = np.concatenate([[0], np.cumsum(size)])
    sizes = (volumes[last] - volumes[first])[held]
    starts, ends = run.verdicts["start"][held], run.ends[held]
    if not sizes.size or ends.max() <= starts.min():
        return np.array([0.0, 1.0]), np.zeros(1), np.zeros(1)
    times, change = np.concatenate([ends, starts]), np.concatenate([-sizes, sizes])
    order = np.argsort(times, kind="stable")  # at equal times, releases come before allocations
    times, level = times[order], np.cumsum(change[order])
    # Of several changes at one time, keep the last.
    newest = np.append(np.diff(times) > 0, True)
    times, level = times[newest], level[newest].astype(float)
    # Turn level[i] in [times[i], times[i + 1]) into the maximum and the mean of equal intervals.
    edges = np.linspace(times[0], times[-1], _STEPS + 1)
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    mean = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    at_edge = level[np.searchsorted(times, edges[:-1], side="right") - 1]
    stretch = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, _STEPS - 1)
    most = at_edge.copy()
    np.maximum.at(most, stretch, level)
    return edges, most, mean


def _draw_level(axes: Axes, run: Run) -> None:
    edges, most, mean = levels(run)
    capacity = run.platform.capacity
    # Times since 1970 are shown as dates; a trace that counts from 0 has none.
    dated = edges[0] > 365 * _DAY
    x = edges / _DAY if dated else (edges - edges[0]) / 3600
    axes.stairs(most / 1e12, x, fill=True, color=_MOST, zorder=2)
    axes.stairs(mean / 1e12, x, baseline=None, color=_MEAN, linewidth=0.9, zorder=3)
    axes.axhline(capacity / 1e12, color=INK, linewidth=1.0, linestyle=(0, (3, 2)), zorder=4)
    how: Style = {"xycoords": axes.get_yaxis_transform(), "ha": "right", "fontsize": 7}
    annotate(axes, f"capacity {size(capacity)}", (1, capacity / 1e12), (-2, 2), **how)
    axes.set(xlim=(x[0], x[-1]), ylim=(0, 1.12 * capacity / 1e12), ylabel="space in use (TB)")
    if dated:
        date_axis(axes, 4, 10)
    else:
        axes.set_xlabel("hours")


def _draw_disks(axes: Axes, most: Floats, mean: Floats) -> None:
    x = np.arange(most.size)
    wide = 0.8 if most.size <= 200 else 1.0
    axes.bar(x, most, wide, color=_MOST, zorder=2)
    axes.bar(x, mean, 0.45 * wide, color=_MEAN, zorder=3)
    centre_groups(axes, most.size, 5)


def _name_disks(axes: Axes, run: Run) -> None:
    """Label each disk with its node and number, if there is room."""
    names = [f"{node.name}:{i}" for node in run.platform.nodes for i in range(len(node.disks))]
    if len(names) > 32:
        axes.set_xlabel("disks, in the order of the platform")
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        return
    crowded = len(names) > 8
    how: Style = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    axes.set_xticks(range(len(names)), [printable(name, 20) for name in names], **how)
    axes.tick_params(axis="x", length=0)
