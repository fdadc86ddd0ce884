"""Reports of I/O nodes in, one value for all of them out."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.policy import tuner
from forebay.decide.tune.bandit import STEPS, counts, means
from forebay.decide.tune.council import PATIENCE, Council, Decided, Report, Value, decide, new_council
from forebay.decide.tune.loss_limit import MOST_LOSS
from forebay.decide.tune.tuners import TUNERS
from forebay.model.errors import BadInput, UnknownName
from forebay.model.observation import Observation
from forebay.model.random_numbers import seed_state
from forebay.model.situation import Situation

WINDOWS = tuple(125_000 << k for k in range(7))
READS = Situation(operation="read", pattern="shared-strided", servers=4, io_nodes=8, clients=32, processes=128)
WRITES = replace(READS, operation="write", pattern="file-per-process")


def report(
    node: str,
    value: Value | None,
    *,
    bandwidth: float = 1e8,
    held: float = 5.0,
    situation: Situation | None = READS,
    requests: int = 100,
) -> Report:
    seen = Observation(seconds=1.0, reads=requests, bytes_read=int(bandwidth), load=8.0, busy=1.0)
    return Report(node=node, observed=seen, value=value, held=held, situation=situation)


def top(stack: Any) -> Any:
    """The bandit for the highest demand, which is all that these reports have."""
    return stack[0]


def council(values: tuple[Value, ...] = WINDOWS, spec: str = "epsilon-greedy:epsilon=0", **more: Any) -> Council:
    return new_council("window", values, tuner=spec, **more)


def knows(of: Council, situation: Situation, best: int) -> Council:
    """One in which the value numbered `best` has earned most in that situation."""
    for arm, value in enumerate(of.values):
        told = [report("a", value, bandwidth=9e8 if arm == best else 1e8, situation=situation)]
        of, _ = decide(of, told, seed_state(1))
    return replace(of, sent=None, waited=0)


def run(of: Council, worth: Any, steps: int, nodes: int = 3, seed: int = 0) -> tuple[Council, list[Value | None]]:
    """Nodes that do as they are told, and report what the value is worth in their situation."""
    chance, rng, value, values = seed_state(seed), np.random.default_rng(seed), None, []
    for _ in range(steps):
        told = [
            report(f"n{node}", value, bandwidth=worth(value, s) * rng.lognormal(0, 0.03), situation=s)
            for node, s in enumerate([READS] * nodes)
        ]
        of, decided = decide(of, told, chance)
        value = decided.value
        values.append(value)
    return of, values


def test_the_best_window_is_learned() -> None:
    worth = {window: 1e8 * (1 + 0.1 * k) for k, window in enumerate(WINDOWS)}
    _, values = run(new_council("window", WINDOWS), lambda value, _: worth.get(value, 1e8), 200)
    assert values[-50:].count(WINDOWS[-1]) > 40


@pytest.mark.parametrize(
    ("parameter", "values", "best"),
    [
        ("scheduler", ("fifo", "hbrr", "sjf", "twins"), "hbrr"),
        ("aggregate", (0, 65536, 262144, 1048576), 262144),
        ("quantum", (8,), 8),
    ],
)
def test_any_parameter_with_a_few_values_is_learned(parameter: str, values: tuple[Value, ...], best: Value) -> None:
    of = new_council(parameter, values)
    assert of.ordered == (parameter != "scheduler")
    _, taken = run(of, lambda value, _: 2e8 if value == best else 1.5e8, 120)
    assert taken[-40:].count(best) > 30


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=5), st.integers(0, 99))
def test_learning_costs_little_compared_with_no_windows(worth: list[float], seed: int) -> None:
    of = new_council("window", (0, *WINDOWS[: len(worth)]))
    earns = dict(zip(of.values, (1.0, *worth), strict=True))
    chance, value, earned = seed_state(seed), None, []
    for _ in range(300):
        earned.append(1.0 if value is None else earns[value])
        of, decided = decide(of, [report("a", value, bandwidth=1e8 * earned[-1])], chance)
        value = decided.value
    assert np.all(np.cumsum(earned) >= (1 - MOST_LOSS) * np.arange(1, 301) - 1e-6)
    if max(worth) > 1.2:
        assert earned[-50:].count(max(worth)) > 25


def test_without_the_plain_value_nothing_limits_what_learning_costs() -> None:
    worth = {window: 1e8 / (1 + k) for k, window in enumerate(WINDOWS)}
    _, values = run(new_council("window", WINDOWS), lambda value, _: worth.get(value, 1e8), 20)
    assert set(values) == set(WINDOWS)
    _, values = run(new_council("window", (0, *WINDOWS)), lambda value, _: worth.get(value, 1e8), 20)
    assert set(values) == {0}


def test_what_is_best_is_learned_for_each_situation_apart() -> None:
    of = knows(knows(council(), READS, 6), WRITES, 0)
    for situation, window in ((READS, WINDOWS[6]), (WRITES, WINDOWS[0])):
        _, decided = decide(of, [report("a", None, situation=situation)], seed_state(3))
        assert decided.value == window


def test_the_majority_of_nodes_decides() -> None:
    of = knows(knows(council(), READS, 6), WRITES, 0)
    told = [report("a", None), report("b", None, situation=WRITES), report("c", None, situation=WRITES)]
    _, decided = decide(of, told, seed_state(0))
    assert decided == Decided(
        value=WINDOWS[0],
        because="wished by 2 of 3 I/O nodes (file-per-process write of 128 processes)",
        wishes={WINDOWS[0]: 2, WINDOWS[6]: 1},
    )


def test_a_tie_goes_to_more_requests_then_to_the_first_value() -> None:
    of = knows(knows(council(), READS, 6), WRITES, 0)
    for requests, window in ((500, WINDOWS[6]), (100, WINDOWS[0]), (50, WINDOWS[0])):
        told = [report("a", None, requests=requests), report("b", None, situation=WRITES)]
        assert decide(of, told, seed_state(0))[1].value == window


def test_idle_nodes_neither_vote_nor_learn() -> None:
    of = knows(knows(council(), READS, 6), WRITES, 0)
    idle = [replace(report(f"i{n}", WINDOWS[0], situation=None), observed=Observation(seconds=1.0)) for n in range(5)]
    quiet = [report(f"q{n}", WINDOWS[0], situation=WRITES, requests=0) for n in range(5)]
    after, decided = decide(of, [*idle, *quiet, report("a", None)], seed_state(0))
    assert decided.value == WINDOWS[6]
    assert np.array_equal(after.known[WRITES], of.known[WRITES])


def test_with_nothing_to_do_all_stays_as_it_is() -> None:
    for told in ([], [report("a", WINDOWS[2], situation=None)]):
        assert decide(council(), told, seed_state(0))[1] == Decided(value=None, because="all I/O nodes are idle")
    of = replace(council(), sent=3)
    assert decide(of, [], seed_state(0))[1].value == WINDOWS[3]


def test_a_reward_is_credited_to_the_value_in_force_not_to_the_one_wished() -> None:
    of = replace(council(), sent=5)
    of, _ = decide(of, [report("a", WINDOWS[2], bandwidth=7e8), report("b", WINDOWS[4], bandwidth=3e8)], seed_state(0))
    row = top(of.known[READS])
    assert np.flatnonzero(counts(row)).tolist() == [2, 4]
    assert means(row)[[2, 4]].tolist() == pytest.approx([7e8, 3e8])


@pytest.mark.parametrize("unknown", [None, 999, "twins"])
def test_a_value_that_is_not_tuned_earns_nothing(unknown: Value | None) -> None:
    assert not decide(council(), [report("a", unknown)], seed_state(0))[0].known


def test_a_period_in_which_the_value_changed_is_not_counted() -> None:
    of, _ = decide(council(), [report("a", WINDOWS[1], held=0.99)], seed_state(0))
    assert not of.known
    of, _ = decide(council(), [report("a", WINDOWS[1], held=1.0)], seed_state(0))
    assert counts(top(of.known[READS]))[1] == 1


def test_nodes_of_one_situation_are_one_step_with_their_mean() -> None:
    told = [report(f"n{k}", WINDOWS[0], bandwidth=1e8 * (k + 1)) for k in range(3)]
    of, _ = decide(council(reward="bandwidth"), told, seed_state(0))
    row = of.known[READS][0]
    assert row[STEPS] == 1 and means(row)[0] == pytest.approx(2e8)


def test_the_last_of_two_reports_of_a_node_counts() -> None:
    told = [report("a", WINDOWS[0], bandwidth=1e8), report("a", WINDOWS[0], bandwidth=5e8)]
    of, _ = decide(council(), told, seed_state(0))
    assert means(top(of.known[READS]))[0] == pytest.approx(5e8)


def test_a_value_is_kept_until_a_node_had_it_for_a_whole_period_but_not_for_ever() -> None:
    of = replace(knows(council(), READS, 6), sent=1)
    early = [report("a", WINDOWS[1], held=0.5)]
    for _ in range(PATIENCE):
        of, decided = decide(of, early, seed_state(0))
        assert decided.value == WINDOWS[1] and "for a whole period yet" in decided.because
    assert decide(of, early, seed_state(0))[1].value == WINDOWS[6]
    fresh = replace(of, waited=0)
    assert decide(fresh, [*early, report("b", WINDOWS[1])], seed_state(0))[1].value == WINDOWS[6]


def test_what_is_explored_for_one_step_is_learned_even_if_periods_overlap_decisions() -> None:
    # A node that announces before it is told: the value changes early in each period, and so is in force for less.
    of, chance, value, held = council(spec="epsilon-greedy:epsilon=1"), seed_state(4), None, 0.0
    for _ in range(400):
        of, decided = decide(of, [report("a", value, held=held)], chance)
        held = held + 1.0 if decided.value == value else 0.97
        value = decided.value
    assert (counts(top(of.known[READS])) > 5).all()


def test_all_instances_explore_together_so_that_no_majority_outvotes_exploration() -> None:
    of, others = council(spec="epsilon-greedy:epsilon=0.2"), [replace(READS, processes=2**k) for k in range(1, 9)]
    for situation in others:
        of = knows(of, situation, 3)
    chance, explored = seed_state(7), 0
    for _ in range(1000):
        told = [report(str(k), WINDOWS[3], situation=situation) for k, situation in enumerate(others)]
        _, decided = decide(replace(of, sent=None), told, chance)
        assert list(decided.wishes.values()) == [8]
        explored += decided.value != WINDOWS[3]
    assert explored == pytest.approx(1000 * 0.2 * 6 / 7, abs=40)


def test_successive_decisions_are_tossed_apart() -> None:
    of, chance, values = council(spec="epsilon-greedy:epsilon=1"), seed_state(7), []
    for _ in range(2000):
        values.append(decide(of, [report("a", None)], chance)[1].value)
    same = np.mean([a == b for a, b in pairwise(values)])
    assert same == pytest.approx(1 / 7, abs=0.03)


def test_the_oldest_situation_is_forgotten_when_there_are_too_many() -> None:
    of = council(limit=3)
    some = [replace(READS, processes=2**k) for k in range(4)]
    for situation in (some[0], some[1], some[2], some[0], some[3]):
        of, _ = decide(replace(of, sent=None), [report("a", WINDOWS[0], situation=situation)], seed_state(0))
    assert list(of.known) == [some[2], some[0], some[3]]


def test_a_new_situation_begins_with_what_similar_ones_learned() -> None:
    of = knows(knows(council(spec="forebay"), READS, 6), WRITES, 0)
    near, far = replace(READS, processes=256), replace(READS, servers=1, clients=1, processes=2)
    first = [decide(of, [report("a", None, situation=near)], seed_state(seed))[1].value for seed in range(20)]
    assert first.count(WINDOWS[6]) == 20
    any_window = {decide(of, [report("a", None, situation=far)], seed_state(seed))[1].value for seed in range(40)}
    assert len(any_window) == len(WINDOWS)


def test_the_decision_is_the_same_for_the_same_reports_and_chance_and_leaves_the_council_alone() -> None:
    of = knows(council(spec="thompson"), READS, 2)
    kept = of.known[READS].copy()
    told = [report("a", WINDOWS[1]), report("b", WINDOWS[1], situation=WRITES)]
    assert decide(of, told, seed_state(5))[1] == decide(of, told, seed_state(5))[1]
    assert np.array_equal(of.known[READS], kept) and WRITES not in of.known


@given(
    st.lists(
        st.builds(
            report,
            st.sampled_from("abcdef"),
            st.sampled_from([None, *WINDOWS, 17, "x"]),
            bandwidth=st.floats(0, 1e12),
            held=st.floats(0, 3),
            situation=st.sampled_from([None, READS, WRITES]),
            requests=st.integers(0, 5),
        ),
        max_size=12,
    ),
    st.sampled_from([policy.name for policy in TUNERS]),
    st.integers(0, 2**40),
)
def test_whatever_is_reported_the_value_is_one_of_those_tuned(told: list[Report], name: str, seed: int) -> None:
    of, chance = council(spec=name), seed_state(seed)
    voters = sum(last.active for last in {one.node: one for one in told}.values())
    for _ in range(3):
        of, decided = decide(of, told, chance)
        assert decided.value in (None, *WINDOWS)
        assert sum(decided.wishes.values()) in (0, voters)
        assert "\n" not in decided.because


@pytest.mark.parametrize(
    ("values", "more", "complaint"),
    [
        ((), {}, "window: needs one or more distinct values"),
        ((1, 2, 1), {}, "window: needs one or more distinct values"),
        (WINDOWS, {"reward": "speed"}, "no reward 'speed'; use one of: bandwidth, demand"),
        (WINDOWS, {"spec": "epsilon-greedy:epsilon=2"}, "epsilon must be from 0 to 1"),
        (WINDOWS, {"spec": "epsilon"}, "no tuner 'epsilon'"),
        (WINDOWS, {"spec": "fixed:arm=7"}, "arm must be from 0 to 6"),
        (WINDOWS, {"limit": 0}, "must remember at least one situation"),
    ],
)
def test_an_impossible_council_is_refused(values: tuple[Value, ...], more: dict[str, Any], complaint: str) -> None:
    with pytest.raises((BadInput, UnknownName), match=complaint):
        council(values, **more)


def test_a_tuner_of_ones_own_can_sit_in_it() -> None:
    mine = tuner("mine")(lambda *_: 4)
    of = replace(council(), tuner=mine)
    assert decide(of, [report("a", None)], seed_state(0))[1].value == WINDOWS[4]
