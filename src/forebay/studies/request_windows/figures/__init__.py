"""The figures: those of Bez et al. 2019 by their numbers, and more."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.show.figures.sheet import Sketch
from forebay.studies.request_windows.figures.detection import confusions
from forebay.studies.request_windows.figures.gains import heat, schedulers, spread
from forebay.studies.request_windows.figures.learning import concurrent, demand, precision, tuners
from forebay.studies.request_windows.results import RequestWindowsResults


def figures_of(results: RequestWindowsResults) -> Iterator[Sketch | None]:
    """Every figure; None stands for one that the results don't allow."""
    for draw in (heat, spread, confusions, precision, concurrent, tuners, demand, schedulers):
        yield draw(results)
