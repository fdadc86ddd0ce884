"""Figures 1, 2 and 11: the bandwidth curves by class, and the curve that stands for each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from forebay.model.curve import Curve
from forebay.profile.curve_shapes import Shape, class_curves, classify
from forebay.show.figures.looks import FAINT, INK
from forebay.show.figures.scales import whole_numbers
from forebay.show.figures.sheet import Sketch, legend_above, panels
from forebay.show.phrases import join_names
from forebay.studies.io_resources.figures.subject import Subject

Classes = Mapping[Shape, Sequence[Curve]]

_BOLD: dict[str, Any] = {"color": INK, "linewidth": 2.2, "marker": "o", "markersize": 4.5}


def curves_by_class(subject: Subject) -> Sketch | None:
    """Figure 1 (I/O nodes) or 2 (OSTs): every curve, divided by its own maximum."""
    classes = _classes(subject.curves)
    if not classes:
        return None
    targets = _targets(subject)
    counts = join_names([f"{len(curves)} {shape}" for shape, curves in classes.items()])
    return Sketch(
        name=f"figure-{2 if targets == 'OSTs' else 1:02}-curves-by-class",
        title=f"Bandwidth against the number of {targets}, by class",
        caption=f"{subject.results.origin}: {counts}. Each curve is divided by its own maximum; "
        "the bold line is the median of the class.",
        figure=_figure(classes, {shape: _median(curves) for shape, curves in classes.items()}, targets, "median"),
    )


def class_regressions(subject: Subject) -> Sketch | None:
    """Figure 11: the polynomial regression of each class over its curves."""
    classes = _classes(subject.curves)
    if not classes:
        return None
    return Sketch(
        name="figure-11-class-regressions",
        title="The curve that stands for each class",
        caption="A polynomial regression over the normalised curves of a class (bold), at the numbers of targets that "
        "were measured: what a policy sees that knows only an application's class.",
        figure=_figure(classes, class_curves(subject.curves), _targets(subject), "regression"),
    )


def _figure(classes: Classes, standing: Mapping[Shape, Curve], targets: str, label: str) -> Figure:
    figure, grid = panels(len(classes), columns=4, height=2.0, sharey=True)
    for axes, (shape, curves) in zip(grid, classes.items(), strict=True):
        _panel(axes, curves, standing[shape])
        axes.set_title(f"{shape} ({len(curves)})", loc="left")
    grid[0].set_ylabel("bandwidth (share of maximum)")
    figure.supxlabel(f"number of {targets}", fontsize=8)
    member = Line2D([], [], color=FAINT, linewidth=1.0, label="one application")
    legend_above(figure, [member, Line2D([], [], label=f"{label} of the class", **_BOLD)])
    return figure


def _panel(axes: Axes, curves: Sequence[Curve], standing: Curve) -> None:
    alpha = float(np.clip(12 / len(curves), 0.35, 1.0))  # fainter where many lie on each other
    lines = [np.column_stack((curve.counts, np.array(curve.bandwidths) / max(curve.bandwidths))) for curve in curves]
    axes.add_collection(LineCollection(lines, colors=FAINT, linewidths=0.8, alpha=alpha))
    axes.plot(standing.counts, standing.bandwidths, **_BOLD)
    counts = sorted({n for curve in curves for n in curve.counts})
    margin = 0.05 * (counts[-1] - counts[0]) or 0.5
    axes.set_xlim(counts[0] - margin, counts[-1] + margin)
    axes.set_ylim(0.0, 1.05)
    whole_numbers(axes, counts)


def _classes(curves: Mapping[str, Curve]) -> Classes:
    """The curves of each class that has any."""
    members: dict[Shape, list[Curve]] = {shape: [] for shape in Shape}
    for curve in curves.values():
        members[classify(curve)].append(curve)
    return {shape: curves_of_class for shape, curves_of_class in members.items() if curves_of_class}


def _median(curves: Sequence[Curve]) -> Curve:
    """The median share of the maximum at each number of targets that any of the curves measured."""
    shares: dict[int, list[float]] = {}
    for curve in curves:
        for n, bandwidth in zip(curve.counts, curve.bandwidths, strict=True):
            shares.setdefault(n, []).append(bandwidth / max(curve.bandwidths))
    return Curve.of({n: float(np.median(values)) for n, values in shares.items()})


def _targets(subject: Subject) -> str:
    return "OSTs" if subject.results.study == "osts" else "I/O nodes"
