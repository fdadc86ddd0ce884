"""What other applications did on the same machine before: the history that a first run is decided by."""

from __future__ import annotations

from itertools import product

from numpy.random import Generator

from forebay.decide.stripe.view import Peers
from forebay.model.layout import MIB, Layout
from forebay.simulate.striping.flows import throughput
from forebay.simulate.striping.learn import noisy
from forebay.simulate.striping.machine import Machine
from forebay.simulate.striping.program import GB, Program

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
