"""All figures of a storage study: those of Monniot et al. 2023 by their numbers, and what feedback adds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forebay.show.figures.sheet import Drawn, Sketch, house_style, publish
from forebay.show.figures.storage_disks import disk_use, fairness
from forebay.show.figures.storage_effects import max_effects, mean_effects
from forebay.show.figures.storage_missed import missed_requests
from forebay.show.figures.storage_mixed import by_kind, by_node
from forebay.show.figures.storage_shares import shares
from forebay.show.figures.storage_slowdown import slowdowns
from forebay.show.figures.storage_subject import StorageSubject
from forebay.simulate.studies.storage_results import StorageResults

_PAINTERS: tuple[Callable[[StorageSubject], Sketch | None], ...] = (
    shares,
    disk_use,
    fairness,
    mean_effects,
    max_effects,
    missed_requests,
    by_node,
    by_kind,
    slowdowns,
)


def draw_storage_study(results: StorageResults, out: Path) -> list[Drawn]:
    """Write every figure that the results allow into the directory `out`, each as PNG and PDF.

    A figure shows the runs that are there, by both sets of rules where both were run; one for
    which nothing is there is left out. The same results give the same bytes.
    """
    out.mkdir(parents=True, exist_ok=True)
    subject = StorageSubject.of(results)
    with house_style():
        sketches = (paint(subject) for paint in _PAINTERS)
        return [publish(sketch, out) for sketch in sketches if sketch is not None]
