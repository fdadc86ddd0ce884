"""What the study measures of a run, and the pictures' places for jobs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.model.jobs import JOB, Jobs
from forebay.studies.jobs.gantt import place_blocks
from forebay.studies.jobs.measures import measure_run, size_masks, used_over_time
from forebay.studies.jobs.results import FATE
from forebay.studies.jobs.variations import Variation, parse_sweeps
from support.examples import examples


def jobs_of(*rows: tuple[float, int, float, float, int], users: tuple[int, ...] = ()) -> Jobs:
    table = np.zeros(len(rows), dtype=JOB)
    for name, values in zip(("submit", "nodes", "walltime", "runtime", "bytes"), zip(*rows, strict=True), strict=True):
        table[name] = values
    table["user"] = users or -1
    return Jobs(rows=table, ids=tuple(str(k) for k in range(len(rows))))


def test_measures_of_a_run_worked_out_by_hand() -> None:
    jobs = jobs_of((0, 1, 9000, 1200, 10), (100, 3, 9000, 300, 0), users=(0, 1))
    fates = np.zeros(2, dtype=FATE)
    fates["start"] = fates["held_from"] = [0, 1200]
    fates["end"] = fates["held_until"] = [1200, 1500]
    measured = measure_run(jobs, fates, nodes=4, space=20)
    assert (measured["mean_wait"], measured["median_wait"], measured["max_wait"]) == (550, 550, 1100)
    assert measured["p95_wait"] == pytest.approx(1045)
    second = 1400 / 600  # its 5 minutes count as 10
    assert measured["mean_bounded_slowdown"] == pytest.approx((1 + second) / 2)
    assert measured["nodes_used"] == pytest.approx((1200 + 900) / (4 * 1500))
    assert measured["bytes_used"] == pytest.approx(10 * 1200 / (20 * 1500))
    assert measured["users_fairness"] == pytest.approx((1 + second) ** 2 / (2 * (1 + second**2)))


def test_short_jobs_that_start_at_once_are_not_slowed_down() -> None:
    fates = np.zeros(1, dtype=FATE)
    fates["end"] = fates["held_until"] = 1.0
    measured = measure_run(jobs_of((0, 1, 60, 1, 0)), fates, nodes=4, space=1)
    assert measured["mean_bounded_slowdown"] == 1
    assert np.isnan(measured["users_fairness"])


def test_every_job_has_one_size() -> None:
    jobs = jobs_of(*((0, n, 60, 1, 0) for n in (1, 2, 8, 9, 32, 33, 96)))
    masks = size_masks(jobs, 96)
    assert {name: jobs.rows["nodes"][mask].tolist() for name, mask in masks.items()} == {
        "one node": [1],
        "small": [2, 8],
        "medium": [9, 32],
        "large": [33, 96],
    }


Uses = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(0, 5)), min_size=1, max_size=12)


@settings(max_examples=examples(30))
@given(Uses)
def test_use_over_time_is_the_mean_of_each_second(uses: list[tuple[int, int, int]]) -> None:
    begins = np.array([float(b) for b, _, _ in uses])
    ends = begins + [length for _, length, _ in uses]
    amounts = np.array([amount for _, _, amount in uses])
    edges = np.arange(0, 60, 4.0)
    seconds = [int(amounts[(begins <= s) & (s < ends)].sum()) for s in range(56)]
    assert used_over_time(begins, ends, amounts, edges) == pytest.approx(np.array(seconds).reshape(-1, 4).mean(axis=1))


@settings(max_examples=examples(30))
@given(Uses)
def test_blocks_hold_what_their_jobs_do_and_never_overlap(uses: list[tuple[int, int, int]]) -> None:
    begins = np.array([float(b) for b, _, _ in uses])
    ends = begins + [length for _, length, _ in uses]
    amounts = np.array([amount for _, _, amount in uses])
    blocks = place_blocks(begins, ends, amounts, 60)
    for job, amount in enumerate(amounts.tolist()):
        own = [b for b in blocks if b.job == job]
        assert sum(b.high - b.low for b in own) == amount
        assert all((b.begin, b.end) == (begins[job], ends[job]) for b in own)
    for k, one in enumerate(blocks):
        assert 0 <= one.low < one.high <= 60
        for other in blocks[:k]:
            apart = one.end <= other.begin or other.end <= one.begin
            assert apart or one.high <= other.low or other.high <= one.low


def test_variations_change_space_order_and_wall_times() -> None:
    jobs = jobs_of((10, 1, 100, 50, 5), (30, 1, 100, 200, 5))
    space, load, walltimes = parse_sweeps(["space=0.5", "load=2", "walltimes=5"])
    assert space.scale_space(101) == 50
    assert space.change_jobs(jobs).rows.tolist() == jobs.rows.tolist()
    assert load.change_jobs(jobs).rows["submit"].tolist() == [10, 20]
    longer = walltimes.change_jobs(jobs).rows
    assert longer["runtime"].tolist() == [50, 100]  # the second is killed at its wall time, as before
    assert longer["walltime"].tolist() == [250, 500]
    assert Variation().change_jobs(jobs).rows.tolist() == jobs.rows.tolist()
