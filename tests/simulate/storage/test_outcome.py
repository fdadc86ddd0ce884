"""What a run comes to: every number worked out by hand."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.decide.policy import storage
from forebay.decide.storage import policies as choose
from forebay.model.space_requests import Requests
from forebay.model.system import Platform
from forebay.show.output import plain
from forebay.simulate.storage.outcome import DECISION, decisions, document, slowdowns
from forebay.simulate.storage.refusals import (
    FULL,
    NO_ROOM,
    NO_ROOM_FOR_ALL,
    NOT_BY_THE_POLICY,
    PART_FULL,
    TOO_LARGE,
    TOO_LARGE_FOR_A_DISK,
    reasons_of,
)
from forebay.simulate.storage.rules import DAY, Feedback, Rules
from forebay.simulate.storage.run import Run, run_storage
from support.examples import examples
from support.storage import CORRECT, GB, TO_THE_LETTER, platform_of, platforms, request_lists, requests_of

STORAGE = {policy.name: policy for policy in choose.STORAGE}
ONE_DISK = platform_of([(10 * GB, 1e9)])


def ran(platform: Platform, policy: str, rules: Rules, *asked: tuple[float, float, int], **others: Any) -> Run:
    return run_storage(platform, requests_of(asked), STORAGE[policy], rules, **others)


def part_of(found: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: found[key] for key in keys}


# Correct


@pytest.fixture(scope="module")
def unsplit() -> Run:
    """Three disks of 10, 10 and 20 GB on two nodes, six requests, none split."""
    return ran(
        platform_of([(10 * GB, 1e9), (10 * GB, 1e9)], [(20 * GB, 1e9)]),
        "first-fit",
        Rules(),
        (0.0, 100.0, 8 * GB),  # disk 0
        (0.0, 50.0, 5 * GB),  # disk 1
        (50.0, 100.0, 10 * GB),  # disk 1, as the one before leaves
        (20.0, 20.0, 25 * GB),  # fits no disk
        (60.0, 40.0, 20 * GB),  # disk 2
        (90.0, 10.0, 3 * GB),  # no disk has room
    )


def test_a_run_without_splitting_in_every_number(unsplit: Run) -> None:
    found = document(unsplit)
    disks, nodes, fairness = (found.pop(key) for key in ("disks", "nodes", "fairness"))
    assert found == {
        "mode": "correct",
        "platform": "by hand",
        "policy": "first-fit",
        "origin": "a test",
        "split_bytes": None,
        "requeue": None,
        "seed": 0,
        "requests": 6,
        "parts": 6,
        "sum_bytes": 71 * GB,
        "allocated_bytes": 43 * GB,
        "allocated_share": 43 / 71,
        "allocated": 4,
        "refused": 2,
        "refused_bytes": 28 * GB,
        "failed": 0,
        "failed_bytes": 0,
        "delayed": 0,
        "requeued": 0,
        "delay_seconds": 0.0,
        "split": {
            "requests": 0,
            "parts": 0,
            "bytes": 0,
            "allocated": 0,
            "refused": 0,
            "failed": 0,
            "allocated_bytes": 0,
            "refused_bytes": 0,
            "failed_bytes": 0,
        },
        "reasons": [
            {"reason": TOO_LARGE_FOR_A_DISK, "requests": 1, "bytes": 25 * GB},
            {"reason": NO_ROOM, "requests": 1, "bytes": 3 * GB},
        ],
        "max_concurrent": 3,
        "seconds": 150.0,
        "jobs": None,
    }
    used = [[disk[key] for key in ("max_use", "mean_use", "max_allocations", "mean_allocations")] for disk in disks]
    assert [part_of(disk, "node", "disk", "capacity") for disk in disks] == [
        {"node": "node-0", "disk": 0, "capacity": 10 * GB},
        {"node": "node-0", "disk": 1, "capacity": 10 * GB},
        {"node": "node-1", "disk": 0, "capacity": 20 * GB},
    ]
    assert used[0] == pytest.approx([0.8, 80 / 150, 1, 100 / 150])
    assert used[1] == pytest.approx([1.0, (0.5 * 50 + 1.0 * 100) / 150, 1, 1.0])
    assert used[2] == pytest.approx([1.0, 40 / 150, 1, 40 / 150])
    assert nodes == [
        {
            "node": "node-0",
            "capacity": 20 * GB,
            "max_use": 18 / 20,
            "mean_use": pytest.approx((13 + 18 + 10) * 50 / 20 / 150),
            "max_allocations": 2,
            "mean_allocations": pytest.approx((2 + 2 + 1) * 50 / 150),
        },
        {
            "node": "node-1",
            "capacity": 20 * GB,
            "max_use": 1.0,
            "max_allocations": 1,
            "mean_use": pytest.approx(40 / 150),
            "mean_allocations": pytest.approx(40 / 150),
        },
    ]
    mean = (100 + 150 + 40) / 150 / 3
    assert fairness == pytest.approx(
        {
            "mean_mean_allocations": mean,
            "std_mean_allocations": math.sqrt(sum((x / 150 - mean) ** 2 for x in (100, 150, 40)) / 2),
            "max_mean_allocations": 1.0,
            "mean_max_allocations": 1.0,
            "std_max_allocations": 0.0,
            "max_max_allocations": 1.0,
        }
    )


def test_decisions_without_splitting(unsplit: Run) -> None:
    assert list(decisions(unsplit)) == [
        ("0", 0, "allocated", "node-0", 0, 8 * GB, 0.0, 100.0, ""),
        ("1", 0, "allocated", "node-0", 1, 5 * GB, 0.0, 50.0, ""),
        ("2", 0, "allocated", "node-0", 1, 10 * GB, 50.0, 150.0, ""),
        ("3", 0, "refused", "", "", 25 * GB, 20.0, 40.0, TOO_LARGE_FOR_A_DISK),
        ("4", 0, "allocated", "node-1", 0, 20 * GB, 60.0, 100.0, ""),
        ("5", 0, "refused", "", "", 3 * GB, 90.0, 100.0, NO_ROOM),
    ]


@pytest.fixture(scope="module")
def split() -> Run:
    """Two disks of 10 GB; requests above 4 GB are split, and those refused come twice again, 30 s apart."""
    return ran(
        platform_of([(10 * GB, 1e9)] * 2),
        "first-fit",
        Rules(split=4 * GB, tries=2, interval=30.0),
        (0.0, 100.0, 18 * GB),  # 4 + 4 + 2 on disk 0, 4 + 4 on disk 1
        (40.0, 10.0, 5 * GB),  # at 100, as that one leaves: disk 0
        (50.0, 1.0, 21 * GB),  # more than there is
        (10.0, 5.0, 9 * GB),  # also at 70 there is no room for all parts
        (0.0, 10.0, 2 * GB),  # the rest of disk 1
        (0.0, 10.0, 3 * GB),  # also at 60 no disk has room
    )


def test_a_run_with_splitting_and_requeueing_in_every_number(split: Run) -> None:
    found = document(split)
    counted = {key: value for key, value in found.items() if key not in ("disks", "nodes", "fairness", "reasons")}
    assert counted == {
        "mode": "correct",
        "platform": "by hand",
        "policy": "first-fit",
        "origin": "a test",
        "split_bytes": 4 * GB,
        "requeue": {"tries": 2, "interval": 30.0},
        "seed": 0,
        "requests": 6,
        "parts": 5 + 2 + 6 + 3 + 1 + 1,
        "sum_bytes": 58 * GB,
        "allocated_bytes": 25 * GB,
        "allocated_share": 25 / 58,
        "allocated": 3,
        "refused": 3,
        "refused_bytes": 33 * GB,
        "failed": 0,
        "failed_bytes": 0,
        "delayed": 1,
        "requeued": 4,
        "delay_seconds": 60.0,
        "split": {
            "requests": 4,
            "parts": 16,
            "bytes": 53 * GB,
            "allocated": 2,
            "refused": 2,
            "failed": 0,
            "allocated_bytes": 23 * GB,
            "refused_bytes": 30 * GB,
            "failed_bytes": 0,
        },
        "max_concurrent": 6,
        "seconds": 110.0,
        "jobs": None,
    }
    assert found["reasons"] == [
        {"reason": TOO_LARGE, "requests": 1, "bytes": 21 * GB},
        {"reason": NO_ROOM, "requests": 1, "bytes": 3 * GB},
        {"reason": NO_ROOM_FOR_ALL, "requests": 1, "bytes": 9 * GB},
    ]
    one, other = found["disks"]
    assert [one["max_use"], one["max_allocations"], other["max_use"], other["max_allocations"]] == [1.0, 3, 1.0, 3]
    assert one["mean_use"] == pytest.approx((1.0 * 100 + 0.5 * 10) / 110)
    assert one["mean_allocations"] == pytest.approx((3 * 100 + 2 * 10) / 110)
    assert other["mean_use"] == pytest.approx((0.8 * 100 + 0.2 * 10) / 110)
    assert other["mean_allocations"] == pytest.approx((2 * 100 + 1 * 10) / 110)


def test_decisions_with_splitting(split: Run) -> None:
    rows = [dict(zip(DECISION, row, strict=True)) for row in decisions(split)]
    assert len(rows) == 18
    assert [(row["part"], row["disk"], row["bytes"]) for row in rows[:7]] == [
        *((0, 0, 4 * GB), (1, 0, 4 * GB), (2, 1, 4 * GB), (3, 1, 4 * GB), (4, 0, 2 * GB)),
        *((0, 0, 4 * GB), (1, 0, GB)),
    ]
    assert rows[6] == {
        "request": "1",
        "part": 1,
        "state": "allocated",
        "node": "node-0",
        "disk": 0,
        "bytes": GB,
        "start": 100.0,
        "end": 110.0,
        "reason": "",
    }
    assert rows[12] == {  # after all delays
        "request": "2",
        "part": 5,
        "state": "refused",
        "node": "",
        "disk": "",
        "bytes": GB,
        "start": 110.0,
        "end": 111.0,
        "reason": TOO_LARGE,
    }


FAILING = (
    (0.0, 10.0, 7 * GB),  # 4 + 3
    (0.0, 10.0, 2 * GB),
    (5.0, 10.0, 6 * GB),  # 9 + 4 is too much
    (5.0, 10.0, 4 * GB),
    (2.0, 1.0, 30 * GB),
)


def test_who_was_put_on_a_full_disk_fails_and_is_told_why() -> None:
    run = ran(ONE_DISK, "random", Rules(split=4 * GB), *FAILING)
    found = document(run)
    assert part_of(found, "allocated", "allocated_bytes", "sum_bytes", "failed", "failed_bytes", "refused") == {
        "allocated": 2,
        "allocated_bytes": 9 * GB,
        "sum_bytes": 49 * GB,
        "failed": 3,
        "failed_bytes": 40 * GB,
        "refused": 0,
    }
    assert part_of(found["split"], "requests", "allocated", "failed", "failed_bytes") == {
        "requests": 3,
        "allocated": 1,
        "failed": 2,
        "failed_bytes": 36 * GB,
    }
    assert reasons_of(run).tolist() == ["", "", PART_FULL, FULL, TOO_LARGE]
    assert [row[3:5] for row in decisions(run)][3:5] == [("node-0", 0)] * 2  # where it should have gone


def test_reasons_one_by_one() -> None:
    two = platform_of([(10 * GB, 1e9), (6 * GB, 1e9)])

    def reason(policy: str, split: int, size: int, *before: tuple[float, float, int], mode: Any = "correct") -> str:
        run = ran(two, policy, Rules(mode=mode, split=split), *before, (0.0, 10.0, size))
        return str(reasons_of(run)[-1])

    assert reason("first-fit", 0, 10 * GB) == ""
    assert reason("first-fit", 0, 10 * GB + 1) == TOO_LARGE_FOR_A_DISK
    assert reason("first-fit", 12 * GB, 12 * GB) == TOO_LARGE_FOR_A_DISK  # at the threshold, not above
    assert reason("first-fit", 0, 99 * GB) == TOO_LARGE_FOR_A_DISK
    assert reason("worst-fit", 0, 99 * GB) == TOO_LARGE_FOR_A_DISK  # fails, all the same
    assert reason("first-fit", GB, 16 * GB + 1) == TOO_LARGE
    assert reason("random", GB, 16 * GB + 1) == TOO_LARGE
    assert reason("forebay", GB, 16 * GB) == ""
    assert reason("first-fit", 0, 7 * GB, (0.0, 9.0, 4 * GB)) == NO_ROOM
    assert reason("first-fit", 5 * GB, 15 * GB, (0.0, 9.0, 4 * GB)) == NO_ROOM_FOR_ALL
    assert reason("first-fit", 20 * GB, 15 * GB, (0.0, 9.0, 4 * GB)) == TOO_LARGE_FOR_A_DISK
    # To the letter, what is rounded up to whole GB counts.
    small = platform_of([(9_700_000_000, 1e9)])
    for rules, said in ((Rules(), ""), (Rules(mode="storalloc"), TOO_LARGE_FOR_A_DISK)):
        run = ran(small, "first-fit", rules, (0.0, 10.0, 9_500_000_000))
        assert reasons_of(run).tolist() == [said]


def test_what_forebay_keeps_in_one_part_although_it_could_be_split_counts_as_split() -> None:
    run = ran(ONE_DISK, "forebay", Rules(split=4 * GB), (0.0, 10.0, 9 * GB), (0.0, 10.0, 9 * GB))
    found = document(run)["split"]
    assert part_of(found, "requests", "parts", "allocated", "refused", "bytes") == {
        "requests": 2,
        "parts": 1 + 3,
        "allocated": 1,
        "refused": 1,
        "bytes": 18 * GB,
    }


# To the letter


def test_a_run_to_the_letter_counts_what_was_taken_back_and_rounds_up() -> None:
    run = ran(
        ONE_DISK,
        "random",
        Rules(mode="storalloc", split=4 * GB),
        (100.0, DAY + 50.0, 3_500_000_000),  # 4 GB, and only 50 s
        (110.0, 20.0, 7 * GB),  # 4 GB fit, 3 more don't: all is taken back
        (120.0, 30.0, 4_500_000_000),  # 4 + 1
        (150.0, 10.0, 2 * GB),  # starts before those that end at the same time
        (200.0, 10.0, 1),  # 1 GB
    )
    found = document(run)
    assert part_of(found, "sum_bytes", "allocated_bytes", "allocated_share", "parts", "max_concurrent", "seconds") == {
        "sum_bytes": 19 * GB,
        "allocated_bytes": 14 * GB,
        "allocated_share": 14 / 19,
        "parts": 7,
        "max_concurrent": 3,
        "seconds": 110.0,
    }
    assert part_of(found, "allocated", "refused", "failed", "failed_bytes") == {
        "allocated": 3,
        "refused": 0,
        "failed": 2,
        "failed_bytes": 9 * GB,
    }
    assert part_of(found["split"], "requests", "bytes", "allocated_bytes", "failed_bytes") == {
        "requests": 2,
        "bytes": 12 * GB,
        "allocated_bytes": 5 * GB,
        "failed_bytes": 7 * GB,
    }
    assert reasons_of(run).tolist() == ["", PART_FULL, "", FULL, ""]
    [disk] = found["disks"]
    assert disk["max_use"] == 0.9
    assert disk["mean_use"] == pytest.approx((0.4 * 50 + 0.5 * 30 + 0.1 * 10) / 110)
    assert disk["mean_allocations"] == pytest.approx((50 + 2 * 30 + 10) / 110)
    theirs = {
        "alloc_delayed_requests_count": 0,
        "alloc_split_requests_count": 1,
        "alloc_split_requests_duration": 50.0,  # also of who failed
        "alloc_split_requests_gb": 9.0,
        "delayed_requests_count": 0,
        "failed_requests_count": 2,
        "failed_split_requests_count": 1,
        "max_concurrent_allocations": 3,
        "refused_delayed_requests_count": 0,
        "refused_requests_count": 0,
        "refused_split_requests_count": 0,
        "refused_split_requests_duration": 0.0,
        "refused_split_requests_gb": 0.0,
        "registrations_count": 1,
        "requests_count": 7,
        "retries_allowed": "no",
        "sim_duration": 110,
        "sim_first_ts": 100,
        "sim_last_ts": 210,
        "split_requests_count": 2,
        "split_threshold_gb": 4,
        "tt_allocated_gb": 14.0,
        "tt_deallocated_gb": 14.0,
        "tt_delay_time_minutes": 0.0,
    }
    assert part_of(found, *theirs) == theirs
    assert found["nodes"] == [
        {
            "disks": [
                {
                    "capacity": 10,
                    "id": 0,
                    "last_alloc_time": 210,
                    "max_cap_utilisation": 90.0,
                    "max_nb_alloc": 3,
                    "mean_capacity_utilisation": 32.727,
                    "mean_nb_alloc": 1.091,
                }
            ],
            "id": "S-0:0",
            "last_alloc_ts": 210,
            "max_nb_alloc": 3,
            "mean_nb_alloc": 1.091,
        }
    ]


def test_waiting_to_the_letter_is_seconds_times_60_and_refused_requests_are_parts() -> None:
    run = ran(
        ONE_DISK,
        "first-fit",
        Rules(mode="storalloc", split=4 * GB, tries=12),
        (0.0, 1000.0, 4 * GB),
        (0.0, 2000.0, 4 * GB),
        (0.0, 5000.0, 3 * GB),  # at 1200
        (0.0, 700.0, 4 * GB),  # comes again at 300 and 600, not after its end
        (0.0, 10.0, 9 * GB),  # split: not requeued
    )
    found = document(run)
    assert run.verdicts["tried"].tolist() == [0, 0, 4, 2, 0]
    assert part_of(found, "delayed", "requeued", "refused", "delay_seconds") == {
        "delayed": 1,
        "requeued": 2,
        "refused": 2,
        "delay_seconds": 1200.0,
    }
    theirs = {
        "alloc_delayed_requests_count": 1,
        "delayed_requests_count": 1,
        "refused_delayed_requests_count": 1,
        "refused_requests_count": 1 + 3,
        "refused_split_requests_count": 1,
        "refused_split_requests_duration": 10.0,
        "refused_split_requests_gb": 9.0,
        "retries_allowed": "yes",
        "split_requests_count": 0,
        "tt_allocated_gb": 11.0,
        "tt_delay_time_minutes": 72_000.0,
        "sim_last_ts": 6200,
    }
    assert part_of(found, *theirs) == theirs


@pytest.mark.parametrize(
    ("taken", "counted"),
    [
        (6 * GB, 100.0),  # the first part is put and the second fails: counted although the request failed
        (7 * GB, 0.0),  # the first part fails
    ],
)
def test_to_the_letter_a_split_requests_duration_counts_once_its_first_part_is_put(taken: int, counted: float) -> None:
    rules = Rules(mode="storalloc", split=4 * GB)
    found = document(ran(ONE_DISK, "random", rules, (0.0, 200.0, taken), (1.0, 100.0, 8 * GB)))
    assert part_of(found, "failed_split_requests_count", "alloc_split_requests_duration") == {
        "failed_split_requests_count": 1,
        "alloc_split_requests_duration": 200.0 + counted,
    }


def test_without_splitting_the_original_has_a_threshold_that_nothing_reaches() -> None:
    run = ran(ONE_DISK, "first-fit", Rules(mode="storalloc"), (0.0, 10.0, GB))
    assert document(run)["split_threshold_gb"] == 100_000


def test_nodes_of_several_servers_have_the_originals_ids() -> None:
    platform = platform_of([(GB, 1e9)], [(GB, 1e9)], [(GB, 1e9)], servers=[2, 1])
    found = document(ran(platform, "round-robin", Rules(mode="storalloc"), (0.0, 10.0, GB)))
    assert [node["id"] for node in found["nodes"]] == ["S-0:0", "S-0:1", "S-1:0"]
    assert found["registrations_count"] == 2


# The least there can be


@pytest.mark.parametrize("mode", ["correct", "storalloc"])
def test_a_run_in_which_nothing_is_served(mode: Any) -> None:
    found = document(ran(ONE_DISK, "first-fit", Rules(mode=mode), (50.0, 10.0, 11 * GB)))
    assert part_of(found, "allocated_bytes", "allocated_share", "allocated", "refused", "max_concurrent") == {
        "allocated_bytes": 0,
        "allocated_share": 0.0,
        "allocated": 0,
        "refused": 1,
        "max_concurrent": 0,
    }
    assert found["seconds"] == 1.0
    assert list(found["disks"][0].values())[3:] == [0.0, 0.0, 0, 0.0]
    assert set(found["fairness"].values()) == {0.0}
    if mode == "storalloc":
        assert (found["sim_first_ts"], found["sim_last_ts"], found["tt_allocated_gb"]) == (0, 0, 0.0)


@pytest.mark.parametrize("mode", ["correct", "storalloc"])
def test_one_request_alone(mode: Any) -> None:
    found = document(ran(ONE_DISK, "forebay", Rules(mode=mode, split=4 * GB), (7.0, 20.0, 4 * GB)))
    assert part_of(found, "allocated_share", "requests", "parts", "max_concurrent", "seconds") == {
        "allocated_share": 1.0,
        "requests": 1,
        "parts": 1,
        "max_concurrent": 1,
        "seconds": 20.0,
    }
    assert found["disks"][0]["mean_use"] == pytest.approx(0.4)
    assert found["fairness"]["std_mean_allocations"] == 0.0


def test_a_request_that_lasts_no_time_at_all_is_served() -> None:
    found = document(ran(ONE_DISK, "first-fit", Rules(), (7.0, 0.0, 4 * GB)))
    assert part_of(found, "allocated", "seconds", "max_concurrent") == {
        "allocated": 1,
        "seconds": 1.0,
        "max_concurrent": 1,
    }
    assert found["disks"][0]["max_use"] == 0.4
    assert found["disks"][0]["mean_use"] == 0.0


# With feedback


def test_slowdowns_are_from_the_start_that_was_asked_for_over_a_duration_of_at_least_10_s() -> None:
    fast = platform_of([(10 * GB, math.inf)])
    asked = [(0.0, 100.0, 4 * GB), (1000.0, 100.0, 20 * GB), (5000.0, 2.0, 30 * GB)]
    requests = requests_of(asked, volumes=[5e9, 5e9, 8e9])
    run = run_storage(fast, requests, STORAGE["first-fit"], Rules(), feedback=Feedback(pfs=1e9, phases=2))
    # On the disk no time at all; on the parallel file system 5 s and 8 s, the latter for a job of 2 s.
    assert slowdowns(run).tolist() == pytest.approx([1.0, 1.05, 1.0])
    assert document(run)["jobs"] == pytest.approx(
        {
            "pfs_bandwidth": 1e9,
            "phases": 2,
            "mean_slowdown": 3.05 / 3,
            "median_slowdown": 1.0,
            "max_slowdown": 1.05,
            "mean_slowdown_on_disks": 1.0,
            "mean_slowdown_on_pfs": 2.05 / 2,
        }
    )


def test_a_mean_over_nobody_is_null_in_json() -> None:
    served = ran(ONE_DISK, "first-fit", Rules(), (0.0, 100.0, GB), feedback=Feedback())
    assert plain(document(served))["jobs"]["mean_slowdown_on_pfs"] is None
    refused = ran(ONE_DISK, "first-fit", Rules(), (0.0, 100.0, 11 * GB), feedback=Feedback())
    assert plain(document(refused))["jobs"]["mean_slowdown_on_disks"] is None


# Any run


@settings(max_examples=examples(60))
@given(platforms(), request_lists(), st.sampled_from(sorted(STORAGE)), st.one_of(CORRECT, TO_THE_LETTER), st.booleans())
def test_a_document_is_json_and_adds_up(
    platform: Platform, requests: Requests, name: str, rules: Rules, with_feedback: bool
) -> None:
    feedback = Feedback() if with_feedback and not rules.letter else None
    run = run_storage(platform, requests, STORAGE[name], rules, feedback=feedback)
    found = document(run)
    assert json.loads(json.dumps(plain(found), allow_nan=False)) == plain(found)
    assert found["allocated"] + found["refused"] + found["failed"] == found["requests"] == len(requests)
    assert sum(reason["requests"] for reason in found["reasons"]) == found["refused"] + found["failed"]
    missed = found["refused_bytes"] + found["failed_bytes"]
    assert sum(reason["bytes"] for reason in found["reasons"]) == missed
    if not rules.letter:
        assert found["allocated_bytes"] + missed == found["sum_bytes"]
    assert found["allocated_bytes"] + missed >= found["sum_bytes"]
    of_split = found["split"]
    assert of_split["allocated"] + of_split["refused"] + of_split["failed"] == of_split["requests"]
    for state in ("refused", "failed"):
        assert of_split[state] <= found[state]
        assert of_split[f"{state}_bytes"] <= found[f"{state}_bytes"]
    rows = list(decisions(run))
    assert len(rows) == found["parts"]
    assert all(len(row) == len(DECISION) and (row[2] == "allocated") == (row[-1] == "") for row in rows)
    for of in ("disks", "nodes"):
        for used in found[of] if "max_use" in found[of][0] else ():
            assert 0 <= used["mean_use"] <= used["max_use"] + 1e-9
            assert used["mean_allocations"] <= used["max_allocations"] + 1e-9


def test_somebody_elses_policy_is_in_the_document_by_its_name() -> None:
    mine = storage("mine")(lambda *_: 0)
    run = run_storage(ONE_DISK, requests_of([(0.0, 1.0, GB)]), mine, Rules(), seed=7)
    assert part_of(document(run), "policy", "seed", "allocated") == {"policy": "mine", "seed": 7, "allocated": 1}


def test_who_is_refused_although_a_disk_has_room_is_told_that_it_was_the_policy() -> None:
    platform = platform_of([(GB, 1e9)] * 6 + [(10 * GB, 1e9)])
    run = ran(platform, "round-robin", Rules(), (0.0, 10.0, 9 * GB))
    assert reasons_of(run).tolist() == [NOT_BY_THE_POLICY]
    crowded = ran(ONE_DISK, "best-bandwidth", Rules(), (0.0, 10.0, 6 * GB), (10.0, 10.0, 6 * GB), (5.0, 10.0, 4 * GB))
    assert reasons_of(crowded).tolist() == ["", "", NOT_BY_THE_POLICY]  # it counts both, who are never there together
