"""The gain from ordering requests: servers with a tuned window, compared with first come, first served.

Each situation is simulated request by request, with every window and without one. A tuner chooses among them every
second, and its bandwidth includes the time while it learns.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from forebay.model.layout import MIB
from forebay.model.service_time import ServiceTime
from forebay.simulate.centre.machine import Centre
from forebay.simulate.centre.workload import Workload as Jobs
from forebay.simulate.requests.learning import Samples, learn_all
from forebay.simulate.requests.run import Forwarding, simulate_requests
from forebay.simulate.requests.servers import contended_servers
from forebay.simulate.requests.workload import PAPER_WINDOWS, Experiment, Workload

_PROCESSES = 128
_REQUESTS = 12  # of each process
_SAMPLES = 3  # runs of each setting, to learn from
_STEPS, _REPETITIONS = 500, 4  # seconds of I/O to learn a situation, and repetitions


class Gain(NamedTuple):
    """The speed-up of servers: with the `best` setting, and on average while it is `learned`."""

    operation: str
    pattern: str
    request: int
    best: float
    learned: float


def gains(centre: Centre, jobs: Jobs) -> tuple[Gain, ...]:
    """Return the gain of every situation of the workload: reads of inputs, and the operation of each style."""
    cases = {(style.operation, style.pattern, int(style.request)) for style in jobs.style}
    cases |= {("read", style.pattern, int(style.request)) for style in jobs.style}
    bandwidth = centre.capacity.write / centre.capacity.osts
    return _gains(tuple(sorted(cases)), centre.requests.nodes, centre.requests.servers, bandwidth, jobs.policies.tune)


@lru_cache(maxsize=4)
def _gains(
    cases: Sequence[tuple[str, str, int]], nodes: int, servers: int, bandwidth: float, tuner: str
) -> tuple[Gain, ...]:
    experiments = [
        Experiment(
            nodes=nodes,
            workload=Workload(
                processes=_PROCESSES,
                pattern=pattern,
                operation=operation,
                request=request,
                total=_PROCESSES * _REQUESTS * request,
            ),
        )
        for operation, pattern, request in cases
    ]
    samples = Samples.of([_rewards(experiment, servers, bandwidth) for experiment in experiments])
    rows = learn_all(samples, experiments, tuner, similar=False, steps=_STEPS, repetitions=_REPETITIONS, seed=0)
    best = samples.means.max(axis=1) / samples.means[:, 0]
    shares = [float(rows["share"][rows["experiment"] == e].mean()) for e in range(len(cases))]
    return tuple(Gain(*s, float(b), float(b) * share) for s, b, share in zip(cases, best, shares, strict=True))


def _rewards(experiment: Experiment, servers: int, bandwidth: float) -> list[list[float]]:
    """Return bandwidths without a window, then with each window."""
    rewards = []
    for window in (None, *PAPER_WINDOWS):
        layer = Forwarding(
            nodes=experiment.nodes,
            servers=servers,
            server=contended_servers(ServiceTime(bandwidth=bandwidth)),
            stripe=MIB,
            scheduler="fifo" if window is None else "twins",
            window=window,
        )
        rewards.append([simulate_requests(layer, experiment.workload, seed=k).bandwidth for k in range(_SAMPLES)])
    return rewards


def gain_of(gains: Sequence[Gain], operation: str, pattern: str, request: int) -> float:
    """Return the speed-up of the servers in a situation."""
    return next(gain.learned for gain in gains if gain[:3] == (operation, pattern, request))
