"""All figures of the study of request windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forebay.show.figures.request_windows_demand import demand
from forebay.show.figures.request_windows_detection import confusions
from forebay.show.figures.request_windows_gains import heat, schedulers, spread
from forebay.show.figures.request_windows_learning import concurrent, precision, tuners
from forebay.show.figures.sheet import Drawn, Sketch, house_style, publish
from forebay.simulate.studies.request_windows_results import RequestWindowsResults

_FIGURES: tuple[Callable[[RequestWindowsResults], Sketch | None], ...] = (
    heat,
    spread,
    confusions,
    precision,
    concurrent,
    tuners,
    demand,
    schedulers,
)


def draw_request_windows_study(results: RequestWindowsResults, out: Path) -> list[Drawn]:
    """Write every figure that the results allow into the directory `out`, each as PNG and PDF.

    One for which nothing is there is left out. The same results give the same bytes.
    """
    out.mkdir(parents=True, exist_ok=True)
    with house_style():
        sketches = [figure(results) for figure in _FIGURES]
        return [publish(sketch, out) for sketch in sketches if sketch]
