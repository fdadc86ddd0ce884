"""Whom `forebay` starts when several jobs wait."""

import numpy as np

from forebay.decide.registry import find
from forebay.decide.schedule.memory import new_memory
from forebay.decide.schedule.view import KNOWN_JOB, MACHINE, View, new_starts

NOW, SHORT, LONG = 100_000.0, 3_600.0, 4_000.0


def first_of_the_queue(waited: float) -> int:
    """Return the row that starts on the only node: 0, a longer job that has waited, or one of two new ones."""
    machine, jobs = np.zeros(1, MACHINE), np.zeros(3, KNOWN_JOB)
    machine["now"], machine["nodes"], machine["free_nodes"], machine["wants_plan"] = NOW, 1, 1, True
    jobs["id"], jobs["submit"], jobs["nodes"], jobs["user"] = np.arange(3), NOW, 1, -1
    jobs["walltime"] = SHORT
    jobs["submit"][0], jobs["walltime"][0] = NOW - waited, LONG
    jobs["predicted"] = jobs["walltime"]
    view = View(machine, jobs, np.arange(3), np.array([1, 2, 0]), np.zeros(0, np.int64))
    policy, starts = find("schedule", "forebay"), new_starts(6)
    policy.decide(view, new_memory(policy, seed=1, capacity=6), starts)
    [first] = starts.rows[: starts.count[0]][starts.times[: starts.count[0]] == NOW]
    return int(first)


def test_shorter_jobs_pass_a_job_that_has_waited_for_much_less_than_the_longest_wall_time() -> None:
    assert first_of_the_queue(waited=0.1 * LONG) != 0


def test_a_job_that_has_waited_for_three_quarters_of_the_longest_wall_time_goes_before_shorter_ones() -> None:
    assert first_of_the_queue(waited=0.76 * LONG) == 0
