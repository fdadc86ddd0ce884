"""The figures, by their numbers in Monniot et al. 2023, and what feedback adds."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.show.figures.sheet import Sketch
from forebay.studies.burst_buffer.figures.disks import by_kind, by_node, disk_use, fairness
from forebay.studies.burst_buffer.figures.effects import max_effects, mean_effects
from forebay.studies.burst_buffer.figures.served import missed_requests, shares, slowdowns
from forebay.studies.burst_buffer.figures.subject import StorageSubject
from forebay.studies.burst_buffer.results import StorageResults

_PAINTERS = (*(shares, disk_use, fairness, mean_effects, max_effects, missed_requests, by_node, by_kind), slowdowns)


def figures_of(results: StorageResults) -> Iterator[Sketch | None]:
    """Each figure shows the runs that are there, by both sets of rules where both were run; None if there are none."""
    subject = StorageSubject.of(results)
    for paint in _PAINTERS:
        yield paint(subject)
