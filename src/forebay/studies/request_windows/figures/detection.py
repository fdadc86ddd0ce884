"""Fig. 3 of Bez et al. 2019: which pattern was recognised as which."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from forebay.show.figures.sheet import Sketch, panels
from forebay.studies.request_windows.detection import CLASSIFIERS, confusion
from forebay.studies.request_windows.records import format_accuracy
from forebay.studies.request_windows.results import SEEN, UNSEEN, RequestWindowsResults

_CLASSES = ("FPP", "SC", "SS")
_SETS = {SEEN: "the study's situations", UNSEEN: "other sizes"}


def confusions(results: RequestWindowsResults) -> Sketch | None:
    """A matrix for each set of experiments and each classifier; None if nothing was detected."""
    shown = [(of, by) for of in _SETS for by in CLASSIFIERS if confusion(results.detected, of, by).sum()]
    if not shown:
        return None
    figure, grid = panels(len(shown), columns=4, height=2.15)
    for axes, (of, by) in zip(grid, shown, strict=True):
        table = confusion(results.detected, of, by)
        _matrix(axes, table)
        axes.set_title(f"{by}, {_SETS[of]}\n{format_accuracy(table)} right", loc="left", fontsize=7.5)
    grid[0].set_ylabel("detected")
    figure.supxlabel("true pattern", fontsize=8)
    return Sketch(
        name="figure-03-confusion",
        title="Figure 3: access patterns as they were recognised, seen and unseen",
        caption="Periods at I/O nodes: a row for each detected and a column for each true pattern, coloured by the "
        "share of its column. FPP: file per process; SC: shared file, contiguous; SS: shared file, 1D strided. "
        "The study's situations have sizes of requests that the classifiers were trained with; other sizes of "
        "requests and files, and other numbers of processes, they never saw. The paper: 99.82 % right in testing "
        "(11,595 of 11,616), all on sizes seen in training.",
        figure=figure,
    )


def _matrix(axes: Axes, table: Any) -> None:
    shares = table / np.maximum(table.sum(axis=0, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    for (y, x), count in np.ndenumerate(table):
        colour = "white" if shares[y, x] > 0.6 else "black"
        axes.text(x, y - 0.12, f"{count:,}", ha="center", va="center", fontsize=6.6, color=colour)
        axes.text(x, y + 0.2, f"{100 * shares[y, x]:.1f} %", ha="center", va="center", fontsize=5.6, color=colour)
    axes.set_xticks(range(len(_CLASSES)), _CLASSES)
    axes.set_yticks(range(len(_CLASSES)), _CLASSES)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
