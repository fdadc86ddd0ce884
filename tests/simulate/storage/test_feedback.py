"""Jobs that do I/O on what they were granted: by hand, against a slow and obvious machine, and without limits."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from numpy.typing import NDArray

from forebay.decide.storage import policies as choose
from forebay.model.space_requests import Requests
from forebay.model.system import Disk, Platform
from forebay.simulate.storage import feedback as feedback_module
from forebay.simulate.storage import run as run_module
from forebay.simulate.storage.outcome import STATES
from forebay.simulate.storage.rules import Feedback, Rules
from forebay.simulate.storage.run import Run, run_storage
from support.examples import examples
from support.storage import CAPACITIES, CORRECT, GB, NaiveFeedback, platform_of, platforms, request_lists, requests_of

STORAGE = {policy.name: policy for policy in choose.STORAGE}
UNLIMITED = st.builds(
    Disk, capacity=CAPACITIES, write_bandwidth=st.just(math.inf), read_bandwidth=st.sampled_from([1e9, math.inf])
)
GBPS = 1e9


def ran(
    platform: Platform,
    asked: list[tuple[float, float, int]],
    volumes: list[float],
    *,
    policy: str = "first-fit",
    phases: int = 1,
    pfs: float = 0.5 * GBPS,
    **rules: Any,
) -> Run:
    feedback = Feedback(pfs=pfs, phases=phases)
    return run_storage(platform, requests_of(asked, volumes), STORAGE[policy], Rules(**rules), feedback=feedback)


def states(run: Run) -> list[str]:
    return [STATES[state] for state in run.verdicts["state"].tolist()]


# Without limits


@settings(max_examples=examples(150))
@given(
    platforms(UNLIMITED),
    request_lists(),
    st.sampled_from(sorted(STORAGE)),
    CORRECT,
    st.integers(1, 4),
    st.integers(0, 5),
    st.booleans(),
)
def test_with_infinite_bandwidth_everything_is_as_without_feedback(
    platform: Platform, requests: Requests, name: str, rules: Rules, phases: int, seed: int, idle: bool
) -> None:
    if idle:
        requests.volume[::2] = 0.0
    unlimited = platform_of(
        *[[(disk.capacity, math.inf) for disk in node.disks] for node in platform.nodes],
        servers=[len(server.nodes) for server in platform.servers],
    )
    with_io = run_storage(
        unlimited, requests, STORAGE[name], rules, seed=seed, feedback=Feedback(pfs=math.inf, phases=phases)
    )
    without = run_storage(unlimited, requests, STORAGE[name], rules, seed=seed)
    assert with_io.verdicts.tolist() == without.verdicts.tolist()
    assert with_io.parts[["bytes", "disk"]].tolist() == without.parts[["bytes", "disk"]].tolist()
    for name in ("ends", "disks", "nodes", "total"):
        assert getattr(with_io, name).tolist() == getattr(without, name).tolist()


# Against a slow and obvious machine


@st.composite
def jobs(draw: DrawFn) -> Requests:
    """Whole seconds that divide into phases; volumes so odd that nothing but what must ends at the same time."""
    count = draw(st.integers(1, 14))
    one = st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(1, 14), st.integers(0, 40))
    asked = draw(st.lists(one, min_size=count, max_size=count))
    if draw(st.booleans()):
        asked.sort(key=lambda ask: ask[0])
    odd = [math.sqrt(p) for p in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)]
    return requests_of(
        [(12.0 * start, 12.0 * duration, size * GB // 2) for start, duration, size, _ in asked],
        [float(round(volume * GB * root)) for (*_, volume), root in zip(asked, odd, strict=False)],
    )


LIMITED = st.builds(
    Disk,
    capacity=CAPACITIES,
    write_bandwidth=st.sampled_from([0.5 * GBPS, GBPS, 3 * GBPS, math.inf]),
    read_bandwidth=st.just(GBPS),
)


@settings(max_examples=examples(150))
@given(
    platforms(LIMITED, most=2),
    jobs(),
    st.sampled_from(["first-fit", "best-fit", "fill", "round-robin", "random", "forebay"]),
    st.sampled_from([0, 2 * GB, 3 * GB]),
    st.sampled_from([0, 3]),
    st.integers(1, 4),
)
def test_runs_agree_with_equal_shares_counted_anew_at_every_event(
    platform: Platform, requests: Requests, name: str, split: int, tries: int, phases: int
) -> None:
    assume(name != "forebay" or not split)
    rules, feedback = Rules(split=split, tries=tries, interval=30.0), Feedback(pfs=2 * GBPS, phases=phases)
    naive = NaiveFeedback(platform, requests, name, rules, feedback)
    assume(naive.gaps > 1e-6)  # else rounding decides what comes first
    run = run_storage(platform, requests, STORAGE[name], rules, feedback=feedback)
    assert states(run) == [verdict.state for verdict in naive.verdicts]
    assert run.verdicts["start"].tolist() == [verdict.start for verdict in naive.verdicts]
    found = list(zip(run.parts["disk"].tolist(), run.parts["bytes"].tolist(), strict=True))
    assert found == [part for verdict in naive.verdicts for part in verdict.parts]
    assert run.ends.tolist() == pytest.approx([float(verdict.end) for verdict in naive.verdicts], rel=1e-9, abs=1e-6)
    for used, use in zip(run.disks, naive.disks, strict=True):
        summary = use.summary()
        assert (used["most_bytes"], used["most_live"]) == (summary["most_bytes"], summary["most_live"])
        assert used["use_seconds"] == pytest.approx(float(summary["use_seconds"]), rel=1e-9, abs=1e-6)
        assert used["live_seconds"] == pytest.approx(float(summary["live_seconds"]), rel=1e-9, abs=1e-6)


# By hand

ONE = platform_of([(10 * GB, GBPS)])


@pytest.mark.parametrize("phases", [1, 2, 10])
def test_a_job_alone_takes_its_own_time_and_that_of_its_io(phases: int) -> None:
    run = ran(ONE, [(5.0, 100.0, 4 * GB)], [50e9], phases=phases)
    assert run.ends.tolist() == pytest.approx([5 + 100 + 50])
    assert run.disks["live_seconds"].tolist() == pytest.approx([150])
    assert run.total["last"] == pytest.approx(155)


def test_two_that_do_io_at_the_same_time_share_the_disk() -> None:
    # Both compute until 100; each gets half until the first has done its 10 GB at 120, the other goes on alone.
    run = ran(ONE, [(0.0, 100.0, GB), (0.0, 100.0, GB)], [10e9, 30e9])
    assert run.ends.tolist() == [120.0, 140.0]


def test_two_that_take_turns_are_in_nobodys_way() -> None:
    run = ran(ONE, [(0.0, 100.0, GB), (0.0, 130.0, GB)], [30e9, 30e9])
    assert run.ends.tolist() == [130.0, 160.0]


def test_io_in_phases_collides_less() -> None:
    # In phases of 10 GB at 50 and 110, and of the other at 60 and 120.
    run = ran(ONE, [(0.0, 100.0, GB), (10.0, 100.0, GB)], [20e9, 20e9], phases=2)
    assert run.ends.tolist() == [120.0, 130.0]


def test_a_node_can_be_slower_than_its_disks() -> None:
    node = platform_of([(GB, GBPS), (GB, GBPS)], network=GBPS)
    apart = ran(node, [(0.0, 100.0, GB), (0.0, 100.0, GB)], [30e9, 30e9])
    assert apart.parts["disk"].tolist() == [0, 1]
    assert apart.ends.tolist() == [160.0, 160.0]
    split = ran(node, [(0.0, 100.0, 2 * GB)], [30e9], split=GB)
    assert split.ends.tolist() == [130.0]
    wide = platform_of([(GB, GBPS), (GB, GBPS)], network=2 * GBPS)
    assert ran(wide, [(0.0, 100.0, 2 * GB)], [30e9], split=GB).ends.tolist() == [115.0]


def test_a_phase_ends_with_its_last_part() -> None:
    # 3 GB on the fast disk and 1 GB on the slow one.
    platform = platform_of([(3 * GB, 3 * GBPS)], [(10 * GB, 0.1 * GBPS)])
    run = ran(platform, [(0.0, 100.0, 4 * GB)], [4e9], split=3 * GB)
    assert run.parts[["disk", "bytes"]].tolist() == [(0, 3 * GB), (1, GB)]
    assert run.ends.tolist() == [110.0]


def test_who_is_refused_does_io_on_the_parallel_file_system() -> None:
    run = ran(ONE, [(0.0, 100.0, 20 * GB), (0.0, 100.0, 30 * GB), (0.0, 100.0, GB)], [20e9, 20e9, 20e9])
    assert states(run) == ["refused", "refused", "allocated"]
    assert run.ends.tolist() == [180.0, 180.0, 120.0]
    assert run.disks["most_bytes"].tolist() == [GB]
    assert run.total["last"] == 120.0


def test_who_overruns_is_in_the_way_of_who_asks_later() -> None:
    run = ran(ONE, [(0.0, 100.0, 8 * GB), (100.0, 50.0, 8 * GB)], [100e9, 0.0])
    assert states(run) == ["allocated", "refused"]
    assert run.ends.tolist() == [200.0, 150.0]


def test_who_was_granted_space_that_another_still_holds_fails() -> None:
    # The last asks for a start at 50, so the third is decided by then, when nobody knows that the first two,
    # who would be done at 200 alone, overrun because they share.
    asked = [(0.0, 100.0, 5 * GB), (0.0, 100.0, GB), (200.0, 50.0, 8 * GB), (50.0, 10.0, GB)]
    run = ran(ONE, asked, [100e9, 100e9, 10e9, 0.0])
    assert states(run) == ["allocated", "allocated", "failed", "allocated"]
    assert run.ends.tolist() == [300.0, 300.0, 270.0, 60.0]


def test_who_comes_again_waits_for_the_space_as_long_as_it_is_expected_to_take() -> None:
    # Its I/O alone is planned with: expected until 200, which is when it ends.
    run = ran(ONE, [(0.0, 100.0, 8 * GB), (100.0, 50.0, 8 * GB)], [100e9, 0.0], tries=12, interval=50.0)
    assert states(run) == ["allocated", "allocated"]
    assert run.verdicts["start"].tolist() == [0.0, 200.0]


def test_space_that_was_expected_to_be_held_longer_is_free_at_once() -> None:
    # Planned until 110 with the usual disk; the only one with room is ten times as fast, and free again at 101.
    platform = platform_of([(GB, GBPS), (GB, GBPS), (10 * GB, 10 * GBPS)])
    run = ran(platform, [(0.0, 100.0, 8 * GB), (105.0, 50.0, 8 * GB)], [10e9, 0.0])
    assert states(run) == ["allocated", "allocated"]
    assert run.ends.tolist() == [101.0, 155.0]


def test_a_job_of_no_time_holds_its_space_while_it_does_io() -> None:
    run = ran(ONE, [(0.0, 0.0, 8 * GB), (10.0, 10.0, 8 * GB), (80.0, 10.0, 8 * GB)], [30e9, 0.0, 0.0])
    assert states(run) == ["allocated", "refused", "allocated"]
    assert run.ends.tolist() == [30.0, 20.0, 90.0]


# Many


def many(count: int, seed: int) -> Requests:
    rng = np.random.default_rng(seed)
    asked = [(float(rng.integers(0, 200)), float(rng.integers(0, 300)), int(rng.integers(1, GB))) for _ in range(count)]
    return requests_of(asked, [float(rng.integers(0, 3 * GB)) for _ in range(count)])


def test_more_jobs_than_seats_on_one_disk() -> None:
    count = 150
    run = ran(platform_of([(count * GB, GBPS)]), [(0.0, 100.0, GB)] * count, [1e9] * count)
    assert run.ends.tolist() == pytest.approx([100.0 + count] * count)
    assert run.disks["most_live"].tolist() == [count]
    refused = ran(ONE, [(0.0, 100.0, 11 * GB)] * count, [1e9] * count, pfs=GBPS)
    assert refused.ends.tolist() == pytest.approx([100.0 + count] * count)


@pytest.mark.parametrize("seats", [1, 2, 8])
def test_seats_that_have_to_grow_change_nothing(seats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    platform = platform_of([(200 * GB, 0.3 * GBPS)], [(100 * GB, 0.2 * GBPS)] * 2, network=0.4 * GBPS)
    requests, rules = many(150, 1), Rules(split=GB // 2)
    runs = []
    for own in (seats, 1024):
        monkeypatch.setattr(feedback_module, "_SEATS", own)
        runs.append(run_storage(platform, requests, STORAGE["fill"], rules, feedback=Feedback(phases=3)))
    for name in ("verdicts", "parts", "ends", "disks", "nodes"):
        assert getattr(runs[0], name).tolist() == getattr(runs[1], name).tolist()


@pytest.mark.parametrize("policy", STORAGE)
def test_a_disk_is_busy_for_as_long_as_its_work_takes(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Any] = []

    def advance(state: Any, *others: Any) -> int:
        left[:] = [state]
        return int(feedback_module.advance(state, *others))

    monkeypatch.setattr(run_module, "advance", advance)
    platform = platform_of([(20 * GB, 0.3 * GBPS)], [(10 * GB, 0.2 * GBPS)] * 2, network=0.25 * GBPS)
    requests = many(120, 2)
    feedback = Feedback(pfs=0.1 * GBPS, phases=3)
    run = run_storage(platform, requests, STORAGE[policy], Rules(split=GB // 2), feedback=feedback)
    first: NDArray[np.int64] = run.verdicts["first"]
    last: NDArray[np.int64] = run.verdicts["last"]
    state: NDArray[np.int8] = run.verdicts["state"]
    size: NDArray[np.int64] = run.parts["bytes"]
    owner = np.repeat(np.arange(len(requests)), last - first)
    served = state == 3
    assert 10 < served.sum() < len(requests)
    shares = (requests.volume / requests.bytes)[owner] * size
    moved = np.bincount(run.parts["disk"][served[owner]], weights=shares[served[owner]], minlength=3)
    work = np.concatenate([moved, [moved[0], moved[1] + moved[2], requests.volume[~served].sum()]])
    bandwidth = np.array([0.3, 0.2, 0.2, 0.25, 0.25, 0.1]) * GBPS
    assert left[0].flows.resources["busy"].tolist() == pytest.approx((work / bandwidth).tolist())
    assert left[0].flows.resources["live"].tolist() == [0] * 6
    assert np.isinf(left[0].flows.marks).all()
