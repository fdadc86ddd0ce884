"""All figures of the study of request windows."""

from __future__ import annotations

from collections.abc import Callable

from forebay.show.figures.sheet import Sketch, house_style
from forebay.studies.request_windows.figures.demand import demand
from forebay.studies.request_windows.figures.detection import confusions
from forebay.studies.request_windows.figures.gains import heat, schedulers, spread
from forebay.studies.request_windows.figures.learning import concurrent, precision, tuners
from forebay.studies.request_windows.results import RequestWindowsResults

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


@house_style()
def sketch_request_windows_study(results: RequestWindowsResults) -> list[Sketch]:
    """Every figure that the results allow; one for which nothing is there is left out."""
    sketches = (figure(results) for figure in _FIGURES)
    return [sketch for sketch in sketches if sketch is not None]
