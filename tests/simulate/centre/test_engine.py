"""The month's event loop against small steps of the same rules, and by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from forebay.simulate.centre.engine import ENDED, FLASH_PART, JOB, NO_SEAT, NOTHING, WHO, State, advance, state
from forebay.simulate.centre.layouts import alone
from forebay.simulate.sharing import with_more_seats

DISKS, FLASH, POOLS = 6, 2, 3


def jobs_of(*rows: dict[str, Any]) -> Any:
    jobs = np.zeros(len(rows), dtype=JOB)
    for job, row in zip(jobs, rows, strict=True):
        for name, value in ({"nodes": 1, "phases": 1, "decided": True} | row).items():
            job[name] = value
    return jobs


def month(jobs: Any, starts: Any, layouts: Any, seats: int = 16) -> State:
    s = state(jobs, np.asarray(starts, dtype=float), DISKS, FLASH, POOLS, seats)
    for j, layout in enumerate(layouts):
        for which in (0, 1):
            for name, value in ({"files": 1, "count": 1, "seconds": 1.0} | layout).items():
                s.layouts[j, which][name] = value
    return s


def finish(s: State) -> None:
    while advance(s, np.inf) != NOTHING:
        pass


@dataclass
class Stage:
    """Where a job is: `left` are the seconds of I/O of its phase, by disk, and none while it computes."""

    at: float
    left: np.ndarray | None = None
    phase: int = 0
    waited: float = 0.0


def naive(jobs: Any, starts: Any, layouts: Any, step: float) -> Any:
    """Seconds in I/O of every job: in small steps, each target is divided equally among the jobs on it."""
    stages = [Stage(start) for start in starts]
    now = 0.0
    while any(stage.phase <= job["phases"] for stage, job in zip(stages, jobs, strict=True)):
        on = np.zeros(DISKS)
        for stage in stages:
            if stage.left is not None:
                on += stage.left > 0
        for stage, job, layout in zip(stages, jobs, layouts, strict=True):
            if stage.phase > job["phases"]:
                continue
            if stage.left is None:
                if now >= stage.at:
                    size = job["input"] if stage.phase == 0 else job["volume"]
                    stage.left = np.zeros(DISKS)
                    for k in range(layout["count"]):
                        stage.left[(layout["first"] + k) % DISKS] += size / layout["count"]
                continue
            busy = stage.left > 0
            stage.left[busy] -= step / on[busy]
            stage.waited += step
            if not (stage.left > 0).any():
                stage.left, stage.phase, stage.at = None, stage.phase + 1, now + step + job["compute"]
        now += step
    return np.array([stage.waited for stage in stages])


@pytest.mark.parametrize("seed", range(3))
def test_targets_divide_themselves_equally_as_in_small_steps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        {"phases": 2, "compute": rng.uniform(1, 5), "input": rng.uniform(1, 9), "volume": rng.uniform(1, 9)}
        for _ in range(5)
    ]
    layouts = [{"count": int(rng.integers(1, DISKS)), "first": int(rng.integers(DISKS))} for _ in rows]
    starts = rng.uniform(0.1, 10, size=len(rows))
    s = month(jobs_of(*rows), starts, layouts)
    finish(s)
    assert np.allclose(s.jobs["waited"], naive(s.jobs, starts, layouts, 2e-3), atol=0.1)


def test_a_phase_is_no_shorter_than_its_client_needs() -> None:
    s = month(jobs_of({"volume": 6.0}), [1.0], [{"count": 6, "floor": 0.5}])
    finish(s)
    assert s.jobs["waited"][0] == pytest.approx(3.0)


def test_a_head_is_on_one_target_and_the_rest_after_it() -> None:
    s = month(jobs_of({"volume": 10.0}), [1.0], [{"count": 3, "head": 4.0, "first": 1}])
    finish(s)
    assert s.moved[:DISKS].tolist() == pytest.approx([0, 4, 2, 2, 2, 0])
    assert s.jobs["waited"][0] == pytest.approx(4.0)


def test_many_files_are_dealt_out_in_turn() -> None:
    s = month(jobs_of({"volume": 16.0}), [1.0], [{"files": 8, "first": 5}])
    finish(s)
    assert s.moved[:DISKS].tolist() == pytest.approx([4, 2, 2, 2, 2, 4])


@pytest.mark.parametrize("files", [1, 4, 50])
@pytest.mark.parametrize("head", [0.0, 3.0])
@pytest.mark.parametrize("pools", [1, 2, 3])
def test_what_is_told_of_a_job_alone_is_what_it_does(files: int, head: float, pools: int) -> None:
    s = month(jobs_of({"volume": 60.0}), [1.0], [{"files": files, "count": 2, "head": head}])
    s.jobs["pools"] = pools
    finish(s)
    told = 60.0 / alone(s.layouts[0, 1], 60.0, pools * DISKS // POOLS)
    # Told is the most that a target can have; where a file's head and its other stripes fall apart, it has less.
    assert s.jobs["waited"][0] == pytest.approx(told) if not head else s.jobs["waited"][0] <= told + 1e-9


def buffered(volume: float, compute: float) -> State:
    s = month(
        jobs_of({"volume": volume, "phases": 4, "compute": compute, "slots": 2, "last": 2, "flash_seconds": 0.1}),
        [1.0],
        [{"count": 2}],
    )
    s.parts[:2] = np.array([(0, 0.5), (1, 0.5)], dtype=FLASH_PART)
    finish(s)
    return s


def test_what_is_buffered_is_written_fast_and_drained_to_the_disks() -> None:
    s = buffered(volume=8.0, compute=100.0)
    assert s.jobs["buffered"][0] == 4
    assert s.jobs["waited"][0] == pytest.approx(4 * 0.4)
    assert s.moved[DISKS:].sum() == pytest.approx(32) and s.moved[:DISKS].sum() == pytest.approx(32)


def test_a_phase_that_finds_the_buffer_full_goes_to_the_disks() -> None:
    s = buffered(volume=8.0, compute=0.1)
    assert s.jobs["buffered"][0] < 4
    assert s.moved[:DISKS].sum() == pytest.approx(32)
    assert s.moved[DISKS:].sum() == pytest.approx(8 * s.jobs["buffered"][0])


def test_who_was_decided_for_is_told_when_it_ends_and_the_others_are_not() -> None:
    s = month(jobs_of({"volume": 1.0, "decided": False}, {"volume": 5.0}), [1.0, 1.0], [{}, {"first": 3}])
    assert advance(s, np.inf) == ENDED and s.counters[WHO] == 1
    assert advance(s, np.inf) == NOTHING and (s.jobs["end"] > 0).all()


@pytest.mark.parametrize("seats", [1, 2, 4])
def test_seats_that_have_to_grow_change_nothing(seats: int) -> None:
    outcomes = []
    for own in (seats, 64):
        jobs = jobs_of(*({"input": 10.0 + k, "volume": 7.0, "phases": 3, "compute": 2.0} for k in range(12)))
        s = month(jobs, [0.5 * k for k in range(12)], [{"first": k, "count": 1 + k % 3} for k in range(12)], own)
        while (event := advance(s, np.inf)) != NOTHING:
            if event == NO_SEAT:
                s = s._replace(flows=with_more_seats(s.flows))
        outcomes.append((s.jobs.tolist(), s.moved.tolist(), s.flows.resources["busy"].tolist()))
    assert outcomes[0] == outcomes[1]
