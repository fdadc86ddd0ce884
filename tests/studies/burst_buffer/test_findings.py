"""The sentences about a storage study say what the numbers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forebay.show.rows import select
from forebay.studies.burst_buffer.findings import changes, conclusions
from forebay.studies.burst_buffer.results import OPTIMAL, StorageResults, cohens_d, cohens_table, count_missed, effects
from support.storage_rows import GB, PAPER, TB, random_results, results_of, run_rows

pytestmark = pytest.mark.filterwarnings("error")


def correct(platform: str, policy: str, share: float, **more: Any) -> Any:
    return run_rows("correct", platform, policy, allocated_share=share, **more)


def said(*runs: Any) -> str:
    return " ".join(conclusions(results_of(*runs)))


def test_the_least_capacity_that_is_enough_is_named_with_who_can() -> None:
    text = said(
        correct("16TB/nNnD", "random", 0.8),
        correct("16TB/nNnD", "best-bandwidth", 0.883),
        correct("32TB/nNnD", "random", 0.981),
        correct("32TB/nNnD", "best-bandwidth", 0.994),
        correct("32TB/1NnD", "best-bandwidth", 0.9925),
        correct("16TB/1N1D", "random", 1.0),  # the baseline doesn't count
        correct("64TB/nNnD", "random", 1.0),
    )
    assert (
        "32 TB with 200 GB blocks (1N1D excluded) serves at least 99 % of the bytes under best-bandwidth (99.2 %); "
        "16 TB serves 80.0 to 88.3 %." in text
    )


def test_a_smaller_capacity_that_is_enough_with_requeueing_is_told_apart() -> None:
    text = said(
        correct("16TB/nNnD", "forebay", 0.88),
        correct("16TB/nNnD", "forebay", 0.995, tries=12, requeued=3),
        correct("32TB/nNnD", "forebay", 1.0),
    )
    assert "32 TB with 200 GB blocks (1N1D excluded) serves at least 99 %" in text
    assert "With requeueing, 16 TB does under forebay (99.5 %)." in text
    assert "from 88.0 % to 99.5 %" in text and "by +11.50 to +11.50 points" in text


def test_no_capacity_that_is_enough_is_said_too() -> None:
    text = said(correct("8TB/nNnD", "fill", 0.61), correct("16TB/nNnD", "fill", 0.62))
    assert "No capacity studied serves 99 % of the bytes" in text
    assert "the most is 62.0 % with fill and 16 TB" in text


def test_splitting_is_told_for_each_capacity_that_has_both() -> None:
    text = said(
        correct("8TB/nNnD", "fill", 0.2, split=0),
        correct("8TB/nNnD", "fill", 0.6),
        correct("16TB/nNnD", "fill", 0.7),
    )
    assert (
        "Splitting at 200 GB changes the share that the best policy serves (1N1D excluded) from 20.0 % to 60.0 % with "
        "8 TB." in text
    )


def test_chance_is_not_taken_for_requeueing() -> None:
    text = said(correct("8TB/nNnD", "random", 0.5), correct("8TB/nNnD", "random", 0.4, tries=12))
    assert "No request was requeued in 1 run with requeueing." in text


def test_disks_are_told_by_policy() -> None:
    text = said(
        correct("32TB/nNnD", "random", 1.0, disks=[("a", "", 1.0, 35.0), ("b", "", 0.5, 19.0)]),
        correct("32TB/nNnD", "best-bandwidth", 1.0, disks=[("a", "", 0.9, 25.0), ("b", "", 0.8, 26.0)]),
    )
    assert "the fullest disk reaches 100.0 % (random) and 90.0 % (best-bandwidth) of its capacity" in text
    assert "disks are 1.60 % full on average" in text  # mean of max_use / 50
    assert (
        "The maximum number of allocations at once on a disk is 19 to 35 (random) and 25 to 26 (best-bandwidth)."
        in text
    )
    sigma = np.std([35 / 40, 19 / 40], ddof=1)
    assert f"{sigma:.3f} (random)" in text
    d = cohens_d(np.array([25.0, 26.0]), np.array([35.0, 19.0]))
    assert f"is {d:.2f} against random (positive: best-bandwidth has fewer)" in text


def test_failed_and_refused_are_of_the_worst_run() -> None:
    text = said(
        correct("8TB/nNnD", "random", 0.5, split_failed=9),
        correct("8TB/nN1D", "random", 0.5, split_failed=12),
        correct("8TB/nNnD", "fill", 0.5, split_failed=3, split_refused=4),
        correct("16TB/nNnD", "fill", 0.5),
    )
    assert "with 8 TB at most 12 failed (random) and 3 failed + 4 refused (fill); with 16 TB none." in text


def test_the_fast_disks_part_is_weighted_by_capacity_and_time() -> None:
    disks = [("a", "HDD", 0.1, 5.0), ("b", "SSD", 0.3, 6.0)]
    text = said(correct("32TB/heterogeneous", "fill", 0.75, disks=disks))
    assert "On 32TB/heterogeneous, the share served is 75.0 % (fill)" in text
    assert "SSD disks hold 75.0 % (fill) of the stored bytes." in text


def test_forebay_is_set_beside_the_best_of_the_paper_and_the_bound() -> None:
    text = said(
        correct("8TB/nNnD", "random", 0.5),
        correct("8TB/nNnD", "worst-fit", 0.61),
        correct("8TB/nNnD", "forebay", 0.60),  # a loss is said as plainly as a gain
        correct("8TB/nNnD", OPTIMAL, 0.64),
    )
    assert "forebay serves 60.00 % with 8 TB (worst-fit: 61.00 %; upper bound: 64.00 %)." in text
    assert (
        "forebay places at most 22 allocations on a disk at once; of the paper's policies, random places the fewest, 22"
        in text
    )


def test_slowdowns_are_compared_where_all_were_run() -> None:
    text = said(
        correct("8TB/nNnD", "random", 0.5, mean_slowdown=3.0),
        correct("8TB/nNnD", "fill", 0.5, mean_slowdown=2.0),
        correct("16TB/nNnD", "fill", 0.5, mean_slowdown=9.0),
    )
    assert "mean slowdown of jobs over 1 pair of platform and rules is 2.000 (fill) and 3.000 (random)" in text
    assert "slowdown" not in said(correct("8TB/nNnD", "random", 0.5))


def test_comparisons_without_their_runs_are_left_out() -> None:
    text = said(correct("32TB/nNnD", "fill", 1.0, split=0, disks=[("a", "", np.nan, np.nan)]))
    for word in ("Splitting", "requeue", "layouts", "Cohen", "forebay", "refused", "slowdown", "nan", "fullest"):
        assert word not in text
    assert conclusions(results_of()) == ["100 made-up requests; 0 runs."]


def test_results_by_storallocs_rules_alone_say_so() -> None:
    text = said(run_rows("storalloc", "32TB/nNnD", "random", allocated_share=0.995))
    assert "All findings use the rules 'storalloc'." in text
    assert "32 TB with 200 GB blocks" in text


def both(policy: str, before: float, after: float, **more: Any) -> list[Any]:
    return [
        run_rows(mode, "16TB/nNnD", policy, allocated_share=share, **{k: v[i] for k, v in more.items()})
        for i, (mode, share) in enumerate((("storalloc", before), ("correct", after)))
    ]


def test_changes_are_told_figure_by_figure() -> None:
    full = [("a", "", 1.0, 30.0), ("b", "", 0.5, 20.0)], [("a", "", 0.9, 30.0), ("b", "", 0.5, 20.0)]
    found = results_of(
        *both("random", 0.91, 0.85, disks=full, split_failed=(5, 6)),
        *both("best-bandwidth", 0.96, 0.89, split_failed=(9, 0), split_refused=(10, 17)),
        run_rows("correct", "16TB/nNnD", "forebay", allocated_share=1.0),  # not in both, so no part of it
    )
    lines = changes(found)
    assert [line.split(":")[0] for line in lines] == [f"Figure {n}" for n in range(4, 10)]
    assert "is 85.0 to 89.0 % (was 91.0 to 96.0 %) with 16 TB." in lines[0]
    assert "random 0 % (was 50 %) and best-bandwidth 0 % (as before)" in lines[1]
    assert "random 0.177 (as before) and 7.07 (as before); best-bandwidth 0.035" in lines[2]
    assert "random 6 failed (was 5 failed) and best-bandwidth 17 refused (was 9 failed + 10 refused)" in lines[5]
    assert "forebay" not in " ".join(lines)


def test_there_are_no_changes_without_both_sets_of_rules() -> None:
    assert changes(random_results(modes=["correct"])) == []
    assert changes(results_of()) == []
    apart = results_of(correct("8TB/nNnD", "fill", 1.0), run_rows("storalloc", "8TB/nNnD", "random"))
    assert changes(apart) == []


@pytest.mark.parametrize("part", [{}, {"splits": [0]}, {"policies": ["random"]}, {"disks": 1}, {"tries": [12]}])
def test_any_part_of_a_study_has_sentences(part: dict[str, Any]) -> None:
    results = random_results(slowdown=True, **part)
    for sentence in [*conclusions(results), *changes(results)]:
        assert sentence.endswith(".") and "nan" not in sentence and "  " not in sentence


def test_the_table_of_effects_is_antisymmetric_and_of_the_right_disks() -> None:
    results = random_results(policies=PAPER)
    names, table = cohens_table(results, "max_allocations", "correct")
    assert names == list(PAPER)
    assert table == pytest.approx(-table.T)
    disks = results.disks(mode="correct", capacity=32 * TB, split=200 * GB)
    disks = disks[np.isin(disks["layout"], ["nNnD", "1NnD"])]
    one, other = (select(disks, policy=name)["max_allocations"] for name in PAPER[:2])
    assert table[0, 1] == pytest.approx(cohens_d(one, other))


def test_effects_are_of_every_pair_and_kind() -> None:
    found = effects(random_results(policies=PAPER[:2]))
    wanted = {(m, p, d) for m in ("storalloc", "correct") for p, d in (("32 TB", "all"), *KINDS)}
    assert {(e["mode"], e["platforms"], e["disks"]) for e in found} == wanted
    assert len(found) == len(wanted) * 2 * 2  # two metrics, both directions


KINDS = (("32TB/heterogeneous", "all"), ("32TB/heterogeneous", "SSD"), ("32TB/heterogeneous", "HDD"))


def test_the_paper_s_capacity_and_threshold_have_stand_ins() -> None:
    def make(*runs: Any) -> StorageResults:
        return StorageResults(origin="", requests=1, settings={}, rows=np.concatenate(runs))

    own = make(
        correct("4TB/nNnD", "fill", 0.9, split=10 * GB),
        correct("5TB/nNnD", "fill", 0.995, split=10 * GB),
        correct("6TB/nNnD", "fill", 1.0, split=10 * GB),
    )
    assert (own.split, own.capacity) == (10 * GB, 5 * TB)
    assert make(correct("4TB/nNnD", "fill", 0.9), correct("6TB/nNnD", "fill", 0.9)).capacity == 6 * TB
    assert make(correct("6TB/nNnD", "fill", 0.9), correct("32TB/nNnD", "fill", 0.9)).capacity == 32 * TB


def test_the_most_missed_are_of_one_run() -> None:
    runs = results_of(
        correct("8TB/nNnD", "fill", 1.0, split_failed=5, split_refused=1),
        correct("8TB/nN1D", "fill", 1.0, split_failed=0, split_refused=5),
    ).runs
    assert count_missed(runs) == (5, 1)
