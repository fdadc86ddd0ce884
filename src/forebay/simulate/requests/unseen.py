"""Experiments of sizes that nothing was trained on (see training.py), to test what recognises access patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from forebay.model.observation import Observation
from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.simulate.requests.run import Forwarding, simulate_requests
from forebay.simulate.requests.workload import Experiment, Workload

EDGES = 1  # periods left out at the beginning and at the end of a run, where there is more than the edges


def unseen_experiments() -> tuple[Experiment, ...]:
    """No request and no file is as large as one of those trained on, and no number of processes is one of theirs."""
    return _grid((3, 6), (48, 200), (10_000, 100_000, 600_000), (150_000_000, 900_000_000))


def periods_of(experiment: Experiment, window: int, *, seed: int, period: float) -> Iterator[Observation]:
    """What each I/O node saw in each period of a run, without its edges."""
    scheduler = "twins" if window else "fifo"
    layer = Forwarding(nodes=experiment.nodes, scheduler=scheduler, window=window or None)
    found = simulate_requests(layer, experiment.workload, seed=seed, period=period)
    count = len(found.periods)
    inner = range(EDGES, count - EDGES) if count > 2 * EDGES else range(count)
    for at, node in product(inner, range(experiment.nodes)):
        yield found.observe(at, node)


def _grid(
    nodes: Sequence[int], processes: Sequence[int], requests: Sequence[int], totals: Sequence[int]
) -> tuple[Experiment, ...]:
    return tuple(
        Experiment(
            nodes=n,
            workload=Workload(processes=p, pattern=pattern, operation=operation, request=request, total=total),
        )
        for pattern, operation, n, p, request, total in product(
            PATTERNS, OPERATIONS, nodes, processes, requests, totals
        )
        if total >= 4 * p * request
    )
