"""A small centre for a day: what must hold whatever is decided."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from forebay.decide.registry import find
from forebay.model.arrays import Floats, Ints
from forebay.simulate.centre.month import DECISIONS, Outcome, Space, run_month
from forebay.simulate.centre.random_month import Drawn, draw_month
from forebay.simulate.centre.request_gains import Gain, gain_of, gains
from support.centre import small_centre, small_workload

CENTRE, WORKLOAD = small_centre(), small_workload()
VARIANTS = ((), *((name,) for name in DECISIONS), DECISIONS)


@cache
def drawn() -> Drawn:
    return draw_month(CENTRE, WORKLOAD, np.random.default_rng(1))


@cache
def run(*on: str) -> Outcome:
    found = gains(CENTRE, WORKLOAD) if "requests" in on else ()
    return run_month(CENTRE, WORKLOAD, drawn(), frozenset(on), found, seed=5)


def node_seconds(outcome: Outcome) -> float:
    waited: Floats = outcome.jobs["waited"]
    nodes: Ints = drawn().jobs["nodes"]
    return float((waited * nodes).sum())


@pytest.mark.parametrize("on", VARIANTS)
def test_every_byte_reaches_the_disks_and_what_was_buffered_the_flash_before(on: tuple[str, ...]) -> None:
    jobs, outcome = drawn().jobs, run(*on)
    first: Floats = jobs["input"]
    volume: Floats = jobs["volume"]
    phases: Ints = jobs["phases"]
    buffered: Ints = outcome.jobs["buffered"]
    assert outcome.moved[: CENTRE.targets].sum() == pytest.approx((first + volume * phases).sum())
    assert outcome.moved[CENTRE.targets :].sum() == pytest.approx((buffered * volume).sum())
    assert (buffered > 0).any() == ("storage" in on)


@pytest.mark.parametrize("on", VARIANTS)
def test_a_job_lasts_as_long_as_it_computes_and_waits(on: tuple[str, ...]) -> None:
    jobs, outcome = drawn().jobs, run(*on)
    compute: Floats = jobs["compute"]
    phases: Ints = jobs["phases"]
    waited: Floats = outcome.jobs["waited"]
    end: Floats = outcome.jobs["end"]
    assert np.allclose(end - drawn().start, compute * phases + waited, rtol=1e-9, atol=1e-3)


def test_the_same_month_twice_is_the_same_to_the_last_bit() -> None:
    for on in ((), DECISIONS):
        again = run_month(CENTRE, WORKLOAD, drawn(), frozenset(on), gains(CENTRE, WORKLOAD), seed=5)
        assert (again.jobs["waited"] == run(*on).jobs["waited"]).all() and (again.moved == run(*on).moved).all()


def test_decisions_change_only_what_they_are_about() -> None:
    assert (run("stripe").stripes != run().stripes).any()
    assert (run("allocate").jobs["pools"] < run().jobs["pools"]).any() and (
        run().jobs["pools"] == CENTRE.capacity.pools
    ).all()
    others = ~drawn().jobs["decided"]
    assert (run(*DECISIONS).stripes == run().stripes)[others].all() and not run(*DECISIONS).jobs["buffered"][
        others
    ].any()


def test_the_burst_buffer_and_all_four_win() -> None:
    assert node_seconds(run("storage")) < node_seconds(run())
    assert node_seconds(run(*DECISIONS)) < node_seconds(run())


def test_faster_servers_never_hurt_who_is_alone() -> None:
    # One with many files keeps all targets busy; others may wait for their clients.
    j = next(j for j, a in enumerate(drawn().app) if drawn().apps[a].style.name == "file-per-process")
    own = slice(j, j + 1)
    one = Drawn(apps=drawn().apps, jobs=drawn().jobs[own], app=drawn().app[own], start=drawn().start[own])
    waits = []
    for write in (60e9, 120e9, 240e9):
        centre = small_centre(write=write, read=write)
        waits.append(run_month(centre, WORKLOAD, one, frozenset(), (), seed=5).jobs["waited"][0])
    assert waits[0] >= waits[1] >= waits[2] and waits[0] > waits[2]


def test_faster_servers_win_over_the_month() -> None:
    faster = run_month(small_centre(write=240e9, read=300e9), WORKLOAD, drawn(), frozenset(), (), seed=5)
    assert node_seconds(faster) < node_seconds(run())


def test_windows_that_gain_nothing_change_nothing() -> None:
    none = tuple(Gain(g.operation, g.pattern, g.request, 1.0, 1.0) for g in gains(CENTRE, WORKLOAD))
    same = run_month(CENTRE, WORKLOAD, drawn(), frozenset({"requests"}), none, seed=5)
    assert (same.jobs["waited"] == run().jobs["waited"]).all()


def test_a_tuner_reaches_at_most_the_best_and_never_much_less_than_without() -> None:
    for gain in gains(CENTRE, WORKLOAD):
        assert 0.9 < gain.learned <= gain.best and gain.best >= 1
        assert gain_of(gains(CENTRE, WORKLOAD), *gain[:3]) == gain.learned


def test_space_is_held_refused_prolonged_and_given_back() -> None:
    space = Space(CENTRE.platform, find("storage", "forebay"), 10**12, 0)
    whole = CENTRE.platform.capacity
    first = space.ask(0, whole // 2, 1.0, 100.0)
    assert first["bytes"].sum() == whole // 2
    assert space.ask(1, whole, 2.0, 50.0) is None and space.refused == 1
    assert space.ask(1, whole, 500.0, 600.0) is None  # the first has not been released, though its time is up
    space.release(0, 600.0)
    assert space.ask(1, whole, 700.0, 800.0)["bytes"].sum() == whole
