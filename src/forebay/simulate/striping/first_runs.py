"""The first runs of an application under a policy: its view, its answer and the result."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from forebay.decide.stripe.view import Past, Peers, StripeView, Striping
from forebay.model.errors import PolicyError
from forebay.model.layout import ANY, MIB, Layout, Target
from forebay.simulate.striping.flows import throughput
from forebay.simulate.striping.machine import GB, Machine, Program

Decide = Callable[[StripeView], Striping]
_FREE = 256 * 10**9  # bytes on every target; space does not matter here
OTHERS = (
    Program(name="climate", block=8 * MIB, process_bytes=GB, shared=True),
    Program(name="checkpoints", block=4 * MIB, process_bytes=GB),
    Program(name="statistics", block=MIB, process_bytes=GB // 4, shared=True, aligned=False),
)
SIZES = (MIB, 8 * MIB, 16 * MIB)  # the most common ones (Kim et al. 2022, Table 3)
RUNS = 3  # of each application with each layout
_throughput = lru_cache(maxsize=20_000)(throughput)


class Case(NamedTuple):
    """An application with `processes` on a machine, beside `others`: endless flows on each target."""

    machine: Machine
    program: Program
    processes: int
    others: tuple[int, ...] = ()

    def throughput(self, layout: Layout, others: tuple[int, ...] = ()) -> float:
        """Bytes per second without noise."""
        beside = others or self.others
        # Without other users, all first targets are equivalent.
        layout = layout if any(beside) else replace(layout, start=0)
        return _throughput(self.machine, self.program, self.processes, layout, beside or None)


class Weather(NamedTuple):
    """The random part of a run: noise of the throughput, the policy's chance, the first target if free, and others."""

    factor: float
    chance: float
    first: int
    others: tuple[int, ...]


class Outcome(NamedTuple):
    """One run: the decision, the first target, and bytes per second without noise and as measured."""

    striping: Striping
    first: int
    expected: float
    measured: float


def draw_weather(case: Case, runs: int, noise: float, rng: Generator) -> list[Weather]:
    """Draw the weather of all runs, for every policy. `noise` is the coefficient of variation of the throughput."""
    targets, background = case.machine.targets, case.machine.background
    always = case.others or (0,) * targets
    skies = []
    for f, c, first in zip(
        draw_noise(noise, runs, rng), rng.random(runs), rng.integers(targets, size=runs), strict=True
    ):
        others = tuple(n + int(draw < background) for n, draw in zip(always, rng.random(targets), strict=True))
        skies.append(Weather(float(f), float(c), int(first), others))
    return skies


def draw_noise(noise: float, count: int, rng: Generator) -> NDArray[np.float64]:
    """Draw log-normal factors with mean 1 and coefficient of variation `noise`."""
    sigma = np.sqrt(np.log1p(noise**2))
    factors: NDArray[np.float64] = np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)
    return factors


def first_runs(case: Case, decide: Decide, peers: Sequence[Peers], skies: Sequence[Weather]) -> Iterator[Outcome]:
    """Yield run after run; the policy sees earlier measurements, and which targets others use now."""
    machine, program, processes = case.machine, case.program, case.processes
    past: tuple[Past, ...] = ()
    for number, sky in enumerate(skies, start=1):
        # In collective I/O, all processes take part, although the library lets only some of them write.
        view = StripeView(
            application=program.name,
            processes=processes,
            targets=_targets(machine, sky.others),
            runs=past,
            peers=tuple(peers),
            shared_file=program.shared if past else None,
            io_processes=processes if past else None,
            request_size=program.block if past else 0,
            chance=sky.chance,
        )
        striping = decide(view)
        layout = striping.layout
        if layout.count > machine.targets or layout.start >= machine.targets:
            raise PolicyError(f"{layout} does not fit on {machine.targets} targets")
        layout = layout if layout.start != ANY else replace(layout, start=sky.first)
        expected = case.throughput(layout, sky.others)
        measured = expected * sky.factor
        past += (
            Past(
                run=number,
                processes=processes,
                count=layout.count,
                size=layout.size,
                throughput=measured,
                io_bytes=program.volume(processes),
            ),
        )
        yield Outcome(striping, layout.start, expected, measured)


@lru_cache(maxsize=64)
def _targets(machine: Machine, others: tuple[int, ...]) -> tuple[Target, ...]:
    return tuple(
        Target(index=t, free_bytes=_FREE, users=int(n > 0), busy=machine.target_bandwidth * (n > 0))
        for t, n in enumerate(others)
    )


def peers_of(machine: Machine, processes: int, noise: float, rng: Generator) -> tuple[Peers, ...]:
    """Return three other applications that tried 1, 4, 16 ... stripes of three sizes."""
    counts = [4**k for k in range(machine.targets.bit_length()) if 4**k <= machine.targets]
    peers = []
    for program, count, size in product(OTHERS, counts, SIZES):
        if program.shared or count <= 16:
            alone = throughput(machine, program, processes, Layout(count=count, size=size, start=0))
            peers.append(
                Peers(
                    processes=processes,
                    count=count,
                    size=size,
                    runs=RUNS,
                    throughput=alone * float(draw_noise(noise, RUNS, rng).mean()),
                    shared_file=program.shared,
                )
            )
    return tuple(peers)
