"""The council: reports of all I/O nodes in, one value for all of them out.

Bez et al. 2019, section 4.1. Each I/O node's report names one bandit instance, each instance wishes a value, the
value that most nodes wish is for all. No clock, no socket and no file: `forebay.act.forward` has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.tune.reward import REWARDS, credit, current, new_stack
from forebay.decide.tune.similar_situations import inherit
from forebay.decide.tune.tuners import DEFAULT, bandit_for, pick
from forebay.model.errors import BadInput, UnknownName
from forebay.model.observation import Observation
from forebay.model.random_numbers import draw, seed_state
from forebay.model.situation import Situation
from forebay.model.units import plural

Value = int | float | str
PATIENCE = 3  # decisions for which a value is kept until a node has had it for a whole period
LIMIT = 256  # situations remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One period at one I/O node; `situation` is None if it was idle.

    `value` has been in force there for `held` seconds when the period ended.
    """

    node: str
    observed: Observation
    value: Value | None
    held: float
    situation: Situation | None = None

    @property
    def active(self) -> bool:
        """Whether there is anything to decide for it."""
        return self.situation is not None and self.observed.requests > 0

    @property
    def whole(self) -> bool:
        """Whether the value was in force all the time; where it changed, nobody knows what earned the reward."""
        return self.held >= self.observed.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Council:
    """What it tunes and how, and what it has learned: by situation, the oldest first."""

    parameter: str
    values: tuple[Value, ...]
    ordered: bool
    tuner: Policy
    reward: str = "demand"
    limit: int = LIMIT
    sent: int | None = None
    waited: int = 0
    known: Mapping[Situation, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The value for all I/O nodes, None for as it is, and why; `wishes` has the nodes that wished each value."""

    value: Value | None
    because: str
    wishes: Mapping[Value, int] = field(default_factory=dict)


def new_council(
    parameter: str,
    values: Sequence[Value],
    *,
    tuner: str = DEFAULT,
    reward: str = "demand",
    ordered: bool | None = None,
    limit: int = LIMIT,
) -> Council:
    """One that knows nothing yet. Values are ordered if they are ascending or descending numbers, unless told."""
    if not values or len(set(values)) != len(values):
        raise BadInput(parameter, "needs one value or several different ones to choose from")
    if reward not in REWARDS:
        raise UnknownName("reward", reward, REWARDS)
    if limit < 1:
        raise BadInput("council", f"must remember one situation at least, not {limit}")
    policy = find("tune", tuner)
    bandit_for(policy, len(values))  # its options are right
    return Council(
        parameter=parameter,
        values=tuple(values),
        ordered=_are_ordered(values) if ordered is None else ordered,
        tuner=policy,
        reward=reward,
        limit=limit,
    )


def decide(council: Council, reports: Iterable[Report], chance: Any) -> tuple[Council, Decided]:
    """Learn from what the reports say of the values in force, then choose the next one.

    A value just sent is kept until some node has reported a whole period with it (or for PATIENCE decisions): a
    decision every second whose effect is never seen would teach nothing. Chance is drawn from once a decision.
    """
    told = [report for report in {report.node: report for report in reports}.values() if report.active]
    council = _learn_rewards(council, told)
    if not told:
        return council, Decided(value=_value_in_force(council), because="no I/O node has anything to do")
    if council.waited < PATIENCE and council.sent is not None and not _has_taken_effect(council, told):
        value = shown(council.parameter, _value_in_force(council))
        waiting = f"no I/O node has had {council.parameter} {value} for a whole period yet"
        return replace(council, waited=council.waited + 1), Decided(value=_value_in_force(council), because=waiting)
    return _count_votes(council, told, chance)


def _learn_rewards(council: Council, told: Sequence[Report]) -> Council:
    """With the rewards of all whole periods; that of an instance is the mean over its nodes, one step a period."""
    earned: dict[tuple[Situation, int], list[Observation]] = {}
    for report in told:
        if report.situation is not None and report.whole and report.value in council.values:
            arm = council.values.index(report.value)
            earned.setdefault((report.situation, arm), []).append(report.observed)
    known = dict(council.known)
    for (situation, arm), periods in sorted(earned.items()):
        stack = _stack(council, known, situation).copy()
        credit(stack, arm, periods)
        known.pop(situation, None)
        known[situation] = stack
    return replace(council, known=dict(list(known.items())[-council.limit :]))


def _stack(council: Council, known: Mapping[Situation, Any], situation: Situation) -> Any:
    if situation in known:
        return known[situation]
    stack = new_stack(council.tuner, council.reward, len(council.values), ordered=council.ordered)
    inherit(stack, situation, known)
    return stack


def _has_taken_effect(council: Council, told: Sequence[Report]) -> bool:
    return any(report.whole and report.value == _value_in_force(council) for report in told)


def _count_votes(council: Council, told: Sequence[Report], chance: Any) -> tuple[Council, Decided]:
    """Ties go to the value behind which there are more requests, then to the first."""
    # All instances toss the same coin: were each to explore by itself, the majority would outvote every exploration.
    seed = int(draw(chance, 2**32))
    seen: dict[Situation, list[Observation]] = {}
    for report in told:
        if report.situation is not None:
            seen.setdefault(report.situation, []).append(report.observed)
    wishes: dict[Situation, int] = {}
    nodes, requests = [0] * len(council.values), [0] * len(council.values)
    for situation, periods in seen.items():
        row = current(_stack(council, council.known, situation), periods)
        wishes[situation] = arm = pick(council.tuner, row, seed_state(seed))
        nodes[arm] += len(periods)
        requests[arm] += sum(period.requests for period in periods)
    arm = max(range(len(council.values)), key=lambda arm: (nodes[arm], requests[arm], -arm))
    votes = {council.values[arm]: count for arm, count in enumerate(nodes) if count}
    because = f"wished by {nodes[arm]} of {plural(len(told), 'I/O node')} ({_words(wishes, arm)})"
    decided = Decided(value=council.values[arm], because=because, wishes=votes)
    return replace(council, sent=arm, waited=0), decided


def shown(parameter: str, value: Value | None) -> str:
    """A value as people say it; windows are nanoseconds.

    >>> shown("window", 500_000), shown("scheduler", "hbrr")
    ('0.5 ms', 'hbrr')
    """
    return f"{value / 1e6:g} ms" if parameter == "window" and isinstance(value, int) else str(value)


def _words(wishes: Mapping[Situation, int], arm: int) -> str:
    some = sorted(
        {f"{s.pattern} {s.operation} of {plural(s.processes, 'process')}" for s, own in wishes.items() if own == arm}
    )
    return some[0] if len(some) == 1 else f"{some[0]} and {len(some) - 1} more"


def _value_in_force(council: Council) -> Value | None:
    return None if council.sent is None else council.values[council.sent]


def _are_ordered(values: Sequence[Value]) -> bool:
    numbers = [value for value in values if not isinstance(value, str)]
    return len(numbers) == len(values) and numbers in (sorted(numbers), sorted(numbers, reverse=True))
