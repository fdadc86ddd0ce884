"""What is simulated to train on, and that the detector that ships recognises it."""

import numpy as np
import pytest

from forebay.model.situation import PATTERNS
from forebay.profile.pattern_detector import classify, features, parse_detector, shipped_detector
from forebay.simulate.requests import training_data
from forebay.simulate.requests.training_data import HELD_OUT, TRAINING, document, examples


def test_each_pattern_is_shown_as_often_and_every_period_has_requests() -> None:
    told: list[int] = []
    found = list(examples(HELD_OUT, 9, seed=3, progress=told.append))
    assert told == list(range(1, 10))
    assert {label for _, label in found} == set(PATTERNS)
    assert all(seen.requests >= training_data.FEWEST for seen, _ in found) and len(found) <= 9 * training_data.EACH


def test_the_same_seed_gives_the_same_examples() -> None:
    assert list(examples(TRAINING, 3, seed=1)) == list(examples(TRAINING, 3, seed=1))


def test_examples_are_the_same_whoever_simulates_them_and_however_many_come_after() -> None:
    alone = list(examples(TRAINING, 7, seed=1))
    assert list(examples(TRAINING, 7, seed=1, workers=2)) == alone
    assert list(examples(TRAINING, 9, seed=1))[: len(alone)] == alone


def test_no_size_is_both_trained_on_and_held_out() -> None:
    assert not set(TRAINING.processes) & set(HELD_OUT.processes)
    assert not set(TRAINING.requests) & set(HELD_OUT.requests)
    assert not set(TRAINING.rounds) & set(HELD_OUT.rounds)


@pytest.mark.parametrize("by", ["network", "tree"])
def test_the_shipped_detector_recognises_what_it_has_never_seen(by: str) -> None:
    found = list(examples(HELD_OUT, 60, seed=77))
    classes = np.array([PATTERNS.index(label) for _, label in found])
    assert np.mean(classify(features(seen for seen, _ in found), shipped_detector(), by) == classes) > 0.93  # type: ignore[arg-type]


def test_a_small_detector_can_be_trained_from_scratch() -> None:
    made = document(24, seed=5)
    assert parse_detector(made, "here").document["recipe"]["scenarios"] == 24
    assert made["results"]["tree"]["testing"]["accuracy"] > 0.8
