"""All figures of a study: which ones it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from forebay.model.curve import Curve
from forebay.show.figures.sheet import Sketch, house_style
from forebay.studies.io_resources.figures.load import idle_time, mean_slowdown, slowdown_and_idle, two_causes
from forebay.studies.io_resources.figures.placement import occupancy, spread
from forebay.studies.io_resources.figures.ranges import low_and_high
from forebay.studies.io_resources.figures.robustness import robustness
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
# Numbers of figures are those of Bandet et al. 2024.
_PAINTERS: Mapping[str, tuple[Painter, ...]] = {
    "io-nodes": _COMPARISON,
    "osts": (*_COMPARISON, slowdown_and_idle),
    "robustness": (curves_by_class, class_regressions, robustness),
}


@house_style()
def sketch_study(results: Results, curves: Mapping[str, Curve]) -> list[Sketch]:
    """Every figure that the results allow.

    A figure shows the policies and loads that are there; one for which nothing is there is left out.
    """
    subject = Subject.of(results, curves)
    sketches = (paint(subject) for paint in _PAINTERS.get(results.study, _COMPARISON))
    return [sketch for sketch in sketches if sketch is not None]
