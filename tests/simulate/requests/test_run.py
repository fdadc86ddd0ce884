"""Whole runs: nothing is lost, chance is repeatable, and windows do what they did to the paper's authors."""

import numpy as np
import pytest

from forebay.decide.order.queue_layout import NONE
from forebay.decide.order.slots import first
from forebay.decide.policy import order
from forebay.decide.registry import policies
from forebay.model.errors import BadInput, PolicyError, UnknownName
from forebay.model.kernels import kernel
from forebay.model.layout import KIB
from forebay.model.situation import PATTERNS
from forebay.profile.request_watch import TALLY
from forebay.simulate.requests.run import Forwarding, Outcome, Simulation, simulate_requests
from forebay.simulate.requests.servers import ServerModel, contended_servers, disk, flash
from forebay.simulate.requests.workload import PAPER_WINDOWS, Workload
from support.fields import replace_field

MIB = 1 << 20
MILLISECOND = 1_000_000


def workload(
    pattern: str = "shared-strided",
    operation: str = "read",
    request: int = 32 * KIB,
    *,
    processes: int = 128,
    total: int = 256 * MIB,
    think: float = 0.0,
) -> Workload:
    return Workload(
        processes=processes, pattern=pattern, operation=operation, request=request, total=total, think=think
    )


def column(outcome: Outcome, name: str) -> np.ndarray:
    found: np.ndarray = outcome.periods[:, :, TALLY.index(name)]
    return found


def pieces(work: Workload, stripe: int) -> list[int]:
    """Of each request, into how many the stripes divide it."""
    begins = (row["base"] + i * row["step"] for row in work.rows() for i in range(row["requests"]))
    return [(begin + work.request - 1) // stripe - begin // stripe + 1 for begin in begins]


def gains(nodes: int, work: Workload) -> list[float]:
    """Of each of the paper's windows over fifo."""
    fifo = simulate_requests(Forwarding(nodes=nodes), work)
    layers = (Forwarding(nodes=nodes, scheduler="twins", window=window) for window in PAPER_WINDOWS)
    return [simulate_requests(layer, work).bandwidth / fifo.bandwidth - 1 for layer in layers]


@pytest.mark.parametrize("scheduler", sorted(policies("order")))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_scheduler_serves_every_byte_once(scheduler: str, pattern: str) -> None:
    work = workload(pattern, "write", 100_000, processes=24, total=24_000_000)
    found = simulate_requests(Forwarding(nodes=3, scheduler=scheduler, aggregate=0), work, period=0.01)
    assert (found.requests, found.bytes) == (240, 24_000_000)
    assert column(found, "writes").sum() == 240
    assert column(found, "bytes_written").sum() == 24_000_000
    assert column(found, "reads").sum() == 0
    assert found.messages == sum(pieces(work, 64 * KIB))


def test_contiguous_parts_go_as_one_message() -> None:
    work = workload("shared-strided", total=16 * MIB)
    single = simulate_requests(Forwarding(nodes=1, scheduler="to-agg", aggregate=0), work)
    whole = simulate_requests(Forwarding(nodes=1, scheduler="to-agg", aggregate=MIB), work)
    assert whole.messages < single.messages == 512
    assert column(whole, "bytes_read").sum() == 16 * MIB
    assert whole.bandwidth > single.bandwidth


def test_the_same_seed_gives_the_same_run_and_another_another() -> None:
    layer, work = Forwarding(nodes=2, scheduler="twins"), workload(total=16 * MIB)
    one, same, other = (simulate_requests(layer, work, seed=seed, period=0.01) for seed in (1, 1, 2))
    assert one.seconds == same.seconds != other.seconds
    assert np.array_equal(one.periods, same.periods)


def test_a_run_in_steps_is_the_run() -> None:
    layer, work = Forwarding(nodes=2, scheduler="twins"), workload(total=16 * MIB)
    simulation = Simulation(layer, [work], seed=3)
    while not simulation.is_over:
        simulation.advance(int(simulation.now + MILLISECOND))
    assert simulation.outcome().seconds == simulate_requests(layer, work, seed=3).seconds


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("operation", ["read", "write"])
def test_one_io_node_loses_with_long_windows_and_gains_with_none(pattern: str, operation: str) -> None:
    found = gains(1, workload(pattern, operation, total=1024 * MIB))
    assert max(found) < 0.03
    assert found[-1] < -0.3


def test_strided_reads_gain_with_long_windows() -> None:
    found = gains(4, workload("shared-strided"))
    assert min(found) > 0.05
    assert max(found) > 0.25
    assert found.index(max(found)) >= 4


def test_contiguous_reads_gain_most_in_between_or_with_the_longest() -> None:
    found = gains(4, workload("shared-contiguous"))
    assert found[3] > 0.15
    assert found[3] > max(found[:3]) and found[3] > max(found[4:6])


def test_file_per_process_gains_little() -> None:
    found = gains(4, workload("file-per-process"))
    assert min(found) > -0.01 and 0.04 < max(found) < 0.12


def test_contiguous_writes_through_two_nodes_lose_with_long_windows() -> None:
    found = gains(2, workload("shared-contiguous", "write"))
    assert abs(found[0]) < 0.03
    assert max(found[4:]) < -0.3


def test_who_does_not_wait_does_not_lose_what_waiting_loses() -> None:
    work = workload("shared-contiguous", total=1024 * MIB)
    waits, works, fifo = (
        simulate_requests(Forwarding(nodes=2, scheduler=s, window=2 * MILLISECOND), work).bandwidth
        for s in ("twins", "twins-work-conserving", "fifo")
    )
    assert waits < 0.7 * fifo
    assert works > fifo


@pytest.mark.parametrize("server", [contended_servers(), disk(), flash()])
def test_every_kind_of_server_serves_all(server: ServerModel) -> None:
    found = simulate_requests(Forwarding(nodes=2, server=server), workload(total=8 * MIB))
    assert column(found, "bytes_read").sum() == 8 * MIB
    assert found.messages == 256


def test_processes_that_think_ask_for_less() -> None:
    busy = simulate_requests(Forwarding(nodes=2), workload(total=32 * MIB, think=1e-9), period=0.01)
    idle = simulate_requests(Forwarding(nodes=2), workload(total=32 * MIB, think=0.05), period=0.01)
    assert idle.bandwidth < 0.2 * busy.bandwidth
    assert column(idle, "load").mean() < 0.2 * column(busy, "load").mean()
    # 8 requests after 50 ms each: the slowest of 128 processes needs longer than the mean.
    assert 0.4 < idle.seconds < 1.5


def test_window_and_intensity_change_while_it_runs() -> None:
    simulation = Simulation(Forwarding(nodes=1, scheduler="twins", window=125_000), [workload(think=1e-9)], period=0.02)
    simulation.advance(20 * MILLISECOND)
    simulation.set_window(8 * MILLISECOND)
    simulation.advance(60 * MILLISECOND)
    simulation.set_think(0.05)
    simulation.advance(200 * MILLISECOND)
    short, _, long, *_, idle = simulation.rows[:, 0, TALLY.index("bytes_read")]
    assert idle < long < 0.7 * short


def test_a_period_goes_on_after_the_end() -> None:
    simulation = Simulation(Forwarding(nodes=1), [workload(total=8 * MIB)], period=0.5)
    simulation.advance(500 * MILLISECOND)
    assert simulation.is_over
    simulation.end_period(500 * MILLISECOND)
    simulation.end_period(500 * MILLISECOND)
    [[row]] = simulation.rows
    assert row[TALLY.index("bytes_read")] == 8 * MIB
    assert 0 < row[TALLY.index("busy")] < 0.2


def test_intensity_does_not_change_where_nobody_thinks() -> None:
    with pytest.raises(BadInput, match="think"):
        Simulation(Forwarding(nodes=1), [workload()]).set_think(0.1)


def test_workloads_run_side_by_side() -> None:
    reads, writes = workload(total=16 * MIB), workload("file-per-process", "write", total=8 * MIB)
    found = simulate_requests(Forwarding(nodes=2), reads, writes)
    assert column(found, "bytes_read").sum() == 16 * MIB
    assert column(found, "bytes_written").sum() == 8 * MIB
    assert found.seconds > simulate_requests(Forwarding(nodes=2), reads).seconds


@pytest.mark.parametrize(("mapping", "nodes"), [("block", [0, 0, 0, 1, 1, 1]), ("round-robin", [0, 1, 0, 1, 0, 1])])
def test_processes_use_io_nodes_in_blocks_or_in_turn(mapping: str, nodes: list[int]) -> None:
    simulation = Simulation(Forwarding(nodes=2, mapping=mapping), [workload(processes=6)])
    assert simulation.processes["node"].tolist() == nodes


def test_an_unknown_mapping_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UnknownName, match="no mapping 'blocks'; did you mean 'block'"):
        Forwarding(nodes=2, mapping="blocks")


def test_what_is_observed_is_a_value() -> None:
    found = simulate_requests(Forwarding(nodes=2), workload(total=16 * MIB), period=0.01)
    whole, rest = found.observe(0, 1), found.observe(len(found.periods) - 1, 1)
    assert (whole.seconds, whole.files, whole.smallest, whole.largest) == (0.01, 1, 32 * KIB, 32 * KIB)
    assert rest.seconds == pytest.approx(found.seconds - 200e-6 - 0.01 * (len(found.periods) - 1))
    assert whole.operation == "read"


@order("oldest", patient=False)
@kernel
def oldest(q: np.ndarray, _now: int) -> int:
    """As fifo."""
    return first(q)


@order("stubborn", patient=False)
@kernel
def never(_q: np.ndarray, _now: int) -> int:
    """Sends nothing."""
    return NONE


def test_a_scheduler_of_your_own_runs() -> None:
    work = workload(total=8 * MIB)
    assert simulate_requests(Forwarding(nodes=2, scheduler=oldest), work).seconds == (
        simulate_requests(Forwarding(nodes=2), work).seconds
    )


def test_a_scheduler_that_sends_nothing_is_found_out() -> None:
    with pytest.raises(PolicyError, match="stubborn: leaves requests waiting"):
        simulate_requests(Forwarding(nodes=1, scheduler=never), workload(total=8 * MIB))


@pytest.mark.parametrize("field", ["nodes", "servers", "stripe", "in_flight", "to_client", "reading"])
def test_a_layer_that_cannot_be(field: str) -> None:
    with pytest.raises(BadInput, match="must be"):
        replace_field(Forwarding(nodes=1), field, -1)
