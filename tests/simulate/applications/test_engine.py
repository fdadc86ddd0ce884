"""Simulated machines: against slow, obvious ones, against hand-made cases, and against what must always hold."""

from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from forebay.model.application import Application
from forebay.model.curve import Curve
from forebay.model.decision import Placement
from forebay.model.system import System
from forebay.simulate.applications import engine as engine_module
from forebay.simulate.applications.engine import Measures, advance, engine, judge, simulate
from support.examples import examples
from support.oracles import Job, Outcome, fair_sharing, time_steps
from support.scaled_curves import scale_curve
from support.strategies import counts_for, placements_for, views


def app(
    compute: float, io: float, n: int = 1, *, phases: int = 1, nodes: float = 1.0, best: float = 1.0
) -> Application:
    """`compute` and `io` seconds a phase on n targets; on n + 1 it would be `best` times as fast."""
    curve = Curve.of({n: 1.0, n + 1: best} if best != 1.0 else {n: 1.0})
    return Application(
        name="a", compute_nodes=nodes, phases=phases, compute_seconds=compute * phases, volume=io * phases, curve=curve
    )


def ran(targets: int, placed: Sequence[tuple[Application, tuple[int, ...]]], **how: object) -> Measures:
    system = System(targets=targets, compute_nodes=sum(a.compute_nodes for a, _ in placed) or 1.0)
    return simulate(system, [a for a, _ in placed], tuple(own for _, own in placed), **how)  # type: ignore[arg-type]


def same(one: Measures, other: Measures, *, but: tuple[str, ...] = ()) -> bool:
    names = [f.name for f in fields(Measures) if f.name not in but]
    return all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names)


@st.composite
def cases(draw: DrawFn, most: int = 5, targets: int = 4, io_from: int = 0) -> SimpleNamespace:
    """Short phases of whole or half seconds on few targets, so that much collides and ends together."""
    n = draw(st.integers(1, targets))
    jobs = []
    for _ in range(draw(st.integers(1, most))):
        compute = Fraction(draw(st.integers(io_from, 12)), 2)
        work = Fraction(draw(st.integers(max(io_from, 0 if compute else 1), 8)), 2)
        own = draw(st.sets(st.integers(0, n - 1), min_size=1))
        jobs.append(Job(compute, work, tuple(sorted(own))))
    return SimpleNamespace(
        targets=n,
        jobs=jobs,
        placed=[(app(float(j.compute), float(j.work), len(j.targets)), j.targets) for j in jobs],
        horizon=Fraction(draw(st.integers(1, 80)), 2),
    )


@st.composite
def placed_views(draw: DrawFn) -> SimpleNamespace:
    """Applications of any kind, placed anywhere, over a horizon of some of their phases."""
    view = draw(views(most=5, targets=5))
    counts = draw(counts_for(view))
    placement = draw(placements_for(view.system.targets, counts))
    phases = [(a.compute_seconds + a.io_seconds(n)) / a.phases for a, n in zip(view.applications, counts, strict=True)]
    horizon = min(draw(st.floats(0.3, 3.0)) * max(phases), 300 * min(phases))
    return SimpleNamespace(
        system=view.system, applications=view.applications, counts=counts, placement=placement, horizon=horizon
    )


def simulated(case: SimpleNamespace, **changes: object) -> Measures:
    case = SimpleNamespace(**(vars(case) | changes))
    return simulate(case.system, case.applications, case.placement, horizon=case.horizon)


def jobs_of(case: SimpleNamespace) -> list[Job]:
    return [
        Job(a.compute_seconds / a.phases, a.io_seconds(n) / a.phases, own)
        for a, n, own in zip(case.applications, case.counts, case.placement, strict=True)
    ]


def agree(measures: Measures, outcome: Outcome, rel: float) -> None:
    horizon = measures.horizon
    assert measures.phases_done.tolist() == outcome.phases_done
    for ours, theirs in (
        (measures.io_seconds, outcome.io_seconds),
        (measures.waiting, outcome.waiting),
        (measures.occupancy * horizon, outcome.busy),
    ):
        assert ours.tolist() == pytest.approx([float(v) for v in theirs], rel=rel, abs=rel * horizon)


# Against oracles


@given(cases())
def test_whole_runs_agree_with_equal_shares_counted_without_rounding(case: SimpleNamespace) -> None:
    measures = ran(case.targets, case.placed, horizon=float(case.horizon))
    outcome = fair_sharing(case.jobs, case.targets, case.horizon)
    agree(measures, outcome, 1e-9)
    assert measures.events == outcome.events


@given(placed_views())
def test_any_applications_agree_with_equal_shares_counted_anew_at_every_event(case: SimpleNamespace) -> None:
    outcome = fair_sharing(jobs_of(case), case.system.targets, case.horizon)
    assume(outcome.nearest > 1e-7 * case.horizon)  # else rounding decides whether a phase still counts
    agree(simulated(case), outcome, 1e-9)


@settings(max_examples=examples(30))
@given(cases(most=4, targets=3, io_from=1))
def test_runs_come_close_to_the_papers_time_steps(case: SimpleNamespace) -> None:
    horizon, unit = 10.0, 1 / 256
    measures = ran(case.targets, case.placed, horizon=horizon)
    outcome = time_steps(case.jobs, case.targets, horizon, unit)
    # Every phase can end a unit early for each competitor, and what is early once stays so: the drift adds up.
    slack = unit * len(case.jobs) * (max(outcome.phases_done) + 2) ** 2 / 2
    io = measures.io_seconds + measures.waiting
    assert io.tolist() == pytest.approx(
        [a + b for a, b in zip(outcome.io_seconds, outcome.waiting, strict=True)], abs=slack
    )
    assert (measures.occupancy * horizon).tolist() == pytest.approx(outcome.busy, abs=slack)
    assert np.abs(measures.phases_done - outcome.phases_done).max() <= 1


# By hand


def test_two_phases_that_collide_take_turns() -> None:
    # Both compute until 2, share until 6 (2 done each); the second goes on alone until 8.
    measures = ran(1, [(app(2, 2), (0,)), (app(2, 4), (0,))], horizon=8.0)
    assert measures.phases_done.tolist() == [1, 1]
    assert measures.io_seconds.tolist() == [4.0, 6.0]
    assert measures.slowdown.tolist() == [2.0, 1.5]
    assert measures.rho_con.tolist() == [1.0, 0.5]
    assert measures.waiting.tolist() == [0.0, 0.0]
    assert measures.occupancy.tolist() == [0.75]
    # Two computations, two ends of transfers; at 8 the first one's second computation ends too.
    assert measures.events == 5


def test_a_phase_ends_with_its_last_transfer_and_the_others_are_not_held_up() -> None:
    # Fig. 4 of the paper: target 1 is shared, target 0 is not.
    measures = ran(2, [(app(1, 2, 2), (0, 1)), (app(1, 3), (1,))], horizon=6.0)
    assert measures.io_seconds.tolist() == [4.0, 5.0]
    assert measures.occupancy.tolist() == [pytest.approx(2 / 6), pytest.approx(5 / 6)]
    # Two computations, three ends of transfers, and at 6 the first one's second computation.
    assert measures.events == 6


def test_three_alike_on_one_target_each_take_three_times_as_long() -> None:
    measures = ran(1, [(app(1, 1), (0,))] * 3, horizon=12.0)
    assert measures.phases_done.tolist() == [3, 3, 3]
    assert measures.io_seconds.tolist() == [9.0, 9.0, 9.0]
    assert measures.events == 18
    assert measures.occupancy.tolist() == [0.75]
    assert measures.machine_idle == 0.75


def test_idle_time_counts_compute_nodes_and_io_under_way() -> None:
    # The first is in I/O from 3 to 4 of 4 seconds with 6 of 8 nodes, the other from 1 to 2 and 3 to 4.
    measures = ran(2, [(app(3, 5, nodes=6.0), (0,)), (app(1, 1, nodes=2.0), (1,))], horizon=4.0)
    assert measures.waiting.tolist() == [1.0, 0.0]
    assert measures.machine_idle == (1 * 6 + 2 * 2) / (4 * 8)


def test_load_is_stress_over_targets() -> None:
    assert ran(4, [(app(1, 1, 2), (0, 1)), (app(3, 1), (3,))], horizon=1.0).io_load == (2 * 0.5 + 0.25) / 4


def test_an_application_without_a_completed_phase_is_left_out_of_the_means() -> None:
    measures = ran(2, [(app(1, 1, best=3.0), (0,)), (app(1, 99, best=5.0), (1,))], horizon=4.0)
    assert measures.slowdown.tolist() == [3.0, pytest.approx(np.nan, nan_ok=True)]
    assert np.isnan(measures.rho_con[1])
    assert (measures.mean_io_slowdown, measures.max_io_slowdown) == (3.0, 3.0)
    assert (measures.mean_rho_io, measures.mean_rho_con) == (3.0, 0.0)


def test_without_any_completed_phase_the_means_are_unknown() -> None:
    measures = ran(1, [(app(5, 1), (0,))], horizon=4.0)
    for value in (measures.mean_io_slowdown, measures.max_io_slowdown, measures.mean_rho_io, measures.mean_rho_con):
        assert np.isnan(value)


def test_without_io_there_is_no_slowdown_and_nobody_is_disturbed() -> None:
    measures = ran(1, [(app(1, 0), (0,)), (app(1, 1), (0,))], horizon=4.0)
    assert measures.phases_done.tolist() == [4, 2]
    assert np.isnan(measures.slowdown[0])
    assert measures.slowdown[1] == 1.0
    assert measures.occupancy.tolist() == [0.5]


def test_without_computing_a_target_is_always_busy() -> None:
    measures = ran(2, [(app(0, 2), (1,)), (app(0, 1), (1,))], horizon=12.0)
    assert measures.occupancy.tolist() == [0.0, 1.0]
    assert measures.phases_done.tolist() == [3, 6]
    assert measures.io_spread == 1.0
    assert measures.machine_idle == 1.0


@pytest.mark.parametrize(("compute", "io"), [(0.1, 0.0), (0.0, 0.1), (0.1, 0.2), (0.7, 0.1)])
@pytest.mark.parametrize("repetitions", [1, 3, 10, 1000])
def test_a_phase_that_ends_on_the_horizon_counts(compute: float, io: float, repetitions: int) -> None:
    horizon = float(repetitions * (Fraction(str(compute)) + Fraction(str(io))))
    assert ran(1, [(app(compute, io), (0,))], horizon=horizon).phases_done.tolist() == [repetitions]


def test_the_first_finish_can_end_the_run() -> None:
    # The second has done its two phases of 3 + 1 at 8; the first needs three of 4 + 1.
    placed = [(app(4, 1, phases=3), (0,)), (app(3, 1, phases=2), (1,))]
    measures = ran(2, placed, stop_at_first_finish=True)
    assert measures.horizon == 8.0
    assert measures.phases_done.tolist() == [1, 2]
    assert ran(2, placed, horizon=6.0, stop_at_first_finish=True).horizon == 6.0


@pytest.mark.parametrize("horizon", [0.0, -1.0, np.nan, np.inf])
def test_a_horizon_that_never_comes_is_refused(horizon: float) -> None:
    with pytest.raises(ValueError, match="horizon must be positive and finite"):
        ran(1, [(app(1, 1), (0,))], horizon=horizon)


def test_progress_is_told_the_time_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "EVENTS_PER_SLICE", 2)
    told: list[float] = []
    ran(1, [(app(1, 1), (0,))], horizon=6.0, progress=told.append)
    assert told == sorted(told)
    assert len(told) >= 3 and told[-1] == 6.0


# What must always hold


@given(placed_views())
def test_alone_an_application_has_no_congestion(case: SimpleNamespace) -> None:
    for a, n, own in zip(case.applications, case.counts, case.placement, strict=True):
        measures = simulate(case.system, [a], (own,), horizon=case.horizon)
        assert measures.rho_io[0] == pytest.approx(max(a.curve.bandwidths) / a.curve.at(n))
        if measures.phases_done[0] and a.volume:
            blur = 1e-9 + 1e-15 * case.horizon * a.phases / a.io_seconds(n)  # the clock's last digit in a short I/O
            assert measures.slowdown[0] == pytest.approx(measures.rho_io[0], rel=blur)
            assert measures.rho_con[0] == pytest.approx(0.0, abs=blur * measures.rho_io[0])


@given(placed_views())
def test_no_target_is_busy_longer_than_the_run_and_congestion_only_adds(case: SimpleNamespace) -> None:
    measures = simulated(case)
    assert ((measures.occupancy >= 0) & (measures.occupancy <= 1 + 1e-9)).all()
    assert (measures.waiting >= -1e-9 * case.horizon).all()
    assert ((measures.io_seconds + measures.waiting) <= case.horizon * (1 + 1e-9)).all()
    for slowdown, rho_io, job in zip(measures.slowdown, measures.rho_io, jobs_of(case), strict=True):
        assert np.isnan(slowdown) or slowdown >= rho_io * (1 - 1e-9 - 1e-15 * case.horizon / job.work)


@given(placed_views())
def test_every_target_does_as_much_work_as_it_is_busy(case: SimpleNamespace) -> None:
    compute, work = (np.array([getattr(j, key) for j in jobs_of(case)]) for key in ("compute", "work"))
    state = engine(case.system.targets, case.placement, compute, work, np.ones(len(work), dtype=np.int64))
    assert advance(state, case.horizon, 10**6, False) == case.horizon
    for t, target in enumerate(state.targets):
        clock = target["clock"] + (case.horizon - target["since"]) / max(1, target["live"])
        leaves = state.marks[target["base"] + target["size"] :][: target["size"]]
        left = sum(mark - clock for mark in leaves if np.isfinite(mark))
        begun = 0.0
        for a, own in enumerate(case.placement):
            seats = state.transfers[state.applications[a]["begin"] : state.applications[a]["end"]]
            begun += sum(work[a] for s in seats if s["target"] == t) * state.applications[a]["done"]
            begun += work[a] if t in own and state.applications[a]["open"] > 0 else 0.0
        busy = target["busy"] + (case.horizon - target["since"] if target["live"] else 0.0)
        assert begun - left == pytest.approx(busy, rel=1e-9, abs=1e-9 * case.horizon + 1e-14 * begun)


@given(placed_views(), placed_views())
def test_applications_on_other_targets_do_not_matter_at_all(one: SimpleNamespace, other: SimpleNamespace) -> None:
    horizon = min(one.horizon, 10 * other.horizon)
    shift = one.system.targets
    system = System(targets=shift + other.system.targets, compute_nodes=1.0)
    moved = tuple(tuple(t + shift for t in own) for own in other.placement)
    alone = simulated(one, horizon=horizon)
    together = simulate(system, one.applications + other.applications, one.placement + moved, horizon=horizon)
    k = len(one.applications)
    for name in ("phases_done", "io_seconds", "slowdown", "rho_con", "waiting"):
        assert np.array_equal(getattr(together, name)[:k], getattr(alone, name), equal_nan=True)
    assert np.array_equal(together.occupancy[:shift], alone.occupancy)


@given(placed_views(), st.data())
def test_before_anybodys_second_io_more_company_means_longer_io_for_everybody(
    case: SimpleNamespace, data: st.DataObject
) -> None:
    # After that it need not: who is held up once may later miss the crowd.
    few = tuple(replace(a, compute_seconds=a.compute_seconds or 1.0) for a in case.applications)
    guest = data.draw(st.integers(0, len(few) - 1))
    own = data.draw(placements_for(case.system.targets, [case.counts[guest]]))
    horizon = data.draw(st.floats(1.0, 1.99)) * min(a.compute_seconds / a.phases for a in few)
    calm = simulated(case, applications=few, horizon=horizon)
    crowd = simulated(case, applications=(*few, few[guest]), placement=(*case.placement, *own), horizon=horizon)
    in_io = (crowd.io_seconds + crowd.waiting)[:-1] - (calm.io_seconds + calm.waiting)
    assert (in_io >= -1e-9 * horizon).all()
    assert (crowd.phases_done[:-1] <= calm.phases_done).all()


@given(cases(), st.integers(0, 3))
def test_who_all_start_together_wait_for_what_everybody_else_brings_up_to_as_much(
    case: SimpleNamespace, more: int
) -> None:
    # Processor sharing in closed form: on each target, the sum of min(own work, other's work).
    work = [job.work for job in case.jobs]
    pause = 1 + sum(work)
    own = [set(job.targets) for job in case.jobs]
    expected = [
        max(sum(min(w, v) for v, their in zip(work, own, strict=True) if t in their) for t in mine)
        for w, mine in zip(work, own, strict=True)
    ]
    placed = [(app(float(pause), float(w), len(mine)), tuple(sorted(mine))) for w, mine in zip(work, own, strict=True)]
    measures = ran(case.targets + more, placed, horizon=float(2 * pause - Fraction(1, 4)))
    assert measures.phases_done.tolist() == [1] * len(work)
    assert measures.io_seconds.tolist() == pytest.approx([float(e) for e in expected], rel=1e-12, abs=1e-12)


@given(placed_views(), st.integers(-20, 20))
def test_twice_the_bandwidth_for_twice_the_volume_changes_nothing(case: SimpleNamespace, exponent: int) -> None:
    factor = 2.0**exponent
    scaled = tuple(replace(a, volume=a.volume * factor, curve=scale_curve(a.curve, factor)) for a in case.applications)
    assert same(simulated(case), simulated(case, applications=scaled))


@given(placed_views(), st.integers(-20, 20))
def test_twice_the_time_for_everything_takes_twice_the_time(case: SimpleNamespace, exponent: int) -> None:
    factor = 2.0**exponent
    slow = tuple(
        replace(a, volume=a.volume * factor, compute_seconds=a.compute_seconds * factor) for a in case.applications
    )
    one, other = simulated(case), simulated(case, applications=slow, horizon=case.horizon * factor)
    assert same(one, other, but=("horizon", "io_seconds", "waiting"))
    for name in ("io_seconds", "waiting"):
        assert np.array_equal(getattr(one, name) * factor, getattr(other, name))


@given(placed_views(), st.randoms(use_true_random=False))
def test_targets_under_other_numbers_have_the_same_occupancy(case: SimpleNamespace, random: object) -> None:
    order = list(range(case.system.targets))
    random.shuffle(order)  # type: ignore[attr-defined]
    renamed: Placement = tuple(tuple(sorted(order[t] for t in own)) for own in case.placement)
    one, other = simulated(case), simulated(case, placement=renamed)
    assert other.occupancy[order].tolist() == pytest.approx(one.occupancy.tolist(), rel=1e-9, abs=1e-9)
    assert other.machine_idle == pytest.approx(one.machine_idle, rel=1e-9, abs=1e-12)


@given(placed_views(), st.randoms(use_true_random=False))
def test_the_order_of_the_applications_does_not_matter(case: SimpleNamespace, random: object) -> None:
    order = list(range(len(case.applications)))
    random.shuffle(order)  # type: ignore[attr-defined]
    one = simulated(case)
    other = simulated(
        case,
        applications=tuple(case.applications[i] for i in order),
        placement=tuple(case.placement[i] for i in order),
    )
    waited = other.io_seconds + other.waiting
    assert waited.tolist() == pytest.approx(
        (one.io_seconds + one.waiting)[order].tolist(), rel=1e-9, abs=1e-9 * case.horizon
    )


@given(placed_views(), st.integers(1, 7))
def test_slices_of_any_length_give_the_same_run(case: SimpleNamespace, events: int) -> None:
    whole = simulated(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "EVENTS_PER_SLICE", events)
        assert same(simulated(case), whole)


@given(placed_views())
def test_a_run_to_its_first_finish_is_a_run_to_that_horizon(case: SimpleNamespace) -> None:
    stopped = simulate(case.system, case.applications, case.placement, horizon=case.horizon, stop_at_first_finish=True)
    finished = stopped.phases_done >= [a.phases for a in case.applications]
    assert finished.sum() == (1 if stopped.horizon < case.horizon else finished.any())
    full = simulated(case, horizon=stopped.horizon)
    assert (full.io_seconds + full.waiting).tolist() == pytest.approx(
        (stopped.io_seconds + stopped.waiting).tolist(), rel=1e-9, abs=1e-9 * stopped.horizon
    )


# The judge


def test_a_judge_scores_what_the_simulator_measures() -> None:
    applications = (app(2, 2), app(2, 4))
    score = judge(System(targets=1, compute_nodes=2), applications, horizon=8.0).score(((0,), (0,)))
    assert (score.mean_io_slowdown, score.machine_idle) == (1.75, 10 / 16)


def test_a_judge_counts_waiting_against_a_schedule_that_starves_somebody() -> None:
    # The second has waited for 6 of 8 seconds for an I/O that takes 5 alone, shared with the first all the time.
    applications = (app(0, 1), app(2, 5))
    score = judge(System(targets=1, compute_nodes=2), applications, horizon=8.0).score(((0,), (0,)))
    slowdown = ran(1, [(a, (0,)) for a in applications], horizon=8.0).slowdown
    assert np.isnan(slowdown[1])
    assert score.mean_io_slowdown == pytest.approx((slowdown[0] + 6 / 5) / 2)
