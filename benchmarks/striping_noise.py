"""How fast, how safely and how well striping policies learn an application's best layout, under noise.

    .venv/bin/python benchmarks/striping_noise.py [SURFACES OF EACH KIND, 12 [FORGE RESULTS.csv]]

For three families of responses, and measured ones if there are (see `striping_surfaces.py`), with log-normal noise
of 5, 20 and 40 % from run to run, every policy decides 40 runs of the same application one after the other; all
policies see the same noise, and the same runs of other applications. All numbers are of throughput without noise:

- first: runs until a layout within 5 % of the best one was chosen (median; 41 is never);
- settled: runs until all layouts from there on are within 5 % (median), and the part of applications that never are;
- worst: the lowest throughput of a run against the best run before it, mean and lowest 5 % over applications;
- 20 runs: mean throughput of the first 20 runs against the best layout's, and as a ratio to that of `dca-io`.

Prints also how long a decision takes. Goal: `forebay` has more throughput over 20 runs than `dca-io` at every noise.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench import SEED, verdict
from striping_surfaces import FAMILIES, Surface, measured, peers_of, surfaces

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.stripe.view import Past, StripeView
from forebay.history.curves import read_curves
from forebay.model.layout import Target

NOISES = (0.05, 0.2, 0.4)
POLICIES = ("default", "tapp-io", "dca-io", "forebay")
RUNS, FIRST_RUNS = 40, 20
GOOD = 0.95


@dataclass(frozen=True, slots=True)
class Result:
    """One application under one policy."""

    kind: str
    first: int
    settled: int
    worst: float
    mean: float


def main() -> int:
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    if len(sys.argv) > 2:  # before the pool, whose processes are copies of this one
        FAMILIES["measured"] = (("measured",), (8,) * 4, measured(read_curves(Path(sys.argv[2])).by_name))
    cases = [(family, noise, name, each) for family in FAMILIES for noise in NOISES for name in POLICIES]
    with ProcessPoolExecutor() as pool:
        results = dict(zip(cases, pool.map(measure, cases), strict=True))
    reached = True
    for family in FAMILIES:
        for noise in NOISES:
            reached &= report({name: results[family, noise, name, each] for name in POLICIES}, family, noise)
    print(f"\nforebay over dca-io, at every noise and in every family: {verdict(reached)}")
    print(f"\n{decision_seconds() * 1e3:.2f} ms for a decision of forebay after {RUNS} runs on 256 targets")
    return 0


def report(results: dict[str, list[Result]], family: str, noise: float) -> bool:
    """Print a table; whether forebay has more throughput than dca-io."""
    base = float(np.mean([r.mean for r in results["dca-io"]]))
    print(f"\n{family}, {len(results['forebay'])} applications, {noise:.0%} noise")
    print("policy    first  settled  never   worst  lowest 5 %   20 runs   ratio")
    for name, found in results.items():
        worst, mean = np.array([r.worst for r in found]), float(np.mean([r.mean for r in found]))
        settled = np.array([r.settled for r in found])
        print(f"{name:8} {np.median([r.first for r in found]):6.0f} {np.median(settled):8.0f}", end="")
        print(f" {np.mean(settled > RUNS):6.0%} {worst.mean():7.3f} {np.quantile(worst, 0.05):11.3f}", end="")
        print(f" {mean:9.3f} {mean / base:7.3f}")
    losses = {k: v for k, v in by_kind(results).items() if v < 0.99}
    print("loses to dca-io:", "; ".join(f"{k} {v:.3f}" for k, v in losses.items()) or "nowhere")
    return float(np.mean([r.mean for r in results["forebay"]])) > base


def by_kind(results: dict[str, list[Result]]) -> dict[str, float]:
    """For every kind of surface, the throughput over 20 runs of forebay as a ratio to dca-io's."""
    kinds = dict.fromkeys(r.kind for r in results["forebay"])
    mean = {
        name: {kind: float(np.mean([r.mean for r in results[name] if r.kind == kind])) for kind in kinds}
        for name in ("forebay", "dca-io")
    }
    return {kind: mean["forebay"][kind] / mean["dca-io"][kind] for kind in kinds}


def measure(case: tuple[str, float, str, int]) -> list[Result]:
    family, noise, name, each = case
    policy = find("stripe", name)
    return [
        judge(surface, follow(surface, policy, noise, np.random.default_rng([SEED, number]), family))
        for number, surface in enumerate(surfaces(family, each, SEED))
    ]


def judge(surface: Surface, rates: list[float]) -> Result:
    good = np.array(rates) >= GOOD * surface.best
    bad = np.flatnonzero(~good)
    return Result(
        kind=surface.name,
        first=int(np.argmax(good)) + 1 if good.any() else RUNS + 1,
        settled=int(bad[-1]) + 2 if len(bad) else 1,
        worst=float((np.array(rates[1:]) / np.maximum.accumulate(rates)[:-1]).min()),
        mean=float(np.mean(rates[:FIRST_RUNS])) / surface.best,
    )


def follow(surface: Surface, policy: Policy, noise: float, rng: np.random.Generator, family: str) -> list[float]:
    """The throughput without noise of each run, decided one after the other."""
    peers = peers_of(surface, family, rng)
    noises, chances = rng.lognormal(0.0, noise, RUNS), rng.random(RUNS)
    runs: list[Past] = []
    rates: list[float] = []
    for number in range(RUNS):
        layout = policy.decide(view_of(surface, tuple(runs), peers=peers, chance=float(chances[number]))).layout
        rates.append(surface.rate(layout.count, layout.size))
        runs.append(past(surface, number, layout.count, layout.size, rates[-1] * float(noises[number])))
    return rates


def view_of(surface: Surface, runs: tuple[Past, ...], **more: object) -> StripeView:
    """What is known before the next run; the pattern only after the first."""
    return StripeView(
        application="a",
        processes=surface.processes,
        targets=tuple(Target(index=i) for i in range(surface.targets)),
        runs=runs,
        shared_file=surface.shared_file if runs else None,
        io_processes=surface.processes if runs else None,
        request_size=surface.request_size if runs else 0,
        **more,  # type: ignore[arg-type]
    )


def past(surface: Surface, number: int, count: int, size: int, throughput: float) -> Past:
    return Past(run=number, processes=surface.processes, count=count, size=size, throughput=throughput)


def decision_seconds() -> float:
    """Mean time of a decision of forebay after 40 runs on 256 targets."""
    surface = next(s for s in surfaces("physical", 1, SEED) if s.targets == 256)
    rng = np.random.default_rng(SEED)
    layouts = [(1 << int(rng.integers(0, 9)), 1 << int(rng.integers(18, 27))) for _ in range(RUNS)]
    runs = tuple(past(surface, i, c, s, surface.rate(c, s)) for i, (c, s) in enumerate(layouts))
    view = view_of(surface, runs, peers=peers_of(surface, "physical", rng))
    decide = find("stripe", "forebay").decide
    decide(view)
    begin = time.perf_counter()
    for _ in range(50):
        decide(view)
    return (time.perf_counter() - begin) / 50


if __name__ == "__main__":
    sys.exit(main())
