"""The rules of a run: what they refuse, and what they make of requests."""

import math
from typing import Any

import pytest

from forebay.model.errors import BadInput
from forebay.simulate.storage.rules import INTERVAL, Feedback, Rules
from support.storage import GB, requests_of


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mode": "exact"}, "storage.as: must be 'correct' or 'storalloc', not 'exact'"),
        ({"split": -1}, "storage.split: must be positive, not -1 bytes"),
        ({"mode": "storalloc", "split": 1500}, "storage.split: must be positive and whole GB, not 1,500 bytes"),
        ({"mode": "storalloc", "split": -GB}, "storage.split: must be positive and whole GB, not -1,000,000,000 bytes"),
        ({"tries": -1}, "storage.requeue.tries: must be 0 or more, not -1"),
        ({"tries": 1, "interval": 0.0}, "storage.requeue.interval: must be positive and finite, not 0 s"),
        ({"tries": 1, "interval": -5.0}, "storage.requeue.interval: must be positive and finite, not -5 s"),
        ({"tries": 1, "interval": math.inf}, "storage.requeue.interval: must be positive and finite, not inf s"),
        ({"tries": 1, "interval": math.nan}, "storage.requeue.interval: must be positive and finite, not nan s"),
    ],
)
def test_impossible_rules_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as raised:
        Rules(**wrong)
    assert str(raised.value) == said


def test_who_is_not_requeued_needs_no_interval() -> None:
    assert Rules(interval=0.0).tries == 0


def test_the_rules_by_default_are_correct_and_neither_split_nor_requeue() -> None:
    rules = Rules()
    assert (rules.mode, rules.letter, rules.split, rules.tries, rules.interval) == ("correct", False, 0, 0, INTERVAL)
    assert Rules(mode="storalloc", split=2 * GB).letter


def test_a_threshold_that_makes_too_many_parts_is_refused() -> None:
    requests = requests_of([(0.0, 1.0, 60 * GB), (0.0, 1.0, 60 * GB)])
    Rules(split=1200).check(requests)
    Rules().check(requests)
    with pytest.raises(BadInput, match=r"^storage.split: 1,000 bytes make 1.2e\+08 parts; the limit is 1e\+08$"):
        Rules(split=1000).check(requests)


def test_the_horizon_is_the_earliest_start_still_to_come() -> None:
    asks = Rules().asks(requests_of([(5.0, 1.0, 7), (2.0, 3.0, 8), (9.0, 2.0, 9), (4.0, 2.0, 1)]))
    assert asks["horizon"].tolist() == [2.0, 2.0, 4.0, 4.0]
    assert asks["start"].tolist() == [5.0, 2.0, 9.0, 4.0]
    assert asks["duration"].tolist() == [1.0, 3.0, 2.0, 2.0]
    assert asks["bytes"].tolist() == [7, 8, 9, 1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"pfs": 0.0}, "storage.feedback.pfs: must be positive, not 0"),
        ({"pfs": -1.0}, "storage.feedback.pfs: must be positive, not -1"),
        ({"pfs": math.nan}, "storage.feedback.pfs: must be positive, not nan"),
        ({"phases": 0}, "storage.feedback.phases: must be at least 1, not 0"),
    ],
)
def test_impossible_feedback_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as raised:
        Feedback(**wrong)
    assert str(raised.value) == said


def test_a_parallel_file_system_may_be_infinitely_fast() -> None:
    assert Feedback(pfs=math.inf).pfs == math.inf
