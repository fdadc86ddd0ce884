"""Storage policies: each against a slow, obvious one, and what is special about each."""

import math
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from forebay.decide.registry import policies
from forebay.decide.storage.forebay import spread
from forebay.decide.storage.policies import OTHER, SPREADS, STORAGE, _to_the_letter, choose, number
from forebay.decide.storage.policy_memory import REFUSED, turn
from forebay.model.ledger import book, ledger
from forebay.model.system import Disk, Platform
from support.examples import examples
from support.storage import (
    GB,
    SIZES,
    NaiveLedger,
    NaivePolicy,
    best_bandwidth_ties,
    expected,
    platform_of,
    platforms,
    promised,
    worst_fit_ties,
)


@st.composite
def spaces(draw: DrawFn, own: st.SearchStrategy[Platform] | None = None) -> SimpleNamespace:
    """A platform with some of its space booked, in the ledger and in the list, and requests for more of it."""
    platform = draw(own if own is not None else platforms())
    fast, slow = ledger(platform), NaiveLedger(platform)
    step = draw(st.sampled_from([1.0, 0.1, 700.0]))
    spans = st.tuples(st.integers(0, 12), st.integers(0, 9)).map(lambda t: (t[0] * step, (t[0] + t[1]) * step))
    for disk, (start, end), size in draw(
        st.lists(st.tuples(st.integers(0, len(platform.disks) - 1), spans, SIZES), max_size=30)
    ):
        book(fast, disk, start, end, size)
        slow.book(disk, start, end, size)
    asked = draw(st.lists(st.tuples(SIZES, spans), min_size=1, max_size=6))
    return SimpleNamespace(platform=platform, fast=fast, slow=slow, asked=asked, seed=draw(st.integers(0, 5)))


@pytest.mark.parametrize("letter", [False, True], ids=["correct", "to the letter"])
@pytest.mark.parametrize("name", [policy.name for policy in STORAGE])
@settings(max_examples=examples(40))
@given(spaces())
def test_every_policy_chooses_as_the_slow_and_obvious_one(name: str, letter: bool, space: SimpleNamespace) -> None:
    policy = policies("storage")[name]
    turns = [turn(space.fast, seed=space.seed, letter=letter) for _ in range(2)]
    naive = NaivePolicy(name, space.platform, seed=space.seed, letter=letter)
    for size, (start, end) in space.asked:
        ask = (size, start, end, end - start)
        disk = policy.decide(space.fast, *ask, turns[0])
        assert disk == naive(space.slow, *ask)
        assert choose(number(policy), space.fast, *ask, turns[1]) == disk
        if disk != REFUSED:  # so that the next one finds something else
            book(space.fast, disk, start, end, size)
            space.slow.book(disk, start, end, size)


@settings(max_examples=examples(100))
@given(spaces())
def test_ties_are_where_the_papers_formulas_have_them(space: SimpleNamespace) -> None:
    state = turn(space.fast, seed=space.seed)
    for size, (start, end) in space.asked:
        disk = policies("storage")["worst-fit"].decide(space.fast, size, start, end, end - start, state)
        assert disk in worst_fit_ties(space.slow, size, start, end)
        disk = policies("storage")["best-bandwidth"].decide(space.fast, size, start, end, end - start, state)
        bandwidths = by_the_notes(space, start, end)
        roomy = [
            other
            for other, capacity in enumerate(space.slow.capacities)
            if capacity - space.slow.total_overlap(other, start, end)[0] >= size
        ]
        if roomy:
            assert disk in roomy
            assert bandwidths[disk] >= max(bandwidths[other] for other in roomy) * (1 - 1e-9)
        else:
            assert disk == REFUSED


def by_the_notes(space: SimpleNamespace, start: float, end: float) -> list[float]:
    """((D - m) w + m w / (k + 1)) / D, without rounding where it can be."""
    found: list[float] = []
    for node in space.platform.nodes:
        first = len(found)
        limit, reads, busy = node.network_bandwidth, 0.0, 0
        for disk, what in enumerate(node.disks, first):
            _, k = space.slow.total_overlap(disk, start, end)
            w = what.write_bandwidth
            if k:
                m, length = Fraction(space.slow.longest_overlap(disk, start, end)), Fraction(end - start)
                busy, reads = busy + 1, reads + what.read_bandwidth
                w = w if w == math.inf else float(((length - m) * Fraction(w) + m * Fraction(w) / (k + 1)) / length)
            found.append(w)
        limit = limit - reads if reads < limit else limit / (busy + 1)
        found[first:] = [min(w, limit) for w in found[first:]]
    return found


def test_the_registry_and_the_one_kernel_number_policies_alike() -> None:
    assert list(policies("storage").values())[: len(STORAGE)] == list(STORAGE)
    assert STORAGE[SPREADS].name == "forebay"
    assert [number(policy) for policy in STORAGE] == list(range(len(STORAGE)))
    assert number(policies("place")["random"]) == OTHER


# Chance

FOUR = platform_of([(GB, 1e9)] * 2, [(GB, 1e9)] * 2, network=12.5e9)


def drawn(name: str, platform: Platform, *, letter: bool = False, times: int = 6000) -> list[float]:
    """How often each disk of an empty platform is chosen, over as many seeds."""
    space = ledger(platform)
    policy = policies("storage")[name]
    state = turn(space, seed=0, letter=letter)
    chosen: Counter[int] = Counter()
    for seed in range(times):
        state.chance[0] = turn(space, seed=seed).chance[0] if seed % 10 == 0 else state.chance[0]
        chosen[policy.decide(space, 5, 0.0, 10.0, 10.0, state)] += 1
    return [chosen[disk] / times for disk in range(len(platform.disks))]


@pytest.mark.parametrize("name", ["random", "worst-fit", "best-bandwidth"])
def test_all_that_tie_are_equally_likely(name: str) -> None:
    assert drawn(name, FOUR) == pytest.approx([0.25] * 4, abs=0.03)


def test_to_the_letter_worst_fit_gives_the_lowest_of_those_that_tie_two_lots() -> None:
    assert drawn("worst-fit", FOUR, letter=True) == pytest.approx([0.4, 0.2, 0.2, 0.2], abs=0.03)
    assert drawn("best-bandwidth", FOUR, letter=True) == pytest.approx([0.25] * 4, abs=0.03)


def test_random_draws_the_server_then_the_node_then_the_disk() -> None:
    platform = platform_of([(GB, 1.0)], [(GB, 1.0)] * 2, [(GB, 1.0)], servers=[1, 2])
    assert drawn("random", platform) == pytest.approx([1 / 2, 1 / 8, 1 / 8, 1 / 4], abs=0.03)


def test_random_and_worst_fit_never_refuse() -> None:
    space = ledger(FOUR)
    for name in ("random", "worst-fit"):
        assert policies("storage")[name].decide(space, 10 * GB, 0.0, 1.0, 1.0, turn(space, seed=0)) != REFUSED


# Round-robin


def in_turn(platform: Platform, sizes: list[int]) -> list[int]:
    space = ledger(platform)
    state = turn(space, seed=0)
    return [policies("storage")["round-robin"].decide(space, size, 0.0, 1.0, 1.0, state) for size in sizes]


def test_round_robin_goes_over_the_nodes_and_on_each_over_its_disks() -> None:
    assert in_turn(FOUR, [1] * 6) == [0, 2, 1, 3, 0, 2]


def test_round_robin_goes_over_the_servers_first() -> None:
    # Server 0 has the nodes (0) and (1, 2), server 1 the nodes (3, 4), (5) and (6).
    shape = [[(GB, 1.0)] * n for n in (1, 2, 2, 1, 1)]
    platform = platform_of(*shape, servers=[2, 3])
    assert in_turn(platform, [1] * 10) == [0, 3, 1, 5, 0, 6, 2, 4, 0, 5]


def test_round_robin_needs_more_than_enough_room_and_counts_its_failures_on() -> None:
    # The first fails on all probes but finds none: refused at the fifth. Then 1 to 4 succeed, where it stands.
    assert in_turn(FOUR, [GB, 1, 1, GB]) == [REFUSED, 2, 1, REFUSED]
    mixed = platform_of([(GB, 1.0)], [(3 * GB, 1.0)])
    # Each large one fails once on the small disk and succeeds on the other; the fifth failure refuses.
    assert in_turn(mixed, [2 * GB] * 6) == [1, 1, 1, 1, REFUSED, 1]


# Best-bandwidth


@given(st.sampled_from([2.93, 1.465, 0.05, 3.0]), st.integers(1, 6), st.integers(1, 5000), st.data())
def test_to_the_letter_bandwidths_are_rounded_as_python_rounds(
    alone: float, others: int, duration: int, data: Any
) -> None:
    shared = data.draw(st.one_of(st.integers(1, duration), st.just(duration * 3 // 5 or 1)))
    mean = ((duration - shared) * alone + shared * (alone / (others + 1))) / duration
    assert _to_the_letter(alone * GB, others, float(shared), float(duration)) == round(mean, 3) * GB


def test_what_only_comes_close_to_a_half_is_no_half() -> None:
    # As a double, 0.7325 is a little more than that.
    assert _to_the_letter(1.465e9, 5, 1416.0, 2360.0) == round(0.7325, 3) * GB == 0.733e9
    halves = [(k + 0.5) / 1000 for k in range(3000)]
    assert [_to_the_letter(half * GB, 0, 0.0, 1.0) for half in halves] == [
        round(half * GB / GB, 3) * GB for half in halves
    ]


def test_best_bandwidth_stays_away_from_nodes_whose_network_is_taken() -> None:
    platform = platform_of([(GB, 10e9)] * 2, [(GB, 3e9)], network=12e9)
    space, slow = ledger(platform), NaiveLedger(platform)
    book(space, 0, 0.0, 10.0, 5)
    slow.book(0, 0.0, 10.0, 5)
    assert promised(slow, 0.0, 10.0, 10.0, letter=False) == [2e9, 2e9, 3e9]
    assert best_bandwidth_ties(slow, 5, 0.0, 10.0, 10.0, letter=False) == [2]
    assert policies("storage")["best-bandwidth"].decide(space, 5, 0.0, 10.0, 10.0, turn(space, seed=0)) == 2


# Forebay's own way to split

WIDE = st.builds(
    Disk,
    capacity=st.one_of(st.integers(1, 12).map(lambda n: n * GB), st.integers(1, 10**18 // 27)),
    write_bandwidth=st.one_of(st.sampled_from([1e-3, 1e9, 2.93e9, 1e18, math.inf]), st.floats(1e-3, 1e20)),
    read_bandwidth=st.just(1e9),
)


@settings(max_examples=examples(200))
@given(spaces(platforms(WIDE)), st.integers(1, 5), st.data())
def test_a_spread_request_fits_and_is_refused_only_where_nothing_would(
    space: SimpleNamespace, pieces: int, data: Any
) -> None:
    _, (start, end) = space.asked[0]
    disks = len(space.platform.disks)
    rooms = [max(0, space.slow.room(disk, start, end)) for disk in range(disks)]
    size = data.draw(st.one_of(st.just(sum(rooms)), st.integers(1, 2 * sum(rooms) + 1)).filter(bool))
    state = turn(space.fast, seed=0)
    count = spread(space.fast, size, start, end, state, pieces)
    assert (count == 0) == (sum(rooms) < size)
    if count:
        share = state.share.tolist()
        assert sum(share) == size
        assert all(0 <= own <= room for own, room in zip(share, rooms, strict=True))
        assert count == sum(own > 0 for own in share)
        most_roomy = sorted(rooms, reverse=True)
        fewest = next(n for n in range(1, disks + 1) if sum(most_roomy[:n]) >= size)
        assert fewest <= count <= disks
        quick = sorted(range(disks), key=lambda disk: -expected(space.slow, start, end)[disk])
        if count > 8 * pieces and len(set(expected(space.slow, start, end))) == disks:
            assert sum([rooms[disk] for disk in quick if share[disk]][: count - 1]) < size


def spread_over(platform: Platform, size: int, pieces: int, crowd: dict[int, int] | None = None) -> list[int]:
    space = ledger(platform)
    for disk, count in (crowd or {}).items():
        for _ in range(count):
            book(space, disk, 0.0, 10.0, 1)
    state = turn(space, seed=0)
    spread(space, size, 0.0, 10.0, state, pieces)
    return state.share.tolist()


def test_parts_are_as_large_as_their_disks_are_fast() -> None:
    platform = platform_of([(100, 1.0)], [(100, 3.0)])
    assert spread_over(platform, 40, 2) == [10, 30]
    assert spread_over(platform, 160, 2) == [60, 100]  # the fast one is full
    assert spread_over(platform, 40, 2, crowd={1: 2}) == [20, 20]


def test_disks_where_hardly_anybody_is_take_parts_of_a_request_that_fewer_could_hold() -> None:
    ten = platform_of([(100, 1.0)] * 10)
    assert sorted(spread_over(ten, 40, 1)) == [0, 0, *[5] * 8]
    crowded = spread_over(ten, 40, 2, crowd=dict.fromkeys(range(10), 4))
    assert sorted(crowded) == [0] * 8 + [20, 20]


def test_a_disk_without_limit_takes_what_it_can_and_the_others_the_rest() -> None:
    platform = platform_of([(100, math.inf)], [(100, 1.0)], [(100, 1.0)])
    assert spread_over(platform, 300, 3) == [100, 100, 100]
    assert spread_over(platform, 150, 3) == [100, 25, 25]
    assert spread_over(platform_of([(100, math.inf)] * 3), 90, 3) == [30, 30, 30]


def test_forebay_takes_turns_among_equals_and_prefers_quiet_disks_then_the_best_fit() -> None:
    space = ledger(FOUR)
    state = turn(space, seed=0)
    decide = policies("storage")["forebay"].decide
    assert [decide(space, 5, 0.0, 10.0, 10.0, state) for _ in range(5)] == [0, 1, 2, 3, 0]
    book(space, 1, 0.0, 10.0, 5)
    assert [decide(space, 5, 0.0, 10.0, 10.0, state) for _ in range(3)] == [2, 3, 0]
    assert np.all(space.disks["level"] == 0)
    sizes = platform_of([(70, 1.0), (90, 1.0), (50, 1.0)])
    assert decide(ledger(sizes), 5, 0.0, 10.0, 10.0, turn(ledger(sizes), seed=0)) == 2
