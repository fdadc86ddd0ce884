"""The figures, by their numbers in Bandet et al. 2024."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forebay.model.curve import Curve
from forebay.show.figures.sheet import Sketch
from forebay.studies.io_resources.figures.load import (
    idle_time,
    low_and_high,
    mean_slowdown,
    robustness,
    slowdown_and_idle,
    two_causes,
)
from forebay.studies.io_resources.figures.placement import occupancy, spread
from forebay.studies.io_resources.figures.shapes import class_regressions, curves_by_class
from forebay.studies.io_resources.figures.subject import Subject
from forebay.studies.io_resources.results import Results

Painter = Callable[[Subject], Sketch | None]

_COMPARISON: tuple[Painter, ...] = (
    curves_by_class,
    mean_slowdown,
    spread,
    occupancy,
    low_and_high,
    two_causes,
    idle_time,
    class_regressions,
)
_PAINTERS: Mapping[str, tuple[Painter, ...]] = {
    "osts": (*_COMPARISON, slowdown_and_idle),
    "robustness": (curves_by_class, class_regressions, robustness),
}


def figures_of(results: Results, curves: Mapping[str, Curve]) -> Iterator[Sketch | None]:
    """Each figure shows the policies and loads that were run; None stands for one without any."""
    subject = Subject.of(results, curves)
    for paint in _PAINTERS.get(results.study, _COMPARISON):
        yield paint(subject)
