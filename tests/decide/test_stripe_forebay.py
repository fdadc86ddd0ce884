"""Our own striping policy: what it learns from noisy runs, what it dares, and when it backs off."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.decide.conformance import check_striping
from forebay.decide.registry import find
from forebay.decide.stripe.forebay import bandwidth_share, forebay, grid, look
from forebay.decide.stripe.response import noise_of, respond, usable_runs
from forebay.decide.stripe.view import Past, Peers, StripeView, Striping
from forebay.model.errors import BadInput
from forebay.model.layout import GRAIN, KIB, MIB, MOST_SIZE, Layout, Target
from support.examples import examples

MARGIN = 0.1
SIZES = [64 * KIB, 256 * KIB, MIB, 3 * MIB, 4 * MIB, 64 * MIB, 1 << 30, 1_000_000]
Rate = Callable[[int, int], float]


def view(runs: tuple[Past, ...] = (), most: int = 16, shared: bool | None = True, **more: object) -> StripeView:
    fields: dict[str, object] = {
        "application": "a",
        "processes": 16,
        "targets": tuple(Target(index=i) for i in range(most)),
        "shared_file": shared if runs else None,
        "io_processes": 16 if runs else None,
        "runs": runs,
    }
    return StripeView(**(fields | more))  # type: ignore[arg-type]


def run(number: int, count: int, throughput: float, size: int = MIB, processes: int = 16) -> Past:
    return Past(run=number, processes=processes, count=count, size=size, throughput=throughput)


def decide(seen: StripeView, **options: float) -> Striping:
    answer = forebay.decide(seen, **options)
    assert isinstance(answer, Striping)
    return answer


def follow(name: str, rate: Rate, noises: list[float], **more: object) -> list[Layout]:
    """The layouts of one run after the other, each `noises` times as fast as `rate` says."""
    policy, runs, layouts = find("stripe", name), (), []
    for number, noise in enumerate(noises):
        layout = policy.decide(view(runs, **more)).layout  # type: ignore[arg-type]
        layouts.append(layout)
        runs = (*runs, run(number, layout.count, rate(layout.count, layout.size) * noise, layout.size))  # type: ignore[assignment]
    return layouts


@st.composite
def views(draw: st.DrawFn) -> StripeView:
    count = draw(st.integers(1, 40))
    users = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    down = draw(st.sets(st.integers(0, count - 1), max_size=count - 1))
    past = st.builds(
        Past,
        run=st.integers(0, 999),
        processes=st.integers(1, 5000),
        count=st.integers(1, 300),
        size=st.sampled_from(SIZES),
        throughput=st.floats(1.0, 1e12),
        partial=st.booleans(),
    )
    peers = st.builds(
        Peers,
        processes=st.integers(1, 5000),
        count=st.integers(1, 300),
        size=st.sampled_from(SIZES),
        runs=st.integers(1, 1000),
        throughput=st.floats(1.0, 1e12),
        shared_file=st.booleans(),
    )
    runs = tuple(draw(st.lists(past, max_size=30)))
    return StripeView(
        application="a",
        processes=draw(st.integers(1, 5000)),
        targets=tuple(Target(index=i, users=users[i], usable=i not in down) for i in range(count)),
        max_count=draw(st.none() | st.integers(1, 40)),
        runs=runs,
        peers=tuple(draw(st.lists(peers, max_size=10))),
        shared_file=draw(st.booleans()) if runs else None,
        io_processes=draw(st.integers(1, 5000)) if runs else None,
        request_size=draw(st.sampled_from([0, 100, *SIZES])),
        chance=draw(st.floats(0, 1, exclude_max=True)),
    )


def test_it_keeps_the_contract_of_striping_policies() -> None:
    check_striping(find("stripe", "forebay"))
    check_striping(find("stripe", "forebay:margin=0.3"))


@given(views(), st.floats(0, 0.5))
@settings(max_examples=examples(150), deadline=None)
def test_any_history_gives_a_layout_that_is_possible_and_safe_by_its_own_prediction(
    seen: StripeView, margin: float
) -> None:
    answer = decide(seen, margin=margin)
    layout = answer.layout
    assert 1 <= layout.count <= seen.most
    assert layout.size % GRAIN == 0 and GRAIN <= layout.size <= MOST_SIZE
    assert {t.index for t in seen.usable} >= set(answer.targets) and len(answer.targets) == layout.count
    outlook = look(seen, usable_runs(seen), margin)
    [chosen] = np.flatnonzero((outlook.grid.counts == layout.count) & (outlook.grid.sizes == layout.size))
    gain, risk = outlook.gain[chosen], outlook.risk[chosen]
    assert chosen == outlook.best or (gain >= math.log1p(-margin) and risk <= 0.5)


@given(views())
@settings(max_examples=examples(60), deadline=None)
def test_the_same_view_gives_the_same_answer_whatever_the_chance(seen: StripeView) -> None:
    assert decide(seen) == decide(replace(seen, chance=0.7)) == decide(seen)


@pytest.mark.parametrize(("runs", "phase"), [(0, "initial"), (1, "rule"), (2, "heuristic")])
def test_the_phase_says_how_much_was_known(runs: int, phase: str) -> None:
    answer = decide(view(tuple(run(n, 4, 1e9) for n in range(runs))))
    assert answer.phase == phase and answer.runs == tuple(range(runs))


def test_the_reason_says_layout_prediction_and_what_it_rests_on() -> None:
    because = decide(view((run(0, 4, 1e9), run(1, 4, 1.1e9)))).because
    assert "of 1 MiB: predicted" in because and "GB/s (±" in because and "from 2 runs" in because
    assert "than the best known, 4 stripes of 1 MiB; the risk of more than 10 % less is" in because


@pytest.mark.parametrize("margin", [-0.1, 1.0, math.nan])
def test_a_margin_that_is_no_part_is_refused(margin: float) -> None:
    with pytest.raises(BadInput, match="margin"):
        decide(view(), margin=margin)


def test_more_stripes_that_are_slower_are_given_up_for_fewer() -> None:
    layouts = follow("forebay", lambda count, _: 1e9 / count, [1.0] * 12)
    assert layouts[0].count > 1 and {layout.count for layout in layouts[6:]} == {1}


def test_it_backs_off_at_once_to_the_best_known_after_a_regression() -> None:
    runs = (*(run(n, 4, 1e9) for n in range(6)), run(6, 8, 0.4e9))
    answer = decide(view(runs))
    assert (answer.layout.count, answer.layout.size) == (4, MIB)
    assert "back to the best known, as the last layout, 8 stripes of 1 MiB, is predicted to give" in answer.because


def test_with_a_larger_margin_it_dares_more() -> None:
    seen = view(tuple(run(n, 4, 1e9) for n in range(4)), shared=False)
    bold, careful = (int(look(seen, seen.runs, margin).safe.sum()) for margin in (0.4, 0.01))
    assert bold > careful


def test_without_noise_it_settles_near_the_best_of_responses_with_one_top() -> None:
    rng, reached = np.random.default_rng(7), []
    for _ in range(60):
        rate = bent(rng.uniform(0, 6), rng.uniform(0.2, 0.69), rng.uniform(0, 0.5))
        layouts = follow("forebay", rate, [1.0] * 25, most=64, shared=bool(rng.random() < 0.5))
        best = max(rate(1 << k, MIB) for k in range(7))
        reached.append(min(rate(layout.count, layout.size) for layout in layouts[-5:]) / best)
    # A top right beside a long step can be hidden behind what looks like a loss: then it stays safe instead.
    assert np.mean(np.array(reached) >= 0.95) >= 0.95 and min(reached) >= 0.8


def bent(knee: float, rise: float, fall: float) -> Rate:
    """Log throughput rises with each doubling of the count up to a knee, then falls."""

    def rate(count: int, _size: int) -> float:
        doublings = math.log2(count)
        return 1e9 * math.exp(rise * min(doublings, knee) - fall * max(0.0, doublings - knee))

    return rate


def test_in_40_percent_noise_it_gets_more_out_of_20_runs_than_dca_io() -> None:
    rng = np.random.default_rng(11)
    mean = {"forebay": 0.0, "dca-io": 0.0}
    for _ in range(100):
        rate, shared, noises = response(rng), bool(rng.random() < 0.5), list(rng.lognormal(0.0, 0.4, 20))
        best = max(rate(1 << k, size) for k in range(5) for size in SIZES)
        for name in mean:
            layouts = follow(name, rate, noises, shared=shared)
            mean[name] += sum(rate(layout.count, layout.size) for layout in layouts) / best / 20 / 100
    assert mean["forebay"] > 1.02 * mean["dca-io"]


def response(rng: np.random.Generator) -> Rate:
    """A smooth response with one top, anywhere."""
    top, width = rng.uniform(-1, 6), rng.uniform(2, 4)
    size_top, size_width = rng.uniform(19, 25), rng.uniform(6, 15)

    def rate(count: int, size: int) -> float:
        across = (math.log2(size) - size_top) / size_width
        return 1e9 * math.exp(-(((math.log2(count) - top) / width) ** 2) - across**2)

    return rate


@pytest.mark.parametrize("outlier", [0.2, 5.0])
def test_one_outlier_does_not_change_a_choice_that_has_settled(outlier: float) -> None:
    noises = np.random.default_rng(3).lognormal(0.0, 0.05, 40)
    runs: tuple[Past, ...] = ()
    for number, noise in enumerate(noises):
        layout = decide(view(runs)).layout
        throughput = 1e9 * min(layout.count, 8) / 8 * float(noise)
        runs = (*runs, run(number, layout.count, throughput, layout.size))
    settled = decide(view(runs)).layout
    odd = run(len(runs), settled.count, outlier * 1e9, settled.size)
    assert decide(view((*runs, odd))).layout == settled


def test_what_an_application_does_now_outweighs_what_it_did_long_ago() -> None:
    old = [run(n, count, 1e9 * count) for n, count in enumerate([2, 4, 8, 16] * 10)]
    new = [run(40 + n, count, 8e9 / count) for n, count in enumerate([2, 4, 8, 16] * 25)]
    assert decide(view((*old, *new))).layout.count <= 2


def test_only_as_many_stripes_as_targets_are_free_when_more_do_not_outweigh_sharing() -> None:
    targets = tuple(Target(index=i, users=int(i >= 3)) for i in range(8))
    runs = tuple(run(n, count, 1e9) for n, count in enumerate([4, 8, 2, 4, 8, 2, 1, 4, 8, 8, 8]))
    answer = decide(view(runs, targets=targets))
    assert answer.layout.count <= 3 and set(answer.targets) <= {0, 1, 2}


def test_targets_in_use_are_taken_when_more_stripes_promise_more_even_so() -> None:
    targets = tuple(Target(index=i, users=int(i >= 1)) for i in range(8))
    runs = tuple(run(n, count, 1e9 * count) for n, count in enumerate([1, 2, 4, 8, 8, 4, 8]))
    assert decide(view(runs, targets=targets)).layout.count == 8


@given(st.lists(st.integers(0, 2), min_size=1, max_size=9), st.data())
def test_what_others_leave_is_that_of_the_busiest_target_where_most_are_free(
    users: list[int], data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(users)))
    seen = view(targets=tuple(Target(index=i, users=n) for i, n in enumerate(users)))
    windows = [[users[(first + k) % len(users)] for k in range(count)] for first in range(len(users))]
    chosen = max(windows, key=lambda window: window.count(0))  # the first of equals
    assert bandwidth_share(seen, count) == 1 / (1 + max(chosen))
    in_a_row = max((n for n in range(1, len(users) + 1) if bandwidth_share(seen, n) == 1.0), default=0)
    assert grid(seen, ()).free == in_a_row


def test_noise_is_estimated_from_repeats() -> None:
    rng = np.random.default_rng(5)
    for noise in (0.05, 0.4):
        runs = [run(n, 1 << n % 3, 1e9 * 2 ** (n % 3) * float(rng.lognormal(0, noise))) for n in range(150)]
        assert noise_of(runs) == pytest.approx(noise, rel=0.2)


def test_runs_of_about_as_many_processes_say_most() -> None:
    def doubling(processes: int) -> float:
        runs = tuple(run(n, c, 1e9 * c, processes=processes) for n, c in enumerate([1, 2, 1, 2, 1, 2]))
        mean = respond(view(runs, io_processes=processes), [1, 2], [MIB, MIB]).mean
        return float(mean[1] - mean[0])

    before = respond(replace(view((run(0, 1, 1e9),)), runs=()), [1, 2], [MIB, MIB]).mean
    assert doubling(16) > doubling(64) > doubling(1024) > float(before[1] - before[0])
    assert doubling(16) == pytest.approx(math.log(2), abs=0.1)


def test_a_first_look_at_more_stripes_is_taken_and_at_fewer_only_once_more_are_worse() -> None:
    flat = tuple(run(n, 2 << n % 2, 1e9) for n in range(4))
    falling = tuple(run(n, 2 << n % 2, 1e9 / (1 + n % 2)) for n in range(4))
    assert 4 in safe_counts(view(flat[:1], processes=1, shared=False))
    assert 1 not in safe_counts(view(flat, processes=1, io_processes=1))
    assert 1 in safe_counts(view(falling, processes=1, io_processes=1))


def safe_counts(seen: StripeView) -> set[int]:
    outlook = look(seen, usable_runs(seen), MARGIN)
    return {count for count, safe in zip(outlook.grid.counts, outlook.safe, strict=True) if safe}


def test_small_stripes_are_not_tried_while_nothing_speaks_for_them() -> None:
    layouts = follow("forebay", lambda count, size: 1e9 * count * min(1.0, size / MIB), [1.0] * 20, processes=512)
    assert min(layout.size for layout in layouts) >= 512 * KIB


def peers_that(rate: Callable[[int], float], most: int = 64, processes: int = 512) -> tuple[Peers, ...]:
    counts = [1 << k for k in range(0, most.bit_length(), 2)]
    return tuple(
        Peers(processes=processes, count=c, size=size, runs=9, throughput=rate(c), shared_file=True)
        for c in counts
        for size in (MIB, 8 * MIB)
    )


def test_where_others_gained_much_the_first_run_goes_as_far_as_they_went() -> None:
    told = decide(view(processes=512, most=64, peers=peers_that(lambda c: 1e9 * c)))
    alone = decide(view(processes=512, most=64))
    assert told.layout.count == 64 > alone.layout.count


def test_others_that_did_not_gain_hold_the_first_run_back() -> None:
    told = decide(view(processes=512, most=64, peers=peers_that(lambda c: 1e9 / c)))
    assert told.layout.count <= 2


def test_a_level_of_others_without_shared_files_says_nothing_of_those_with() -> None:
    shared = peers_that(lambda c: 1e9 * c)
    alone = tuple(replace(p, shared_file=False, throughput=1e12) for p in shared[:2])
    rises = [
        float(mean[1] - mean[0])
        for peers in (shared, shared + alone)
        for mean in (respond(view(processes=512, most=64, peers=peers), [1, 64], [MIB] * 2).mean,)
    ]
    assert rises[1] == pytest.approx(rises[0], abs=0.3)


@given(views(), st.floats(-1, 1))
@settings(max_examples=examples(60), deadline=None)
def test_the_risk_is_the_share_of_outcomes_that_fall_short(seen: StripeView, gain: float) -> None:
    response = respond(seen, [1, 2, 4], [MIB] * 3)
    assert response.likely.sum() == pytest.approx(1.0)
    spread = np.sqrt([response.within[k, k] + response.within[0, 0] - 2 * response.within[0, k] for k in (1, 2)])
    for option, width in zip((1, 2), spread, strict=True):
        short = (response.means[:, 0] + gain - response.means[:, option]) / max(width, 1e-6)
        naive = sum(w * (1 + math.erf(x / math.sqrt(2))) / 2 for w, x in zip(response.likely, short, strict=True))
        assert response.risk(0, gain)[option] == pytest.approx(naive, abs=0.011)


def test_what_was_measured_decides_between_the_hypotheses() -> None:
    rising, flat = (
        respond(view(tuple(run(n, 1 << n, 1e9 * (r << n if r else 1)) for n in range(4))), [1, 16], [MIB] * 2)
        for r in (1, 0)
    )
    assert rising.mean[1] - rising.mean[0] > 2.0 > 0.3 > flat.mean[1] - flat.mean[0]
    assert rising.likely[0] < 0.01 < flat.likely[0]  # the first one is that nothing rises


def test_runs_of_others_tell_only_which_layout_is_better_not_how_fast_it_is() -> None:
    peers = tuple(
        Peers(processes=16, count=c, size=MIB, runs=50, throughput=1e6 * c, shared_file=True) for c in (1, 2, 4, 8)
    )
    runs = (run(0, 4, 1e9),)
    alone, helped = (respond(view(runs, peers=p), [1, 4, 8], [MIB] * 3).mean for p in ((), peers))
    assert helped[1] == pytest.approx(math.log(1e9), abs=0.05)
    assert helped[2] - helped[1] > alone[2] - alone[1]


@pytest.mark.parametrize("runs", [(), (run(1, 4, 1e9),)])
def test_where_fewer_stripes_are_allowed_than_targets_are_free_that_many_are_the_most(runs: tuple[Past, ...]) -> None:
    limited = view(runs, most=64, max_count=4)
    assert max(grid(limited, runs).counts) == 4
    assert 1 <= decide(limited).layout.count <= 4
