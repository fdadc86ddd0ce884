"""What is said of a study of request windows follows from its numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forebay.model.arrays import Bools, Floats
from forebay.show.rows import match_rows
from forebay.studies.request_windows.findings import conclusions, differences
from forebay.studies.request_windows.results import percent, tuner_label
from support.request_windows import PAPERS, TENTH, made_up, others

FULL = made_up()
SAID = conclusions(FULL)


def the(sentences: list[str], words: str) -> str:
    [found] = [s for s in sentences if words in s]
    return found


def test_the_best_and_the_worst_are_named() -> None:
    assert the(SAID, "Compared with fifo, the best") == (
        "Compared with fifo, the best of 3 windows gains more than 2 % in 7 of 9 situations and loses more than that "
        "in 0. The largest gain is +25 % (128 processes, shared, strided reads of 32 KiB, 8 I/O nodes; 8 ms), the "
        "largest loss -30 % (128 processes, shared, contiguous writes of 32 KiB, 2 I/O nodes; 8 ms)."
    )


def test_one_window_for_all_is_judged() -> None:
    # 1 ms: 1 for two file-per-process and four contiguous, 1.1 / 1.25 for three strided.
    share = (2 + 4 + 3 * 1.1 / 1.25) / 9
    assert f"(1 ms) gives {100 * share:.1f} %" in the(SAID, "No window fits all")


def test_detection_is_told_for_sizes_seen_and_not() -> None:
    told = the(SAID, "recognises")
    assert (
        "the network recognises the pattern in 100.00 % of the study's periods and 96.67 % of those with other sizes"
        in told
    )
    assert "99.82 %" in told


def test_half_of_the_regret_is_stated_with_its_number() -> None:
    told = the(SAID, "forebay's regret is")
    assert "forebay has lost 1.20 steps of the best window and epsilon 0.1 3.00" in told
    assert "forebay's regret is 0.40 of that, at most half (at most half in 100 % of situations)" in told


def test_more_than_half_is_not_called_half() -> None:
    learned = FULL.learned.copy()
    regret: Floats = learned["regret"]
    regret[match_rows(learned, tuner="forebay", similar=False)] *= 1.5
    told = the(conclusions(replace(FULL, learned=learned)), "forebay's regret is")
    assert "is 0.60 of that, more than half (at most half in 0 % of situations)" in told


def test_what_was_heard_can_help_and_can_mislead() -> None:
    assert the(SAID, "After similar situations").endswith("0.60 instead of 1.20 in all 60.")
    learned = FULL.learned.copy()
    regret: Floats = learned["regret"]
    similar: Bools = learned["similar"]
    regret[similar] *= 2.05
    told = the(conclusions(replace(FULL, learned=learned)), "After similar situations")
    assert told.endswith("1.23 instead of 1.20 in all 60.")  # which is as much
    regret[similar] *= 5
    told = the(conclusions(replace(FULL, learned=learned)), "After similar situations")
    assert told.endswith("the earlier situations mislead it.")


def test_learning_in_turns_is_compared_with_learning_alone() -> None:
    assert "Instances that take turns learn as they do alone" in the(SAID, "take turns")
    learned = FULL.learned.copy()
    learned["precision"][learned["together"]] = 0.05
    told = the(conclusions(replace(FULL, learned=learned)), "take turns")
    assert "do not learn as they do alone" in told


def test_rewards_are_compared_where_demand_changes() -> None:
    told = [s for s in SAID if s.startswith("When demand changes")]
    assert len(told) == 4
    assert "A 80.0 and 95.0 %, B 80.0 and 95.0 %" in told[0] and told[0].endswith("is better in 3 of 3.")
    swapped = FULL.demanded.copy()
    swapped["reward"] = np.where(swapped["reward"] == "demand", "bandwidth", "demand")
    others_ = [s for s in conclusions(replace(FULL, demanded=swapped)) if s.startswith("When demand")]
    assert all(s.endswith("is better in 0 of 3.") for s in others_)


def test_schedulers_that_do_as_fifo_are_named_apart() -> None:
    assert "hbrr +50 % to +50 % (gains in 9, loses in 0)" in the(SAID, "Other schedulers")
    assert the(SAID, "fifo within").startswith("wfq equals fifo within 2 %")


def test_shares_of_the_papers_epsilon_stand_beside_its_own() -> None:
    assert "A from 0.88 to 0.98 (paper: 0.87 to 1.00), precision 70 %" in the(SAID, "With epsilon 0.15")


def test_nothing_is_said_of_what_was_not_run() -> None:
    few = made_up(others(), tuners=("my<own>",), schedulers=())
    said = conclusions(few)
    assert len(said) == 5
    assert differences(few) == []


def test_only_what_differs_is_explained() -> None:
    told = differences(FULL)
    assert "B 0.88 (paper: 0.79" in the(told, "first bin") and "C 0.88 (paper: 0.95" in the(told, "first bin")
    assert "A 0.88" not in the(told, "first bin")  # 0.87 is near
    assert not any("last bin" in s or "reads of a shared file" in s or "recognises" in s for s in told)
    assert [s[:4] for s in told if "best epsilon" in s] == ["In A", "In B", "In C"]


def test_a_gain_by_a_convoy_is_explained_as_one() -> None:
    periods = FULL.periods.copy()
    run: Floats = periods["run"]
    run[match_rows(periods, experiment=2, window=1_000_000)] *= 2
    told = the(differences(replace(FULL, periods=periods)), "reads of a shared file")
    assert "+140 %" in told and "paper cites +28 %" in told and "begins on the same server" in told


def test_a_gain_that_is_missing_is_explained_by_the_model() -> None:
    periods = FULL.periods.copy()
    run: Floats = periods["run"]
    run[match_rows(periods, scheduler="fifo")] *= 1.25
    told = the(differences(replace(FULL, periods=periods)), "reads of a shared file")
    assert "is 0 % (" in told and "fitted to other figures" in told


def test_a_share_that_epsilon_cannot_reach_is_explained_by_it() -> None:
    learned = FULL.learned.copy()
    learned["share"][match_rows(learned, tuner=PAPERS, bin=5)] = 0.9
    told = [s for s in differences(replace(FULL, learned=learned)) if "last bin" in s]
    assert len(told) == 3 and all("left to chance" in s for s in told)
    assert "A, epsilon 0.15: 0.90 (paper: 1.00)" in told[0]


def test_bad_recognition_of_the_studys_periods_is_explained() -> None:
    detected = FULL.detected.copy()
    mine = match_rows(detected, set="seen", classifier="tree", operation="read", pattern=0)
    detected["found"][mine] = (50, 50, 0)
    told = the(differences(replace(FULL, detected=detected)), "recognises")
    assert told.startswith("The tree recognises 90.0 % of read periods") and "(least 98.0 %)" in told


@pytest.mark.parametrize(
    ("tuner", "name"),
    [
        (TENTH, "epsilon 0.1"),
        ("epsilon-greedy", "epsilon-greedy"),
        ("epsilon-greedy:epsilon=0.1:half_life=9", "epsilon-greedy:epsilon=0.1:half_life=9"),
    ],
)
def test_tuners_are_called_by_their_epsilon(tuner: str, name: str) -> None:
    assert tuner_label(tuner) == name


def test_percent_never_says_minus_nothing() -> None:
    assert [percent(x, 1) for x in (-0.0004, 0.0004, -0.01)] == ["0 %", "0 %", "-1.0 %"]
