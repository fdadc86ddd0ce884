"""Responses of throughput to a layout, for `striping_noise.py`: three families that have little in common.

`physical` says how a parallel file system behaves, as it is usually described: `forebay` was developed on it.
`formulas` are others (scalability laws, bowls, knees, ripples, all with 5 % of roughness) that have nothing to do
with processes or patterns, so that what `forebay` takes for granted is wrong: it was looked at while developing.
`curves` are Forebay's made-up bandwidth curves, and in the last steps was looked at too.
`measured` are the bandwidths of FORGE scenarios on 1 to 8 I/O nodes, with their processes, requests and patterns: held
out, no number of `forebay` was chosen by it. An I/O node is not a stripe, but somebody else measured it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from forebay.decide.stripe.view import Peers
from forebay.model.curve import Curve
from forebay.model.layout import KIB, MIB
from forebay.model.units import parse_size
from forebay.profile.synthetic_curves import synthetic_curves

Rate = Callable[[int, int], float]
SIZES = tuple(256 * KIB << k for k in range(9))
MACHINES = (4, 256)  # targets: the paper's local cluster, and its large one


@dataclass(frozen=True, kw_only=True)
class Surface:
    """One application on one machine: `rate(count, size)` is its throughput in bytes/s, without noise."""

    name: str
    targets: int
    processes: int
    shared_file: bool
    request_size: int
    rate: Rate

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(1 << k for k in range(self.targets.bit_length()))

    @property
    def best(self) -> float:
        return max(self.rate(c, s) for c in self.counts for s in (*SIZES, max(SIZES[0], self.request_size)))


Make = Callable[[str, int, bool, Generator], Surface]


def _log2(x: float) -> float:
    return math.log2(x)


def _physical(kind: str, targets: int, shared: bool, rng: Generator) -> Surface:
    """Targets in parallel up to what the processes can feed, with the effect that `kind` names."""
    processes = int(2 ** rng.integers(0, 5 if targets == 4 else 11))
    target = rng.uniform(0.3e9, 1.5e9)
    ceiling = target * 2 ** rng.uniform(-3, 1.5)
    request = int(rng.choice([64 * KIB, 256 * KIB, MIB, 3 * MIB, 4 * MIB, 8 * MIB]))
    network = target * targets * rng.uniform(0.3, 1.0)
    knee, steep = 2 ** rng.uniform(0, math.log2(targets)), rng.uniform(0.3, 0.9)
    preferred, bend = rng.uniform(20, 25), rng.uniform(0.01, 0.05)
    penalty = rng.uniform(0.1, 0.4)
    overhead = rng.uniform(0.0, 0.05)
    interleaved = shared and rng.random() < 0.5

    def rate(count: int, size: int) -> float:
        if kind == "flat":
            return target * (1 - 0.01 * overhead * _log2(count)) * (1 - 0.001 * abs(_log2(size) - preferred))
        width = count if shared else min(targets, processes * count)
        if interleaved:  # the requests of a moment lie side by side, and large stripes leave targets idle
            width = min(width, math.ceil(processes * max(request, MIB) / size))
        offered = [width * target, processes * ceiling, network]
        if not shared:
            offered.append(processes * count * target)
        value = sum(x**-4.0 for x in offered) ** -0.25 * (1 - overhead * _log2(count) / 2)
        if kind == "peaked":
            value /= 1 + (count / knee) ** (2 * steep) / 2
        value *= math.exp(-bend * max(0.0, abs(_log2(size) - preferred) - 1) ** 1.5)
        if kind == "misaligned" and size % request and request % size:
            value *= 1 - penalty
        return float(value)

    return Surface(
        name=_name(kind, targets, shared),
        targets=targets,
        processes=processes,
        shared_file=shared,
        request_size=request,
        rate=rate,
    )


def _formula(kind: str, targets: int, shared: bool, rng: Generator) -> Surface:
    """A formula in which neither processes nor pattern play a part."""
    processes = int(2 ** rng.integers(0, 5 if targets == 4 else 11))
    request = int(rng.choice([0, 512 * KIB, MIB, 2 * MIB, 5 * MIB, 16 * MIB]))
    span = math.log2(targets)
    level = 10 ** rng.uniform(8, 10)
    contention, coherence = rng.uniform(0.0, 0.4), 10 ** rng.uniform(-5, -2)
    at, where = rng.uniform(-0.2, 1.1) * span, rng.uniform(18, 26)
    width, across, tilt = rng.uniform(2, 5), rng.uniform(4, 12), rng.uniform(-0.5, 0.5)
    knee, before, after = rng.uniform(0, 1) * span, rng.uniform(0.1, 0.69), rng.uniform(-0.3, 0.05)
    size_slope = rng.uniform(-0.08, 0.08)
    rough = rng.normal(0, 0.05, (12, 16))
    ripple, phase = rng.uniform(0.05, 0.2), rng.uniform(0, 2 * math.pi)

    def rate(count: int, size: int) -> float:
        c, s = _log2(count), _log2(size)
        if kind == "scalability law":
            value = math.log(count / (1 + contention * (count - 1) + coherence * count * (count - 1)))
            value += size_slope * min(s, 23)
        elif kind == "bowl":
            u, v = c - at - tilt * (s - 20), s - where
            value = -((u / width) ** 2) - (v / across) ** 2
        elif kind == "knee":
            value = before * min(c, knee) + after * max(0.0, c - knee) + size_slope * (s - 20)
        else:  # ripples: many small tops
            value = 0.1 * c + ripple * math.sin(1.3 * c + phase) + ripple * math.sin(1.1 * s + phase)
        return float(level * math.exp(value + rough[round(c), min(round(s), 31) - 16]))

    return Surface(
        name=_name(kind, targets, shared),
        targets=targets,
        processes=processes,
        shared_file=shared,
        request_size=request,
        rate=rate,
    )


def _curve(kind: str, targets: int, shared: bool, rng: Generator) -> Surface:
    """A made-up curve like measured ones, on up to 8 targets, with a preferred stripe size."""
    made = synthetic_curves("osts" if kind == "OSTs" else "io-nodes", 1, rng).by_name
    curve = next(iter(made.values()))
    processes = int(2 ** rng.integers(0, 9))
    preferred, bend = rng.uniform(18, 26), rng.uniform(0.0, 0.01)

    def rate(count: int, size: int) -> float:
        return float(curve.at(count) * math.exp(-bend * (_log2(size) - preferred) ** 2))

    return Surface(
        name=_name(kind, targets, shared),
        targets=targets,
        processes=processes,
        shared_file=shared,
        request_size=0,
        rate=rate,
    )


def measured(curves: Mapping[str, Curve]) -> Make:
    """Scenarios that FORGE measured, by their names (`1536p/32c/shared/contiguous/8192KiB/direct`), one at random."""

    def make(kind: str, targets: int, shared: bool, rng: Generator) -> Surface:
        names = [name for name in sorted(curves) if (name.split("/")[2] == "shared") == shared]
        name = str(rng.choice(names))
        processes, request = int(name.split("p/")[0]), int(parse_size(name.split("/")[4]))
        return Surface(
            name=_name(kind, targets, shared),
            targets=targets,
            processes=processes,
            shared_file=shared,
            request_size=request,
            rate=lambda count, _size: float(curves[name].at(count)),
        )

    return make


def _name(kind: str, targets: int, shared: bool) -> str:
    return f"{kind}, {'shared file' if shared else 'file per process'}, {targets} targets"


FAMILIES: dict[str, tuple[tuple[str, ...], tuple[int, ...], Make]] = {
    "physical": (("saturating", "peaked", "flat", "misaligned"), MACHINES, _physical),
    "formulas": (("scalability law", "bowl", "knee", "ripples"), MACHINES, _formula),
    "curves": (("OSTs", "I/O nodes"), (8, 8), _curve),
}


def surfaces(family: str, each: int, seed: int) -> Iterator[Surface]:
    """`each` surfaces of every kind, machine and pattern."""
    kinds, machines, make = FAMILIES[family]
    rng = np.random.default_rng([seed, *family.encode()])
    for kind, targets, shared in itertools.product(kinds, machines, (True, False)):
        for _ in range(each):
            yield make(kind, targets, shared, rng)


def peers_of(surface: Surface, family: str, rng: Generator) -> tuple[Peers, ...]:
    """What 30 other applications of the same machine and pattern did, three in four of them with the default layout."""
    kinds, _, make = FAMILIES[family]
    runs: dict[tuple[int, int, int], list[float]] = {}
    for _ in range(30):
        other = make(str(rng.choice(kinds)), surface.targets, surface.shared_file, rng)
        plain = rng.random() < 0.75
        count = 1 if plain else int(rng.choice(other.counts))
        size = MIB if plain or rng.random() < 0.7 else int(rng.choice(SIZES))
        near = abs(_log2(other.processes / surface.processes)) <= 1
        if near and other.rate(1, MIB) != surface.rate(1, MIB):  # measured ones can be drawn twice
            runs.setdefault((other.processes, count, size), []).append(other.rate(count, size) * rng.lognormal(0, 0.2))
    return tuple(
        Peers(processes=p, count=c, size=s, runs=len(v), throughput=float(np.mean(v)), shared_file=surface.shared_file)
        for (p, c, s), v in sorted(runs.items())
    )
