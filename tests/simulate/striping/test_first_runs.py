"""Run after run under a policy: what it sees, what it gets, and that chance is the same for all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.stripe.view import StripeView, Striping
from forebay.model.errors import PolicyError
from forebay.model.layout import MIB, Layout
from forebay.simulate.striping.first_runs import OTHERS, RUNS, Case, draw_noise, draw_weather, first_runs, peers_of
from forebay.simulate.striping.flows import throughput
from forebay.simulate.striping.machine import CORI, FIO_SEQUENTIAL, LOCAL, VPIC, VPIC_COLLECTIVE

ALONE = Case(machine=LOCAL, program=VPIC, processes=4)
BESIDE = ALONE._replace(others=(4, 4, 0, 0))


def always(layout: Layout, seen: list[StripeView] | None = None) -> Callable[[StripeView], Striping]:
    def decide(view: StripeView) -> Striping:
        if seen is not None:
            seen.append(view)
        return Striping(layout=layout, phase="rule", because="always")

    return decide


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_policy_sees_nothing_of_the_application_before_its_first_run_and_all_of_it_afterwards() -> None:
    seen: list[StripeView] = []
    outcomes = list(
        first_runs(ALONE, always(Layout(count=2, size=2 * MIB, start=1), seen), (), draw_weather(ALONE, 3, 0.1, rng()))
    )
    first, second, third = seen
    assert (first.runs, first.shared_file, first.io_processes, first.request_size) == ((), None, None, 0)
    assert (second.shared_file, second.io_processes, second.request_size) == (True, 4, 32 * MIB)
    assert [(p.run, p.count, p.size, p.processes) for p in third.runs] == [(1, 2, 2 * MIB, 4), (2, 2, 2 * MIB, 4)]
    assert [p.throughput for p in third.runs] == [o.measured for o in outcomes[:2]]
    assert third.runs[0].io_bytes == 4 * 256 * MIB


def test_a_policy_sees_which_targets_others_use() -> None:
    seen: list[StripeView] = []
    list(first_runs(BESIDE, always(Layout(count=1, start=3), seen), (), draw_weather(BESIDE, 1, 0.0, rng())))
    assert [t.users for t in seen[0].targets] == [1, 1, 0, 0]
    assert [t.busy > 0 for t in seen[0].targets] == [True, True, False, False]


def test_without_noise_a_run_reaches_what_the_model_says() -> None:
    layout = Layout(count=2, start=1)
    for outcome in first_runs(BESIDE, always(layout), (), draw_weather(BESIDE, 2, 0.0, rng())):
        assert outcome.measured == outcome.expected == throughput(LOCAL, VPIC, 4, layout, (4, 4, 0, 0))


def test_where_the_stripes_lie_matters_only_where_others_are() -> None:
    starts = [Layout(count=1, start=start) for start in range(4)]
    assert len({ALONE.throughput(layout) for layout in starts}) == 1
    slow, _, fast, _ = (BESIDE.throughput(layout) for layout in starts)
    assert fast == pytest.approx(5 * slow)


def test_the_same_seed_gives_the_same_weather_and_another_one_does_not() -> None:
    assert draw_weather(ALONE, 10, 0.2, rng(1)) == draw_weather(ALONE, 10, 0.2, rng(1))
    assert draw_weather(ALONE, 10, 0.2, rng(1)) != draw_weather(ALONE, 10, 0.2, rng(2))


def test_background_is_on_its_share_of_the_targets_and_changes_from_run_to_run() -> None:
    case = Case(machine=CORI, program=VPIC_COLLECTIVE, processes=32)
    skies = draw_weather(case, 200, 0.15, rng())
    busy = np.array([sky.others for sky in skies])
    assert busy.mean() == pytest.approx(CORI.background, rel=0.1)
    assert len({sky.others for sky in skies}) > 190


@given(st.floats(0, 1), st.integers(0, 2**32))
def test_noise_has_mean_one_and_the_variation_asked_for(noise: float, seed: int) -> None:
    factors = draw_noise(noise, 20_000, rng(seed))
    assert (factors > 0).all()
    assert factors.mean() == pytest.approx(1, abs=6 * noise / np.sqrt(20_000) + 1e-12)
    if noise < 0.5:
        assert factors.std() == pytest.approx(noise, rel=0.15, abs=1e-12)


@pytest.mark.parametrize("layout", [Layout(count=5), Layout(count=1, start=4)])
def test_a_policy_that_leaves_the_machine_is_at_fault(layout: Layout) -> None:
    with pytest.raises(PolicyError, match="does not fit on 4 targets"):
        list(first_runs(ALONE, always(layout), (), draw_weather(ALONE, 1, 0.0, rng())))


def test_a_layout_with_an_open_start_begins_where_the_file_system_happens_to() -> None:
    skies = draw_weather(BESIDE, 50, 0.0, rng())
    outcomes = list(first_runs(BESIDE, always(Layout(count=1)), (), skies))
    assert {o.first for o in outcomes} == {0, 1, 2, 3}
    assert [o.expected for o in outcomes] == [BESIDE.throughput(Layout(count=1, start=s.first)) for s in skies]
    fixed = first_runs(BESIDE, always(Layout(count=1, start=2)), (), skies)
    assert {o.first for o in fixed} == {2}


def test_an_open_start_is_as_good_as_any_where_nobody_is() -> None:
    case = Case(machine=LOCAL, program=FIO_SEQUENTIAL, processes=8)
    assert case.throughput(Layout(count=1)) == case.throughput(Layout(count=1, start=3))


def test_the_history_of_others_has_every_count_and_size_that_somebody_tried() -> None:
    peers = peers_of(LOCAL, 8, 0.0, rng())
    assert {(p.count, p.size // MIB) for p in peers} == {(c, s) for c in (1, 4) for s in (1, 8, 16)}
    assert len(peers) == 2 * 3 * len(OTHERS) and all((p.processes, p.runs) == (8, RUNS) for p in peers)
    for peer, program in zip(peers[::6], OTHERS, strict=True):
        alone = throughput(LOCAL, program, 8, Layout(count=peer.count, size=peer.size))
        assert peer.throughput == pytest.approx(alone)
        assert peer.shared_file == program.shared


def test_files_of_their_own_are_not_striped_over_a_whole_large_machine() -> None:
    peers = peers_of(CORI, 32, 0.1, rng())
    assert max(p.count for p in peers if p.shared_file) == 256
    assert max(p.count for p in peers if not p.shared_file) == 16
    assert peers == peers_of(CORI, 32, 0.1, rng())
