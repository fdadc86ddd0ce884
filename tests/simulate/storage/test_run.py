"""Storage runs: against a slow, obvious simulation, against the original's own output, and against what must hold."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.decide.policy import Policy, storage
from forebay.decide.storage import policies as choose
from forebay.history.traces import read_requests
from forebay.model.errors import PolicyError
from forebay.model.kernels import kernel
from forebay.model.ledger import ledger, peak
from forebay.model.reference_platforms import reference_platform
from forebay.model.space_requests import Requests
from forebay.model.system import Platform
from forebay.simulate.storage import run as run_module
from forebay.simulate.storage.outcome import STATES, document
from forebay.simulate.storage.rules import SPLIT, Rules
from forebay.simulate.storage.run import Run, run_storage, sizes_of
from support.examples import examples
from support.storage import (
    CORRECT,
    GB,
    TO_THE_LETTER,
    NaiveLedger,
    NaiveRun,
    expected,
    naive_run,
    platform_of,
    platforms,
    request_lists,
    requests_of,
)

STORAGE = {policy.name: policy for policy in choose.STORAGE}
DATA = Path(__file__).parents[4] / "shared" / "data" / "storalloc"


def state_of(run: Run, request: int) -> str:
    return STATES[run.verdicts["state"][request]]


def parts_of(run: Run, request: int) -> list[tuple[int, int]]:
    first, last = run.verdicts["first"][request], run.verdicts["last"][request]
    return [(part["disk"].item(), part["bytes"].item()) for part in run.parts[first:last]]


def followed(run: Run) -> Callable[..., list[tuple[int, int]]]:
    """What forebay did with each request that it split itself, after a look at whether it may."""

    def spread(
        space: NaiveLedger, size: int, start: float, end: float, pieces: int, request: int
    ) -> list[tuple[int, int]]:
        rooms = [max(0, space.room(disk, start, end)) for disk in range(len(space.capacities))]
        if sum(rooms) < size:
            return []
        parts = parts_of(run, request)
        assert sum(own for _, own in parts) == size
        assert len({disk for disk, _ in parts}) == len(parts)
        assert all(0 < own <= rooms[disk] for disk, own in parts)
        if len(parts) > 8 * pieces:  # as many as it takes only where the room of the best is not enough
            best = sorted(range(len(rooms)), key=lambda disk: -expected(space, start, end)[disk])
            assert sum(rooms[disk] for disk in best[: len(parts) - 1]) < size
        return parts

    return spread


def agree(run: Run, naive: NaiveRun) -> None:
    assert len(naive.verdicts) == len(run.verdicts)
    for request, verdict in enumerate(naive.verdicts):
        ours = run.verdicts[request]
        assert (ours["start"], ours["tried"], state_of(run, request)) == (verdict.start, verdict.tried, verdict.state)
        assert parts_of(run, request) == verdict.parts
    assert run.ends.tolist() == [verdict.end for verdict in naive.verdicts]
    for ours, theirs in ((run.disks, naive.disks), (run.nodes, naive.nodes)):
        for used, expects in zip(ours, theirs, strict=True):
            summary = expects.summary()
            for name in ("since", "most_bytes", "most_live"):
                assert used[name] == summary[name]
            for name in ("use_seconds", "live_seconds"):
                assert used[name] == pytest.approx(summary[name], rel=1e-9, abs=1e-9)
            assert used["level"] == used["live"] == 0
    for name in ("most_live", "put", "put_split", "first", "last"):
        assert run.total[name] == getattr(naive, name)


def compared(platform: Platform, requests: Requests, name: str, rules: Rules, seed: int) -> Run:
    run = run_storage(platform, requests, STORAGE[name], rules, seed=seed)
    agree(run, naive_run(platform, requests, name, rules, seed=seed, spread=followed(run)))
    return run


# Against the oracle


@settings(max_examples=examples(300))
@given(platforms(), request_lists(), st.sampled_from(sorted(STORAGE)), CORRECT, st.integers(0, 9))
def test_a_run_is_that_of_a_list_of_bookings_replayed_by_time(
    platform: Platform, requests: Requests, name: str, rules: Rules, seed: int
) -> None:
    compared(platform, requests, name, rules, seed)


@settings(max_examples=examples(300))
@given(platforms(), request_lists(), st.sampled_from(sorted(STORAGE)), TO_THE_LETTER, st.integers(0, 9))
def test_a_run_to_the_letter_has_every_slip_of_the_original(
    platform: Platform, requests: Requests, name: str, rules: Rules, seed: int
) -> None:
    compared(platform, requests, name, rules, seed)


@pytest.mark.parametrize("name", STORAGE)
@pytest.mark.parametrize("mode", ["correct", "storalloc"])
def test_a_longer_run_outgrows_its_arrays_without_a_trace(
    name: str, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    drawn = zip(rng.integers(0, 2000, 150), rng.integers(0, 900, 150), rng.integers(1, 9 * GB, 150), strict=True)
    requests = requests_of([(float(start), float(duration), int(size)) for start, duration, size in drawn])
    platform = platform_of([(12 * GB, 1e9)] * 3, [(30 * GB, 2e9)] * 2, servers=[1, 1], network=12.5e9)
    rules = Rules(mode=mode, split=4 * GB, tries=2)
    wide = compared(platform, requests, name, rules, 1)
    monkeypatch.setattr(run_module, "ledger", partial(ledger, bookings=1))
    narrow = run_storage(platform, requests, STORAGE[name], rules, seed=1)
    assert narrow.verdicts.tolist() == wide.verdicts.tolist()
    assert narrow.parts[["bytes", "disk"]].tolist() == wide.parts[["bytes", "disk"]].tolist()


def test_a_request_of_thousands_of_parts_finds_room_for_them() -> None:
    platform = platform_of([(4000 * GB, 1e9)])
    run = run_storage(platform, requests_of([(0.0, 5.0, 3000 * GB)]), STORAGE["first-fit"], Rules(split=GB))
    assert parts_of(run, 0) == [(0, GB)] * 3000
    assert run.disks["most_live"].tolist() == [3000]


# What must always hold


@settings(max_examples=examples(60))
@given(platforms(), request_lists(shortest=1), st.sampled_from(sorted(STORAGE)), st.one_of(CORRECT, TO_THE_LETTER))
def test_nothing_is_lost_and_no_disk_is_overfull(
    platform: Platform, requests: Requests, name: str, rules: Rules
) -> None:
    run = run_storage(platform, requests, STORAGE[name], rules)
    states = [state_of(run, request) for request in range(len(requests))]
    assert all(state in ("allocated", "refused", "failed") for state in states)
    for used, disk in zip(run.disks, platform.disks, strict=True):
        assert used["most_bytes"] <= disk.capacity
    sizes = sizes_of(run)
    for request, state in enumerate(states):
        parts = parts_of(run, request)
        assert sum(size for _, size in parts) == sizes[request]
        assert all((disk == -1) == (state == "refused") for disk, _ in parts)
    held = np.where(np.array(states) == "allocated", sizes, 0)
    by_hand = math.fsum(
        float(size) * (end - start) for size, end, start in zip(held, run.ends, run.verdicts["start"], strict=True)
    )
    capacities = np.array([disk.capacity for disk in platform.disks])
    assert (run.disks["use_seconds"] * capacities).sum() == pytest.approx(by_hand, rel=1e-6, abs=1.0)
    if not rules.letter:
        assert sizes.tolist() == requests.bytes.tolist()
        assert run.total["put"] == held.sum()


@settings(max_examples=examples(100))
@given(
    platforms(),
    request_lists(shortest=1),
    st.sampled_from(["round-robin", "best-bandwidth", "fill", "first-fit", "best-fit", "forebay"]),
    CORRECT,
)
def test_who_looks_for_room_never_fails(platform: Platform, requests: Requests, name: str, rules: Rules) -> None:
    run = run_storage(platform, requests, STORAGE[name], rules)
    assert "failed" not in {state_of(run, request) for request in range(len(requests))}


@settings(max_examples=examples(50))
@given(platforms(), request_lists(), st.sampled_from(sorted(STORAGE)), CORRECT, st.integers(0, 3))
def test_the_same_seed_gives_the_same_run(
    platform: Platform, requests: Requests, name: str, rules: Rules, seed: int
) -> None:
    one, other = (run_storage(platform, requests, STORAGE[name], rules, seed=seed) for _ in range(2))
    assert one.verdicts.tolist() == other.verdicts.tolist()
    assert one.parts.tolist() == other.parts.tolist()


# By hand


def test_the_slips_of_the_original_one_by_one() -> None:
    disk = platform_of([(10 * GB, 1e9)])
    first_fit = STORAGE["first-fit"]

    def states(rules: Rules, *asked: tuple[float, float, int]) -> list[str]:
        run = run_storage(disk, requests_of(asked), first_fit, rules)
        return [state_of(run, request) for request in range(len(asked))]

    letter, correct = Rules(mode="storalloc", split=4 * GB), Rules(split=4 * GB)
    # 1. Parts of 4, 4 and 1 GB are booked as 3 of 1 GB: 7 more seem to fit.
    asked = [(0.0, 10.0, 9 * GB), (0.0, 10.0, 4 * GB)]
    assert states(correct, *asked) == ["allocated", "refused"]
    assert states(letter, *asked) == ["allocated", "failed"]
    # 2. Of 4, 4 and 4 GB the third is refused, and the first two stay booked.
    asked = [(0.0, 10.0, 12 * GB), (0.0, 10.0, 4 * GB)]
    assert states(correct, *asked) == ["refused", "allocated"]
    assert states(letter, *asked) == ["refused", "refused"]
    # 3. A job of a day and an hour holds its space for an hour: another, not decided by what is booked, fits.
    asked = [(0.0, 90_000.0, 4 * GB), (0.0, 90_000.0, 4 * GB), (7200.0, 10.0, 4 * GB)]
    for rules, last in ((correct, "failed"), (letter, "allocated")):
        run = run_storage(disk, requests_of(asked), STORAGE["random"], rules)
        assert state_of(run, 2) == last
    # 4. Who starts as another ends finds the disk full.
    asked = [(0.0, 10.0, 4 * GB), (0.0, 10.0, 4 * GB), (10.0, 5.0, 4 * GB)]
    assert states(correct, *asked) == ["allocated"] * 3
    assert states(letter, *asked) == ["allocated", "allocated", "failed"]


def test_a_delayed_request_keeps_its_duration_and_to_the_letter_its_end_for_the_policy() -> None:
    disk = platform_of([(10 * GB, 1e9)])
    asked = [(0.0, 1000.0, 8 * GB), (0.0, 2000.0, 4 * GB), (1500.0, 5000.0, 8 * GB)]
    for mode in ("correct", "storalloc"):
        rules = Rules(mode=mode, tries=12)
        run = run_storage(disk, requests_of(asked), STORAGE["first-fit"], rules)
        assert run.verdicts["start"].tolist()[:2] == [0.0, 1200.0]
        assert run.ends[1] == 3200.0
        # Correct: booked until 3200, so the third comes at 3300. To the letter: until 2000; it comes at 2100 and fails.
        late = (3300.0, "allocated") if mode == "correct" else (2100.0, "failed")
        assert (run.verdicts["start"][2], state_of(run, 2)) == late


def test_a_refused_request_has_tried_as_often_as_it_may() -> None:
    disk = platform_of([(10 * GB, 1e9)])
    asked = [(0.0, 1e6, 8 * GB), (0.0, 1000.0, 4 * GB), (0.0, 1e5, 4 * GB)]
    correct, storalloc = Rules(tries=12), Rules(mode="storalloc", tries=12)
    for rules, tried in ((correct, [0, 12, 12]), (storalloc, [0, 3, 12])):
        run = run_storage(disk, requests_of(asked), STORAGE["first-fit"], rules)
        assert run.verdicts["tried"].tolist() == tried


# Other people's policies


def first_fit_in_python(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:  # noqa: ARG001
    """The first disk that has room."""
    for disk in range(len(ledger.disks)):
        if ledger.disks[disk]["capacity"] - peak(ledger, disk, start, end)[0] >= size:
            return disk
    return -1


@kernel
def first_fit_in_a_kernel(ledger: Any, size: int, start: float, end: float, duration: float, turn: Any) -> int:  # noqa: ARG001
    """The first disk that has room."""
    for disk in range(ledger.disks.size):
        if ledger.disks[disk].capacity - peak(ledger, disk, start, end)[0] >= size:
            return disk
    return -1


MINE = [storage("mine")(first_fit_in_python), storage("mine")(first_fit_in_a_kernel)]


@pytest.mark.parametrize("mine", MINE, ids=["python", "kernel"])
@settings(max_examples=examples(40))
@given(platforms(), request_lists(), st.one_of(CORRECT, TO_THE_LETTER))
def test_somebody_elses_policy_is_asked_the_same(
    mine: Policy, platform: Platform, requests: Requests, rules: Rules
) -> None:
    theirs, ours = (run_storage(platform, requests, policy, rules) for policy in (mine, STORAGE["first-fit"]))
    assert theirs.policy == "mine"
    assert theirs.verdicts.tolist() == ours.verdicts.tolist()
    assert theirs.parts.tolist() == ours.parts.tolist()
    for name in ("ends", "disks", "nodes"):
        assert getattr(theirs, name).tolist() == getattr(ours, name).tolist()


@pytest.mark.parametrize("answer", [2, -2, 10**6])
def test_a_disk_that_is_not_there_is_the_policys_fault(answer: int) -> None:
    policy = storage("mine")(lambda *_: answer)
    with pytest.raises(PolicyError, match=f"mine: returns disk {answer}; expected 0 to 1, or -1"):
        run_storage(platform_of([(GB, 1.0)] * 2), requests_of([(0.0, 1.0, 5)]), policy, Rules())


@pytest.mark.parametrize("mine", [STORAGE["random"], MINE[0]], ids=["built in", "somebody else's"])
def test_progress_is_told(mine: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "REQUESTS_PER_SLICE", 2)
    told: list[float] = []
    requests = requests_of([(float(k), 1.0, 5) for k in range(5)])
    run_storage(platform_of([(GB, 1.0)]), requests, mine, Rules(), progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 5
    assert {2, 4} <= set(told)


# Against the original

ORIGINAL = pytest.mark.skipif(not DATA.is_dir(), reason="needs the data that is shared beside the repository")


@pytest.fixture(scope="module")
def theta() -> Requests:
    return read_requests([DATA / "iojobs-24k.yml.gz"])


@pytest.fixture(scope="module")
def second_year() -> Requests:
    return read_requests([DATA / "second-year" / "iojobs.yml.gz"])


def to_the_letter(
    requests: Requests, name: str, seed: int = 0, platform: str = "32TB/nNnD", tries: int = 0
) -> dict[str, Any]:
    rules = Rules(mode="storalloc", split=SPLIT, tries=tries)
    return document(run_storage(reference_platform(platform), requests, STORAGE[name], rules, seed=seed))


def original(name: str, year: str = "original") -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DATA / year / f"{name}.yml").read_text())
    return loaded


@ORIGINAL
def test_round_robin_meets_the_originals_output_in_every_field(theta: Requests) -> None:
    ours, theirs = to_the_letter(theta, "round-robin"), original("rr")
    assert {field: ours.get(field) for field in theirs} == theirs


@ORIGINAL
@pytest.mark.parametrize(
    ("file", "platform", "tries"), [("rr-8TB-split", "8TB/nNnD", 0), ("rr-16TB-split-retry", "16TB/nNnD", 12)]
)
def test_round_robin_meets_the_originals_output_where_many_requests_fail(
    second_year: Requests, file: str, platform: str, tries: int
) -> None:
    ours = to_the_letter(second_year, "round-robin", platform=platform, tries=tries)
    theirs = original(file, "second-year")
    assert {field: ours.get(field) for field in theirs} == theirs


NOT_BY_CHANCE = (
    "requests_count",
    "split_requests_count",
    "max_concurrent_allocations",
    "refused_requests_count",
    "sim_first_ts",
    "sim_last_ts",
    "sim_duration",
    "alloc_split_requests_duration",
    "registrations_count",
    "split_threshold_gb",
    "retries_allowed",
)


@ORIGINAL
@pytest.mark.parametrize(
    ("name", "file"), [("random", "random"), ("worst-fit", "worst_fit"), ("best-bandwidth", "worst_case")]
)
def test_policies_that_draw_come_close_to_the_original(theta: Requests, name: str, file: str) -> None:
    ours, theirs = [to_the_letter(theta, name, seed) for seed in range(8)], original(file)
    for run in ours:
        assert {field: run[field] for field in NOT_BY_CHANCE} == {field: theirs[field] for field in NOT_BY_CHANCE}
    for field in (
        "failed_requests_count",
        "failed_split_requests_count",
        "alloc_split_requests_count",
        "tt_allocated_gb",
    ):
        found = [run[field] for run in ours]
        assert min(found) <= theirs[field] <= max(found)
