"""All figures of a study: which ones it has, and their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from forebay.model.curve import Curve
from forebay.show.figures.load import idle_time, mean_slowdown, slowdown_and_idle, two_causes
from forebay.show.figures.placement import occupancy, spread
from forebay.show.figures.ranges import low_and_high
from forebay.show.figures.robustness import robustness
from forebay.show.figures.shapes import class_regressions, curves_by_class
from forebay.show.figures.sheet import Drawn, Sketch, house_style, publish
from forebay.show.figures.subject import Subject
from forebay.simulate.studies.results import Results

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


def draw_study(results: Results, curves: Mapping[str, Curve], out: Path) -> list[Drawn]:
    """Write every figure that the results allow into the directory `out`, each as PNG and PDF.

    A figure shows the policies and loads that are there; one for which nothing is there is left
    out. The same results give the same bytes.
    """
    out.mkdir(parents=True, exist_ok=True)
    subject = Subject.of(results, curves)
    drawn = []
    with house_style():
        for paint in _PAINTERS.get(results.study, _COMPARISON):
            sketch = paint(subject)
            if sketch is not None:
                drawn.append(publish(sketch, out))
    return drawn
