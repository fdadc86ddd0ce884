"""What a byte costs: each effect of the layout alone, and the public measurements that the numbers are from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.model.layout import MIB, Layout
from forebay.simulate.striping.flows import aggregators, costs, throughput, writing_nodes
from forebay.simulate.striping.machine import (
    CORI,
    FIO_RANDOM,
    FIO_SEQUENTIAL,
    LOCAL,
    VPIC,
    VPIC_COLLECTIVE,
    VPIC_INDEPENDENT,
    Machine,
    Program,
)
from support.fields import replace_field

ACCEPTED = replace(CORI, targets=248, background=0.0)


def test_the_lock_cost_gives_the_shared_file_rate_of_coris_acceptance_test() -> None:
    ior = Program(name="IOR", block=8 * MIB, process_bytes=400 * MIB, shared=True)
    reached = throughput(ACCEPTED, ior, 960 * 32, Layout(count=248, size=8 * MIB))
    assert reached == pytest.approx(344_016.32 * MIB, rel=0.02)


def test_a_file_for_each_process_gives_the_rate_that_cori_is_known_for() -> None:
    ior = Program(name="IOR", block=4 * MIB, process_bytes=6552 * MIB)
    # 3,840 files on 248 targets: some carry 16 and some 15.
    reached = throughput(replace(ACCEPTED, processes_per_node=4), ior, 960 * 4, Layout(count=1))
    assert reached == pytest.approx(700e9, rel=0.05)


def test_locks_matter_between_nodes_only() -> None:
    one, two = (costs(CORI, VPIC_INDEPENDENT, n, 256, MIB).target for n in (32, 64))
    assert two > one
    without = replace(CORI, lock_seconds=0.0)
    assert costs(without, VPIC_INDEPENDENT, 64, 256, MIB).target == pytest.approx(one)
    assert costs(CORI, VPIC_COLLECTIVE, 64, 256, MIB).target == pytest.approx(one)


def test_larger_stripes_need_fewer_locks_and_fewer_rounds() -> None:
    assert (
        costs(CORI, VPIC_INDEPENDENT, 2048, 256, 16 * MIB).target < costs(CORI, VPIC_INDEPENDENT, 2048, 256, MIB).target
    )
    assert costs(LOCAL, VPIC, 4, 4, 8 * MIB).stream < costs(LOCAL, VPIC, 4, 4, MIB).stream


def test_too_large_stripes_leave_targets_idle() -> None:
    fast = replace(LOCAL, process_bandwidth=1e10)
    streams = [costs(fast, FIO_SEQUENTIAL, 1, 4, size * MIB).stream for size in (8, 32, 128, 1024)]
    assert streams == sorted(streams)
    assert streams[0] < streams[1] < streams[2] < streams[3]


def test_random_writes_are_slower_everywhere() -> None:
    random, sequential = (costs(LOCAL, program, 1, 4, MIB) for program in (FIO_RANDOM, FIO_SEQUENTIAL))
    assert random.target > sequential.target and random.stream > sequential.stream


def test_unaligned_blocks_are_cut_once_more() -> None:
    aligned = Program(name="a", block=4 * MIB, process_bytes=MIB, shared=True)
    askew = replace(aligned, aligned=False)
    one_each = replace(CORI, processes_per_node=1)
    assert costs(one_each, askew, 8, 8, 4 * MIB).target > costs(one_each, aligned, 8, 8, 4 * MIB).target


@pytest.mark.parametrize(
    ("machine", "program", "processes", "count", "writers", "nodes"),
    [
        (LOCAL, VPIC, 8, 4, 1, 1),  # one aggregator for each node
        (CORI, VPIC_COLLECTIVE, 2048, 256, 256, 64),  # one for each stripe
        (CORI, VPIC_COLLECTIVE, 2048, 8, 8, 8),
        (CORI, VPIC_COLLECTIVE, 32, 256, 32, 1),
        (CORI, VPIC_INDEPENDENT, 128, 1, 128, 4),
    ],
)
def test_who_writes(machine: Machine, program: Program, processes: int, count: int, writers: int, nodes: int) -> None:
    assert aggregators(machine, program, processes, count) == writers
    assert writing_nodes(machine, program, processes, count) == nodes


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target_bandwidth", 0.0, "target_bandwidth must be positive"),
        ("lock_seconds", -1.0, "lock_seconds must be finite and not negative"),
        ("noise", float("inf"), "noise must be finite and not negative"),
        ("random_share", 1.5, "random_share must be above 0"),
    ],
)
def test_impossible_machines_are_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace_field(LOCAL, field, value)


def test_impossible_programs_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 byte"):
        Program(name="none", block=0, total_bytes=1)
    with pytest.raises(ValueError, match="at least 1 byte"):
        Program(name="both", block=1, total_bytes=1, process_bytes=1)
    with pytest.raises(ValueError, match="needs a shared file"):
        Program(name="alone", block=1, total_bytes=1, collective=True)
