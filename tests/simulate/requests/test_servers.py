"""What data servers take for single requests."""

import numpy as np
import pytest

from forebay.model.errors import BadInput
from forebay.model.kernels import kernel
from forebay.simulate.requests.engine import MEMORY
from forebay.simulate.requests.run import Forwarding, simulate_requests
from forebay.simulate.requests.servers import ServerModel, contended_servers, disk, flash
from forebay.simulate.requests.workload import Workload
from support.fields import replace_field

MICRO = 1000.0
READ, WRITE = 0, 1


class Asked:
    """A server that remembers; times in microseconds."""

    def __init__(self, server: ServerModel) -> None:
        self.model = server
        self.numbers, self.memory = np.array(self.model.numbers), np.full(MEMORY, -1)

    def time(
        self, *, now: int = 0, node: int = 0, file: int = 0, offset: int = 0, write: int = READ, present: int = 1
    ) -> float:
        taken = self.model.time(self.numbers, self.memory, now, node, file, offset, 60_000, write, present)
        return float(taken / MICRO)


def test_a_contended_server_adds_up_what_changes() -> None:
    server = Asked(contended_servers())
    assert server.time() == pytest.approx(60 + 100 + 40 + 500)
    assert server.time(offset=60_000) == pytest.approx(60 + 100)
    assert server.time(offset=0) == pytest.approx(60 + 100 + 30)
    assert server.time(offset=60_000, node=1) == pytest.approx(60 + 100 + 40)
    assert server.time(offset=0, file=1, node=1) == pytest.approx(60 + 100 + 500)


def test_another_node_costs_a_write_less_and_a_crowd_nothing() -> None:
    server = Asked(contended_servers())
    server.time()
    assert server.time(offset=60_000, node=1, write=WRITE, present=4) == pytest.approx(60 + 100 + 0.3 * 40)


def test_a_crowd_makes_reads_longer() -> None:
    server = Asked(contended_servers())
    server.time()
    assert server.time(offset=60_000, present=4) == pytest.approx((60 + 100) * 1.06)


def test_a_disk_that_goes_on_where_it_was_does_not_seek() -> None:
    server = Asked(disk())
    server.time()
    assert server.time(offset=60_000) == pytest.approx(50 + 60_000 / 180)


def test_a_disk_seeks_longer_the_farther_it_has_to() -> None:
    times = []
    for offset in (10**6, 10**9, 10**11, 10**12):
        server = Asked(disk())
        server.time()
        times.append(server.time(offset=offset))
    assert times == sorted(set(times))
    assert times[-1] == pytest.approx(50 + 60_000 / 180 + 16_000 + 1e6 / 240)  # the longest seek, half a turn


def test_files_are_apart_on_a_disk() -> None:
    near, far = Asked(disk(apart=1e6)), Asked(disk(apart=1e10))
    near.time(), far.time()
    assert near.time(file=3) < far.time(file=3)


def test_a_flash_channel_takes_latency_and_transfer() -> None:
    assert Asked(flash()).time() == pytest.approx(80 + 150)
    assert Asked(flash()).time(write=WRITE) == pytest.approx(30 + 150)
    assert flash().lanes == 8


def test_the_bus_of_a_flash_is_shared() -> None:
    server = Asked(flash(bus=60e6))
    assert server.time() == pytest.approx(1000)
    assert server.time() == pytest.approx(2000)
    assert server.time(now=10_000_000) == pytest.approx(1000)


@kernel
def always_the_same(
    numbers: np.ndarray,
    memory: np.ndarray,
    _now: int,
    _node: int,
    _file: int,
    _offset: int,
    _size: int,
    _write: int,
    _present: int,
) -> float:
    memory[3] += 1
    return float(numbers[0])


def test_a_model_of_your_own_serves() -> None:
    server = ServerModel(time=always_the_same, numbers=(5e6,))
    workload = Workload(processes=1, pattern="file-per-process", operation="read", request=4096, total=3 * 4096)
    found = simulate_requests(Forwarding(nodes=1, server=server, servers=2), workload)
    [start] = workload.starts(np.random.default_rng([0, 0])) / 1e9
    assert found.seconds == pytest.approx(start + 3 * (5e-3 + 2 * (200e-6 + 40e-6) + 26e-6))


def test_several_lanes_serve_at_the_same_time() -> None:
    workload = Workload(processes=4, pattern="file-per-process", operation="read", request=4096, total=4 * 4096)
    one, four = (
        simulate_requests(
            Forwarding(nodes=1, servers=1, server=ServerModel(time=always_the_same, numbers=(5e6,), lanes=n)), workload
        )
        for n in (1, 4)
    )
    assert one.seconds > 20e-3 > four.seconds


@pytest.mark.parametrize(("field", "wrong"), [("lanes", 0), ("noise", -0.1), ("noise", float("nan"))])
def test_a_model_that_cannot_be(field: str, wrong: float) -> None:
    model = ServerModel(time=always_the_same, numbers=())
    with pytest.raises(BadInput, match="must be"):
        replace_field(model, field, wrong)
