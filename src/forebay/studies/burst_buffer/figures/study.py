"""All figures of a storage study: those of Monniot et al. 2023 by their numbers, and what feedback adds."""

from __future__ import annotations

from collections.abc import Callable

from forebay.show.figures.sheet import Sketch, house_style
from forebay.studies.burst_buffer.figures.disks import disk_use, fairness
from forebay.studies.burst_buffer.figures.effects import max_effects, mean_effects
from forebay.studies.burst_buffer.figures.missed import missed_requests
from forebay.studies.burst_buffer.figures.mixed import by_kind, by_node
from forebay.studies.burst_buffer.figures.shares import shares
from forebay.studies.burst_buffer.figures.slowdown import slowdowns
from forebay.studies.burst_buffer.figures.subject import StorageSubject
from forebay.studies.burst_buffer.results import StorageResults

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


@house_style()
def sketch_storage_study(results: StorageResults) -> list[Sketch]:
    """Every figure that the results allow.

    A figure shows the runs that are there, by both sets of rules where both were run; one for
    which nothing is there is left out.
    """
    subject = StorageSubject.of(results)
    sketches = (paint(subject) for paint in _PAINTERS)
    return [sketch for sketch in sketches if sketch is not None]
