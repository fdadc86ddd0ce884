"""The first runs of an application under a policy: what it sees, what it answers, what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from forebay.decide.stripe.view import Past, Peers, StripeView, Striping
from forebay.model.errors import PolicyError
from forebay.model.layout import ANY, MIB, Layout, Target
from forebay.simulate.striping.flows import throughput
from forebay.simulate.striping.machine import GB, Machine, Program

Decide = Callable[[StripeView], Striping]
_FREE = 256 * 10**9  # bytes on every target: space is no matter here


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An application with so many processes on a machine, beside `others`: endless flows on each target."""

    machine: Machine
    program: Program
    processes: int
    others: tuple[int, ...] = ()

    def expected(self, layout: Layout, others: tuple[int, ...] = ()) -> float:
        """Bytes per second without noise."""
        beside = others or self.others
        # Where nobody else is, all first targets are alike.
        start = layout.start if any(beside) else 0
        return _throughput_of(self.machine, self.program, self.processes, layout.count, layout.size, start, beside)


@dataclass(frozen=True, slots=True)
class Weather:
    """What chance does to one run: to its throughput, to the policy, and who else is on the targets.

    `first` is where the file system begins a file that may begin anywhere.
    """

    factor: float
    chance: float
    first: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what was decided, where it began, its bytes per second without noise, and those that were measured."""

    striping: Striping
    first: int
    expected: float
    measured: float


def weather(case: Case, runs: int, noise: float, rng: Generator) -> list[Weather]:
    """The same for every policy. `noise` is the coefficient of variation of the throughput."""
    targets = case.machine.targets
    drawn = zip(noisy(noise, runs, rng), rng.random(runs), rng.integers(targets, size=runs), strict=True)
    return [Weather(float(f), float(c), int(first), _others(case, rng.random(targets))) for f, c, first in drawn]


def noisy(noise: float, count: int, rng: Generator) -> NDArray[np.float64]:
    """Log-normal factors with mean 1 and coefficient of variation `noise`."""
    sigma = np.sqrt(np.log1p(noise**2))
    factors: NDArray[np.float64] = np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)
    return factors


def first_runs(case: Case, decide: Decide, peers: Sequence[Peers], skies: Sequence[Weather]) -> Iterator[Outcome]:
    """Run after run; the policy sees what was measured before, and which targets others use now."""
    past: tuple[Past, ...] = ()
    for number, sky in enumerate(skies, start=1):
        striping = decide(_view(case, past, tuple(peers), sky))
        _check(striping, case)
        layout = striping.layout if striping.layout.start != ANY else replace(striping.layout, start=sky.first)
        expected = case.expected(layout, sky.others)
        measured = expected * sky.factor
        past += (_past(case, number, layout, measured),)
        yield Outcome(striping, layout.start, expected, measured)


def _view(case: Case, past: tuple[Past, ...], peers: tuple[Peers, ...], sky: Weather) -> StripeView:
    # All processes take part in collective I/O too; that only some of them write is the library's doing.
    return StripeView(
        application=case.program.name,
        processes=case.processes,
        targets=_targets(case.machine, sky.others),
        runs=past,
        peers=peers,
        shared_file=case.program.shared if past else None,
        io_processes=case.processes if past else None,
        request_size=case.program.block if past else 0,
        chance=sky.chance,
    )


def _past(case: Case, number: int, layout: Layout, measured: float) -> Past:
    return Past(
        run=number,
        processes=case.processes,
        count=layout.count,
        size=layout.size,
        throughput=measured,
        io_bytes=case.program.volume(case.processes),
    )


def _others(case: Case, draws: NDArray[np.float64]) -> tuple[int, ...]:
    own = case.others or (0,) * case.machine.targets
    return tuple(n + int(draw < case.machine.background) for n, draw in zip(own, draws, strict=True))


def _check(striping: Striping, case: Case) -> None:
    if striping.layout.count > case.machine.targets or striping.layout.start >= case.machine.targets:
        raise PolicyError(f"{striping.layout} does not fit on the {case.machine.targets} targets there are")


@lru_cache(maxsize=64)
def _targets(machine: Machine, others: tuple[int, ...]) -> tuple[Target, ...]:
    return tuple(
        Target(index=t, free_bytes=_FREE, users=int(n > 0), busy=machine.target_bandwidth * (n > 0))
        for t, n in enumerate(others)
    )


@lru_cache(maxsize=20_000)
def _throughput_of(
    machine: Machine, program: Program, processes: int, count: int, size: int, start: int, others: tuple[int, ...]
) -> float:
    return throughput(machine, program, processes, Layout(count=count, size=size, start=start), others or None)


OTHERS = (
    Program(name="climate", block=8 * MIB, process_bytes=GB, shared=True),
    Program(name="checkpoints", block=4 * MIB, process_bytes=GB),
    Program(name="statistics", block=MIB, process_bytes=GB // 4, shared=True, aligned=False),
)
SIZES = (MIB, 8 * MIB, 16 * MIB)  # the three that are used most (Kim et al. 2022, Table 3)
RUNS = 3  # of each application with each layout


def peers_of(machine: Machine, processes: int, noise: float, rng: Generator) -> tuple[Peers, ...]:
    """Three other applications that tried counts of 1, 4, 16 ... targets with three stripe sizes.

    Files of their own are not striped over more than 16 targets, as nobody does that.
    """
    found = []
    for program, count, size in product(OTHERS, _counts(machine.targets), SIZES):
        if program.shared or count <= 16:
            alone = throughput(machine, program, processes, Layout(count=count, size=size, start=0))
            found.append(
                Peers(
                    processes=processes,
                    count=count,
                    size=size,
                    runs=RUNS,
                    throughput=alone * float(noisy(noise, RUNS, rng).mean()),
                    shared_file=program.shared,
                )
            )
    return tuple(found)


def _counts(targets: int) -> list[int]:
    return [4**k for k in range(targets.bit_length()) if 4**k <= targets]
