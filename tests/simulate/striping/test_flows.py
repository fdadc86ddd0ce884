"""One run on the sharing kernel: against arithmetic by hand, a naive oracle, and what no run can exceed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.layout import KIB, MIB, Layout
from forebay.simulate.striping.flows import aggregators, costs, finish_times, throughput, writing_nodes
from forebay.simulate.striping.machine import (
    CORI,
    FIO_RANDOM,
    FIO_SEQUENTIAL,
    GCRM,
    LOCAL,
    VORPAL,
    VPIC,
    VPIC_INDEPENDENT,
    Machine,
    Program,
)
from support.fields import replace_field

Run = tuple[Machine, Program, int, Layout, tuple[int, ...]]

# A machine without overheads: what a run gets can be worked out in one's head.
PLAIN = Machine(
    name="plain",
    targets=4,
    target_bandwidth=100.0,
    random_share=1.0,
    process_bandwidth=1e9,
    node_bandwidth=1e9,
    processes_per_node=8,
    aggregator_per_target=False,
    pack_bandwidth=1e12,
    rpc_seconds=0.0,
    client_seconds=0.0,
    lock_seconds=0.0,
    round_seconds=0.0,
    call_seconds=0.0,
    noise=0.0,
)
OWN = Program(name="own files", block=MIB, total_bytes=8000)
SHARED = Program(name="shared file", block=MIB, process_bytes=8000, shared=True)

programs = st.sampled_from([FIO_SEQUENTIAL, FIO_RANDOM, VPIC, GCRM, VORPAL, VPIC_INDEPENDENT])
machines = st.sampled_from([LOCAL, replace(CORI, targets=16)])
sizes = st.integers(0, 12).map(lambda k: 64 * KIB << k)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    machine = draw(machines)
    count, start = draw(st.integers(1, machine.targets)), draw(st.integers(-1, machine.targets - 1))
    others = draw(st.lists(st.integers(0, 3), min_size=machine.targets, max_size=machine.targets))
    layout = Layout(count=count, size=draw(sizes), start=start)
    return machine, draw(programs), draw(st.integers(1, 70)), layout, tuple(others)


def naive(machine: Machine, program: Program, processes: int, layout: Layout, others: tuple[int, ...]) -> float:
    """Every target and node for itself: equal shares end a flow when all have had as much as it needs."""
    files, volume = program.files(processes), program.volume(processes)
    cost = costs(machine, program, processes, layout.count, layout.size)
    loads: dict[tuple[str, int], list[float]] = {}
    target = max(layout.start, 0)
    for file in range(files):
        for _ in range(layout.count):
            work = cost.target * volume / files / layout.count
            loads.setdefault(("target", target % machine.targets), []).append(work)
            target += 1
        if not program.shared:
            loads.setdefault(("node", file // machine.processes_per_node), []).append(cost.node * volume / files)
    if program.shared:
        nodes = writing_nodes(machine, program, processes, layout.count)
        loads |= {("node", n): [cost.node * volume / nodes] for n in range(nodes)}
    slowest = cost.stream * volume / files
    for (kind, index), works in loads.items():
        endless = others[index] if kind == "target" else 0
        slowest = max(slowest, sum(works) + endless * max(works))
    return volume / slowest


# By hand


def test_two_files_on_one_target_take_the_time_of_both() -> None:
    assert throughput(PLAIN, OWN, 1, Layout(count=1)) == pytest.approx(100)
    both = replace(PLAIN, targets=1)
    assert throughput(both, OWN, 2, Layout(count=1)) == pytest.approx(100)
    # Two more flows that never end leave each of the two files a quarter.
    assert throughput(both, OWN, 2, Layout(count=1), (2,)) == pytest.approx(50)


def test_files_of_a_run_follow_each_other_round_the_targets() -> None:
    assert throughput(PLAIN, OWN, 4, Layout(count=1)) == pytest.approx(400)
    assert throughput(PLAIN, OWN, 2, Layout(count=2, start=3)) == pytest.approx(400)
    # Three files of two stripes on four targets: two of them carry two stripes, and they set the pace.
    assert throughput(PLAIN, OWN, 3, Layout(count=2)) == pytest.approx(300)


def test_a_run_is_as_fast_as_its_slowest_stripe() -> None:
    assert throughput(PLAIN, SHARED, 4, Layout(count=4), (1, 0, 0, 0)) == pytest.approx(200)
    assert throughput(PLAIN, SHARED, 4, Layout(count=3, start=1), (1, 0, 0, 0)) == pytest.approx(300)


def test_a_process_and_a_node_are_ceilings() -> None:
    assert throughput(replace(PLAIN, process_bandwidth=150.0), OWN, 1, Layout(count=4)) == pytest.approx(150)
    assert throughput(replace(PLAIN, process_bandwidth=150.0), OWN, 2, Layout(count=4)) == pytest.approx(300)
    assert throughput(replace(PLAIN, node_bandwidth=250.0), OWN, 4, Layout(count=1)) == pytest.approx(250)
    two = replace(PLAIN, node_bandwidth=150.0, processes_per_node=2)
    assert throughput(two, SHARED, 4, Layout(count=4)) == pytest.approx(300)


def test_flows_of_different_length_leave_room_when_they_end() -> None:
    # 1, 2 and 4 seconds of work: thirds until 3, halves until 5, then the last one alone.
    ends = finish_times(np.array([0, 0, 0]), np.array([2.0, 1.0, 4.0]), np.zeros(1, dtype=np.int64))
    assert ends == pytest.approx([5.0, 3.0, 7.0])


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 100)), min_size=1, max_size=30), st.integers(0, 3))
def test_flows_end_when_everybody_had_as_much(flows: list[tuple[int, float]], endless: int) -> None:
    where, work = np.array([r for r, _ in flows]), np.array([w for _, w in flows])
    ends = finish_times(where, work, np.full(4, endless))
    for (r, w), end in zip(flows, ends, strict=True):
        assert end == pytest.approx(sum(min(w, other) for s, other in flows if s == r) + endless * w)


# Always


@given(runs())
def test_the_kernel_agrees_with_the_naive_oracle(run: Run) -> None:
    assert throughput(*run) == pytest.approx(naive(*run), rel=1e-9)


@given(runs())
def test_nothing_is_exceeded(run: Run) -> None:
    machine, program, processes, layout, _ = run
    reached = throughput(*run)
    touched = min(machine.targets, layout.count * program.files(processes))
    assert reached <= touched * machine.target_bandwidth * (1 + 1e-9)
    assert reached <= machine.nodes(processes) * machine.node_bandwidth * (1 + 1e-9)
    writers = aggregators(machine, program, processes, layout.count)
    assert reached <= writers * machine.process_bandwidth * (1 + 1e-9)


@given(
    runs(),
    st.sampled_from(["target_bandwidth", "process_bandwidth", "node_bandwidth", "pack_bandwidth", "dirty_bytes"]),
    st.floats(1, 10),
)
def test_more_bandwidth_never_slows_a_run_down(run: Run, name: str, factor: float) -> None:
    better = replace_field(run[0], name, factor * getattr(run[0], name))
    assert throughput(better, *run[1:]) >= throughput(*run) * (1 - 1e-9)


@given(runs(), st.sampled_from(["rpc_seconds", "client_seconds", "lock_seconds", "round_seconds", "call_seconds"]))
def test_an_overhead_never_speeds_a_run_up(run: Run, name: str) -> None:
    assert throughput(replace_field(run[0], name, 0.0), *run[1:]) >= throughput(*run) * (1 - 1e-9)


@given(runs())
def test_others_never_speed_a_run_up(run: Run) -> None:
    assert throughput(*run[:-1]) >= throughput(*run) * (1 - 1e-9)


@pytest.mark.parametrize("layout", [Layout(count=5), Layout(count=1, start=4)])
def test_a_layout_that_does_not_fit_is_refused(layout: Layout) -> None:
    with pytest.raises(ValueError, match="does not fit on 4 targets"):
        throughput(LOCAL, VPIC, 1, layout)
