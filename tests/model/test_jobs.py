"""Jobs: a selection keeps everything together, and jobs that no machine of this size can run are rejected."""

import numpy as np

from forebay.model.jobs import JOB, BadRow, Jobs, reject_oversized


def three() -> Jobs:
    rows = np.zeros(3, dtype=JOB)
    rows["nodes"], rows["bytes"] = [4, 97, 2], [10**9, 1, 481 * 10**9]
    return Jobs(rows=rows, ids=("a", "b", "c"), file="jobs.csv", lines=np.array([2, 4, 5]))


def test_a_selection_keeps_ids_and_lines_with_their_rows() -> None:
    chosen = three().select(np.array([False, True, True]))
    assert chosen.rows["nodes"].tolist() == [97, 2]
    assert (list(chosen.ids), len(chosen)) == (["b", "c"], 2)
    assert chosen.lines is not None
    assert chosen.lines.tolist() == [4, 5]


def test_jobs_larger_than_the_machine_are_rejected_with_place_and_reason() -> None:
    kept = reject_oversized(three(), 96, 480 * 10**9)
    assert list(kept.ids) == ["a"]
    assert list(map(str, kept.rejected)) == [
        "jobs.csv:4: job b needs 97 nodes, but the machine has 96",
        "jobs.csv:5: job c needs 481.00 GB, but the burst buffer has 480.00 GB",
    ]


def test_jobs_as_large_as_the_machine_stay() -> None:
    jobs = three()
    assert reject_oversized(jobs, 97, 481 * 10**9) is jobs


def test_earlier_rejections_stay() -> None:
    before = BadRow("jobs.csv", 3, "submit is missing")
    jobs = three()
    kept = reject_oversized(Jobs(rows=jobs.rows, ids=jobs.ids, rejected=(before,)), 96, 10**12)
    assert [str(row) for row in kept.rejected] == [
        "jobs.csv:3: submit is missing",
        ": job b needs 97 nodes, but the machine has 96",
    ]
