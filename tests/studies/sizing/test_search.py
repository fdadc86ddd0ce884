"""How large must it be: against a scan of all sizes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.decide.policy import Policy, storage
from forebay.decide.registry import find
from forebay.decide.storage import policies as choose
from forebay.model.reference_platforms import reference_platform
from forebay.model.space_requests import Requests
from forebay.model.system import MOST_BYTES, Platform
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.rules import Rules
from forebay.simulate.storage.run import run_storage
from forebay.studies.sizing.search import Point, Search, Sizing, resize_platform
from support.examples import examples
from support.storage import GB, platform_of, platforms, request_lists, requests_of

STORAGE = {policy.name: policy for policy in choose.STORAGE}
FAMILY = platform_of([(3 * GB, 1e9), (GB, 1e9)], [(4 * GB, 1e9)])


def find_smallest(requests: Requests, family: Platform, policy: Policy, rules: Rules, **how: Any) -> Sizing:
    progress = how.pop("progress", lambda _: None)
    return Search(requests=requests, family=family, rules=rules, **how).find_smallest(policy, progress)


def share(platform: Platform, requests: Requests, policy: Policy, rules: Rules, steps: int, step: int) -> float:
    found = document(run_storage(resize_platform(platform, steps * step), requests, policy, rules))["allocated_share"]
    assert isinstance(found, float)
    return found


# Other sizes of the same


def test_a_platform_keeps_its_proportions_and_everything_else() -> None:
    family = reference_platform("32TB/heterogeneous")
    half = resize_platform(family, 16 * 10**12)
    assert half.capacity == 16 * 10**12
    assert [2 * disk.capacity for disk in half.disks] == [disk.capacity for disk in family.disks]
    assert [disk.write_bandwidth for disk in half.disks] == [disk.write_bandwidth for disk in family.disks]
    assert [disk.fields for disk in half.disks] == [disk.fields for disk in family.disks]
    assert (half.name, [node.name for node in half.nodes]) == (family.name, [node.name for node in family.nodes])
    assert resize_platform(family, family.capacity) == family


def test_sizes_are_exact_where_they_can_be() -> None:
    assert [disk.capacity for disk in resize_platform(FAMILY, 24 * GB).disks] == [9 * GB, 3 * GB, 12 * GB]
    thirds = platform_of([(GB, 1e9)] * 3)
    assert [disk.capacity for disk in resize_platform(thirds, 10).disks] == [3, 3, 4]
    assert [disk.capacity for disk in resize_platform(thirds, 1).disks] == [1, 1, 1]  # none is left without any
    large = platform_of([(7 * 10**16 + 1, 1e9)] * 3)
    assert resize_platform(large, large.capacity * 2).capacity == large.capacity * 2


@given(platforms(), st.integers(1, 10**15))
def test_all_disks_together_have_the_capacity_or_a_few_bytes_less(platform: Platform, capacity: int) -> None:
    made = resize_platform(platform, max(capacity, len(platform.disks)))
    assert abs(made.capacity - max(capacity, len(platform.disks))) <= len(platform.disks)


# The smallest


@settings(max_examples=examples(80))
@given(
    request_lists(most=8, shortest=1),
    st.sampled_from(sorted(STORAGE)),
    st.sampled_from([0.3, 0.75, 0.99, 1.0]),
    st.sampled_from([Rules(), Rules(split=2 * GB), Rules(mode="storalloc", split=2 * GB), Rules(tries=2)]),
)
def test_the_answer_is_that_of_a_scan_where_more_space_serves_more(
    requests: Requests, name: str, target: float, rules: Rules
) -> None:
    policy, step = STORAGE[name], 3 * GB
    found = find_smallest(requests, FAMILY, policy, rules, target=target, step=step)
    assert found.answer is not None  # where every disk can hold all, all is served
    assert found.answer.share >= target
    assert found.answer in found.points
    last = found.answer.capacity // step
    shares = [share(FAMILY, requests, policy, rules, steps, step) for steps in range(1, min(last, 60) + 1)]
    for point in found.points:
        if point.capacity // step <= len(shares):
            assert point.share == shares[point.capacity // step - 1]
    below = shares[: last - 1] if last <= 60 else shares
    assert all(one < target for one in below[-3:])
    if shares == sorted(shares):
        assert all(one < target for one in below)


def test_points_are_all_sizes_that_were_tried_from_the_smallest_on() -> None:
    requests = requests_of([(float(k), 100.0, GB) for k in range(20)])
    told: list[int] = []
    found = find_smallest(
        requests,
        platform_of([(GB, 1e9)]),
        STORAGE["first-fit"],
        Rules(),
        target=0.6,
        step=GB,
        seed=5,
        progress=told.append,
    )
    # 1, 2, 4, 8 and 16 GB and halfway between, by halves 12, 10 and 11, and the three below the answer.
    assert [point.capacity // GB for point in found.points] == [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 16]
    assert [round(20 * point.share) for point in found.points] == [1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 16]
    assert found.answer == Point(capacity=12 * GB, share=0.6)
    assert (found.family, found.policy, found.target) == ("by hand", "first-fit", 0.6)
    assert told == list(range(1, 12))


def test_one_step_can_be_enough() -> None:
    found = find_smallest(requests_of([(0.0, 1.0, 5)]), FAMILY, STORAGE["fill"], Rules(), target=1.0, step=100 * GB)
    assert found.answer == Point(capacity=100 * GB, share=1.0)
    assert len(found.points) == 1


def test_a_policy_that_refuses_everybody_has_no_answer() -> None:
    never = storage("never")(lambda *_: -1)
    found = find_smallest(requests_of([(0.0, 1.0, 5 * GB)]), FAMILY, never, Rules(), target=0.5, step=GB)
    assert found.answer is None
    # Until the least disk, an eighth of all, could hold everything.
    assert [point.capacity // GB for point in found.points] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    assert {point.share for point in found.points} == {0.0}


def test_what_would_take_more_than_an_exabyte_has_no_answer() -> None:
    requests = requests_of([(0.0, 1.0, MOST_BYTES // 2), (9.0, 1.0, GB)])
    found = find_smallest(
        requests, reference_platform("8TB/nNnD"), STORAGE["forebay"], Rules(), target=0.99, step=10**15
    )
    assert found.answer is None
    assert max(point.capacity for point in found.points) <= MOST_BYTES


@pytest.mark.parametrize("mode", ["correct", "storalloc"])
def test_a_policy_that_looks_at_nothing_is_given_enough_on_the_least_disk(mode: Any) -> None:
    # Of 1000 bytes, each is 1 GB to the letter; and random may put them all on a disk of a hundredth.
    uneven = platform_of([(99 * GB, 1e9), (GB, 1e9)])
    requests = requests_of([(0.0, 10.0, 1)] * 1000)
    found = find_smallest(requests, uneven, STORAGE["random"], Rules(mode=mode), target=1.0, step=GB, seed=1)
    assert found.answer is not None


def test_who_counts_all_that_overlap_needs_more_than_is_ever_held_at_once() -> None:
    # One runs all the time, 50 one after the other: no more than 2 GB at once, but round-robin adds up all 51.
    requests = requests_of([*((float(k), 1.0, GB) for k in range(50)), (0.0, 50.0, GB)])
    one_disk = platform_of([(GB, 1e9)])
    found = {
        name: find_smallest(requests, one_disk, STORAGE[name], Rules(), target=1.0, step=GB).answer
        for name in ("first-fit", "round-robin")
    }
    assert found["first-fit"] == Point(capacity=2 * GB, share=1.0)
    assert found["round-robin"] == Point(capacity=52 * GB, share=1.0)


@pytest.mark.parametrize("workers", [1, 2])
def test_several_policies_are_sized_as_each_alone_whoever_does_it(workers: int) -> None:
    names, told = ["first-fit", "worst-fit", "forebay"], list[int]()
    asked = requests_of([(0, 10, 30 * GB), (5, 20, 20 * GB), (6, 9, 45 * GB)])
    family, how = platform_of([(40 * GB, 1e9), (40 * GB, 1e9)]), {"target": 1.0, "step": 10 * GB}
    search = Search(requests=asked, family=family, rules=Rules(), **how)  # type: ignore[arg-type]
    found = search.find_smallest_of_each(names, workers, told.append)
    assert found == [find_smallest(asked, family, find("storage", name), Rules(), **how) for name in names]
    assert told == [1, 2, 3]
