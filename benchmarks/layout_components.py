"""How fast files of different sizes are with layouts of several components, beside the best of one component.

    .venv/bin/python benchmarks/layout_components.py [APPLICATIONS OF EACH KIND, 60]

Draws applications that write large files alone, small files alone, or both, on machines of 4, 32 and 256 targets with
metadata servers whose costs differ by up to a factor of two from the assumed ones. Every policy decides the first 12
runs of each, with 5 % of noise. The last layout counts, without noise:

- `forebay` where the file system has components and data on MDTs, and where it has none (its peer in the same run);
- `dca-io`, and `default` (one stripe);
- the best layout of one component, which is found by trying all.

Goals: files of different sizes gain, and no application is more than 5 % slower than with the same policy without
components.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
from bench import SEED, verdict
from numpy.random import Generator

from forebay.decide.registry import find
from forebay.decide.stripe.view import PLAIN, Features
from forebay.model.layout import KIB, MIB, Layout
from forebay.simulate.striping.machine import CORI, LOCAL

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support.mixtures import ON_MDT, Files, MetadataServer, Mixture, repeat

RUNS, NOISE, MOST_LOSS = 12, 0.05, 0.95
GIB = 1 << 30
MACHINES = (LOCAL, replace(CORI, name="32 targets", targets=32, target_bandwidth=1e9), replace(CORI, background=0.0))
KINDS = ("large", "small", "mixed")
COMPARED = {"forebay, one component": ("forebay", PLAIN), "dca-io": ("dca-io", PLAIN), "default": ("default", PLAIN)}
BEST = "best of one component"


def main() -> int:
    each = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    cases = list(product(KINDS, range(each)))
    with ProcessPoolExecutor() as pool:
        results = list(pool.map(measure, cases, chunksize=4))
    reached = True
    print(f"{'files':8} {'peer':24} {'geometric mean':>14} {'lowest':>8} {'highest':>8}   (ratio of throughput)")
    for kind in KINDS:
        of_kind = [result for (which, _), (result, _) in zip(cases, results, strict=True) if which == kind]
        for peer in (*COMPARED, BEST):
            ratios = np.array([result[peer] for result in of_kind])
            mean = float(np.exp(np.log(ratios).mean()))
            print(f"{kind:8} {peer:24} {mean:14.3f} {ratios.min():8.3f} {ratios.max():8.3f}")
        same = np.array([result["forebay, one component"] for result in of_kind])
        reached &= bool(same.min() >= MOST_LOSS) and (kind != "mixed" or bool(np.log(same).mean() > 0))
    several = {
        kind: sum(more for (which, _), (_, more) in zip(cases, results, strict=True) if which == kind) for kind in KINDS
    }
    print("; ".join(f"{kind}: {number} of {each} applications get components" for kind, number in several.items()))
    print(f"mixed sizes gain, and nothing loses more than {100 * (1 - MOST_LOSS):.0f} %: {verdict(reached)}")
    return 0 if reached else 1


def measure(case: tuple[str, int]) -> tuple[dict[str, float], bool]:
    """Return the throughput of `forebay` relative to that of each peer, and whether its layout has components."""
    kind, number = case
    seed = [SEED, crc32(kind.encode()), number]
    run = draw(kind, np.random.default_rng(seed))

    def last(name: str, features: Features) -> Layout:
        rng = np.random.default_rng([*seed, 1])  # all policies meet the same noise
        return repeat(run, find("stripe", name).decide, features, RUNS, NOISE, rng)[-1]

    layout = last("forebay", ON_MDT)
    rate = run.throughput(layout)
    ratios = {peer: rate / run.throughput(last(*how)) for peer, how in COMPARED.items()}
    return ratios | {BEST: rate / max(map(run.throughput, plain_layouts(run.machine.targets)))}, bool(layout.before)


def plain_layouts(targets: int) -> Iterator[Layout]:
    counts = sorted({*(1 << k for k in range(targets.bit_length())), targets})
    for count, size in product(counts, (256 * KIB << k for k in range(9))):
        yield Layout(count=count, size=size)


def draw(kind: str, rng: Generator) -> Mixture:
    machine = MACHINES[int(rng.integers(len(MACHINES)))]
    processes = int(2 ** rng.integers(0, 10 if machine is not LOCAL else 5))
    metadata = MetadataServer().scale(float(2 ** rng.uniform(-1, 1)), float(2 ** rng.uniform(-1, 1)))
    files = []
    if kind != "small":
        shared = bool(rng.random() < 0.6)
        size = int(GIB * 2 ** rng.uniform(0, 8 if shared else 4))
        number = int(rng.integers(1, 5)) if shared else processes
        files.append(Files(number=number, size=size, block=8 * MIB, shared=shared))
    if kind != "large":
        for _ in range(int(rng.integers(1, 3))):
            size = int(2 ** rng.uniform(11, 22))
            number = int(10 ** rng.uniform(2.5, 5.5))
            files.append(Files(number=number, size=size, block=min(size, MIB)))
    return Mixture(name=kind, machine=machine, metadata=metadata, processes=processes, files=tuple(files))


if __name__ == "__main__":
    sys.exit(main())
