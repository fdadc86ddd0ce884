"""The bound for all storage policies: against all subsets, and against what policies do."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from forebay.decide.storage import optimal
from forebay.decide.storage import policies as choose
from forebay.decide.storage.optimal import upper_bound
from forebay.model.space_requests import Requests
from forebay.model.system import Platform
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.rules import Feedback, Rules
from forebay.simulate.storage.run import run_storage
from support.examples import examples
from support.storage import CORRECT, GB, platform_of, platforms, request_lists, requests_of

STORAGE = {policy.name: policy for policy in choose.STORAGE}
Asked = list[tuple[float, float, int]]
GAP = 1e-4  # to which the solver looks for the best
ROUNDING = 2e-9  # by so much more than the best is said, to be on the safe side


@st.composite
def few(draw: DrawFn) -> Asked:
    """Up to nine requests of some gigabytes in a short time."""
    one = st.tuples(st.integers(0, 8), st.integers(0, 5), st.integers(1, 9))
    drawn = draw(st.lists(one, min_size=1, max_size=9))
    return [(float(start), float(duration), size * GB) for start, duration, size in drawn]


def brute_force(asked: Asked, capacity: int, largest: int, split: int, delay: float) -> int:
    """The most bytes of all subsets that never need more than `capacity` while they run in any case."""
    fit = [one for one in asked if one[2] <= (capacity if 0 < split < one[2] else largest)]
    best = 0
    for count in range(len(fit) + 1):
        for chosen in combinations(fit, count):
            held = [(start + delay, start + duration, size) for start, duration, size in chosen]
            levels = (sum(size for s, e, size in held if s <= moment < e) for moment, *_ in held)
            if all(level <= capacity for level in levels):
                best = max(best, sum(size for *_, size in chosen))
    return best


@settings(max_examples=examples(200))
@given(few(), st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(0, 6), st.sampled_from([0.0, 1.0, 2.0]))
def test_the_bound_is_the_best_of_all_subsets(asked: Asked, disks: list[int], split: int, delay: float) -> None:
    platform = platform_of([(size * GB, 1.0) for size in disks])
    found = upper_bound(platform, requests_of(asked), split=split * GB, longest_delay=delay)
    best = brute_force(asked, sum(disks) * GB, max(disks) * GB, split * GB, delay)
    assert best <= found.bytes <= best + ROUNDING * sum(size for *_, size in asked)
    assert found.how in ("integer programming", "nothing competes")


@settings(max_examples=examples(60))
@given(few(), st.integers(1, 30))
def test_the_bound_is_as_close_where_sizes_are_large(asked: Asked, disk: int) -> None:
    # In gigabytes and some bytes the sums are no round numbers.
    large = [(start, duration, size * 997 + 123_456_789 * (size // GB) ** 2 + 1) for start, duration, size in asked]
    platform = platform_of([(disk * 1000 * GB, 1.0)])
    best = brute_force(large, disk * 1000 * GB, disk * 1000 * GB, 0, 0.0)
    found = upper_bound(platform, requests_of(large)).bytes
    assert best <= found <= best + GAP * sum(size for *_, size in large)


@settings(max_examples=examples(150))
@given(platforms(), request_lists(), CORRECT, st.integers(0, 3))
def test_no_policy_allocates_more(platform: Platform, requests: Requests, rules: Rules, seed: int) -> None:
    most = upper_bound(platform, requests, split=rules.split, longest_delay=rules.tries * rules.interval).bytes
    assert most <= requests.bytes.sum()
    for policy in STORAGE.values():
        found = document(run_storage(platform, requests, policy, rules, seed=seed))
        assert found["allocated_bytes"] <= most, policy.name


@settings(max_examples=examples(40))
@given(platforms(), request_lists(), CORRECT, st.sampled_from(sorted(STORAGE)))
def test_nor_does_one_with_feedback(platform: Platform, requests: Requests, rules: Rules, name: str) -> None:
    most = upper_bound(platform, requests, split=rules.split, longest_delay=rules.tries * rules.interval).bytes
    run = run_storage(platform, requests, STORAGE[name], rules, feedback=Feedback())
    assert document(run)["allocated_bytes"] <= most


def test_where_nothing_competes_all_that_fits_is_served() -> None:
    platform = platform_of([(4 * GB, 1.0), (10 * GB, 1.0)])
    asked = [(0.0, 10.0, 10 * GB), (0.0, 10.0, 4 * GB), (10.0, 5.0, 9 * GB), (20.0, 5.0, 11 * GB), (30.0, 5.0, 15 * GB)]
    whole = upper_bound(platform, requests_of(asked))
    assert (whole.bytes, whole.how) == (23 * GB, "nothing competes")
    assert upper_bound(platform, requests_of(asked), split=GB).bytes == 34 * GB  # 11 fit in parts, 15 don't
    assert upper_bound(platform, requests_of(asked), split=11 * GB).bytes == 23 * GB  # 11 are not above 11


def bound(*asked: tuple[float, float, int], delay: float = 0.0) -> float:
    """In GB, on one disk of 10 GB."""
    requests = requests_of([(start, duration, size * GB) for start, duration, size in asked])
    return upper_bound(platform_of([(10 * GB, 1.0)]), requests, longest_delay=delay).bytes / GB


def test_in_one_second_ends_come_before_starts() -> None:
    assert bound((0.0, 5.0, 10), (5.0, 5.0, 10)) == 20
    assert bound((0.0, 5.0, 10), (4.0, 5.0, 9)) == pytest.approx(10)


def test_who_may_wait_long_enough_competes_with_nobody() -> None:
    asked = (0.0, 100.0, 10), (50.0, 100.0, 9)
    assert bound(*asked) == pytest.approx(10)
    assert bound(*asked, delay=49.0) == pytest.approx(10)
    assert bound(*asked, delay=50.0) == 19
    assert bound(*asked, delay=1e6) == 19


def test_two_times_of_need_are_solved_apart_from_each_other() -> None:
    crowd = (0.0, 5.0, 6), (1.0, 5.0, 5), (2.0, 5.0, 4)  # 6 + 4
    assert bound(*crowd, *((start + 100, *rest) for start, *rest in crowd)) == pytest.approx(20)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "how"),
    [
        ("_MOST_ENTRIES", "each request alone: too many compete for a closer bound"),
        ("_MOST_WHOLE", "integer programming, in part relaxed"),
        ("_MOST_BRANCHES", "integer programming"),
    ],
)
def test_what_is_too_large_to_solve_is_relaxed_and_stays_a_bound(
    limit: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [(float(k % 7), 5.0, 3 + k % 5) for k in range(12)]
    requests, platform = requests_of(asked), platform_of([(10, 1.0)])
    exact = upper_bound(platform, requests).bytes
    monkeypatch.setattr(optimal, limit, 1)
    relaxed = upper_bound(platform, requests)
    assert relaxed.how.startswith(how)
    assert exact <= relaxed.bytes <= requests.bytes.sum()
    if limit == "_MOST_ENTRIES":
        assert relaxed.bytes == requests.bytes.sum()
