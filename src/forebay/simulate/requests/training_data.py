"""Simulated observations of I/O nodes for each access pattern, to train and test the detector.

Test scenarios use other process counts, request sizes and file lengths than training: a detector that works only at
the sizes of its training data is useless.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from forebay.model.layout import KIB
from forebay.model.observation import Observation
from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.profile.detector_training import train
from forebay.simulate.requests.run import Forwarding, Simulation
from forebay.simulate.requests.workload import Workload
from forebay.work import Died, Gone, Workers, run_pieces

Example = tuple[Observation, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of scenarios; `rounds` is the number of requests per process, which sets the length of files."""

    processes: tuple[int, ...]
    requests: tuple[int, ...]
    rounds: tuple[int, ...]


TRAINING = Sizes(
    processes=(8, 16, 64, 128, 512, 1024),
    requests=tuple(k * KIB for k in (4, 16, 32, 256, 1024, 4096)),
    rounds=(8, 32, 128, 512),
)
HELD_OUT = Sizes(
    processes=(12, 24, 48, 96, 200, 384, 768),
    requests=(8 * KIB, 48 * KIB, 100_000, 512 * KIB, 2048 * KIB),
    rounds=(12, 50, 200, 350),
)
NODES = (1, 2, 4, 8)
SCHEDULERS = ("fifo", "hbrr", "twins")
WINDOWS = (125_000, 1_000_000, 8_000_000)
THINKS = (0.0, 0.0, 0.001, 0.02)
PERIODS = (0.02, 0.1, 0.5)
"""Seconds: periods have from a few to thousands of requests."""
MIXED = 0.25  # share of scenarios with two programs of the same pattern and different requests
MOST_REQUESTS = 40_000  # of a scenario; more would only repeat similar periods
FEWEST = 4  # requests that a period needs to show a pattern
EACH = 6  # periods of a scenario


def document(
    scenarios: int = 900, *, seed: int = 0, workers: Workers = 1, progress: Callable[[int], None] = lambda _: None
) -> Any:
    """Train a detector on `scenarios` scenarios and test it on a third as many others. Return it with its recipe."""
    data = list(examples(TRAINING, scenarios, seed=seed, workers=workers, progress=progress))
    others = list(
        examples(HELD_OUT, scenarios // 3, seed=seed + 1, workers=workers, progress=lambda n: progress(scenarios + n))
    )
    recipe = {
        "data": "simulated by forebay.simulate.requests",
        "scenarios": scenarios,
        "drawn": "each scenario by the seed and its own number",
        "training sizes": asdict(TRAINING),
        "held-out sizes": asdict(HELD_OUT),
        "I/O nodes": NODES,
        "schedulers": SCHEDULERS,
        "windows (ns)": WINDOWS,
        "think time (s)": THINKS,
        "periods (s)": PERIODS,
        "two programs": MIXED,
        "fewest requests": FEWEST,
    }
    return train(data, others, recipe=recipe, seed=seed)


def examples(
    sizes: Sizes, scenarios: int, *, seed: int, workers: Workers = 1, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Example]:
    """Yield labelled periods of the scenarios, equally for each pattern; `workers` do not change the result."""
    pieces = run_pieces(workers, partial(_scenario, sizes, seed), range(scenarios), ahead=4, in_order=True)
    with closing(pieces) as simulated:
        for number, result in simulated:
            if isinstance(result, Died):
                raise Gone(f"scenario {number}: {result.because}")
            yield from result
            progress(number + 1)


def _scenario(sizes: Sizes, seed: int, number: int) -> list[Example]:
    """Return random periods of one scenario at any I/O node; only `seed` and `number` determine them."""
    pattern, rng = PATTERNS[number % len(PATTERNS)], np.random.default_rng([seed, number])
    nodes = int(rng.choice(NODES))
    processes = int(rng.choice([count for count in sizes.processes if count >= 2 * nodes]))
    programs = [_program(sizes, pattern, processes, rng)]
    if rng.random() < MIXED:
        programs.append(_program(sizes, pattern, processes, rng))
    scheduler, window = str(rng.choice(SCHEDULERS)), int(rng.choice(WINDOWS))
    layer = Forwarding(nodes=nodes, scheduler=scheduler, window=window if scheduler == "twins" else None)
    simulation = Simulation(layer, programs, seed=int(rng.integers(2**32)), period=float(rng.choice(PERIODS)))
    simulation.advance()
    outcome = simulation.outcome()
    every = [outcome.observe(period, node) for period in range(len(outcome.periods)) for node in range(nodes)]
    busy = [period for period in every if period.requests >= FEWEST]
    return [(busy[at], pattern) for at in rng.permutation(len(busy))[:EACH]]


def _program(sizes: Sizes, pattern: str, processes: int, rng: Any) -> Workload:
    rounds, request = int(rng.choice(sizes.rounds)), int(rng.choice(sizes.requests))
    # Limit the requests by fewer rounds, not fewer processes; every stripe of a request counts.
    pieces = max(request // (64 * KIB), 1)
    rounds = max(min(rounds, MOST_REQUESTS // (processes * pieces)), min(sizes.rounds[0], rounds))
    return Workload(
        processes=processes,
        pattern=pattern,
        operation=OPERATIONS[int(rng.integers(2))],
        request=request,
        total=processes * request * rounds,
        think=float(rng.choice(THINKS)),
    )
