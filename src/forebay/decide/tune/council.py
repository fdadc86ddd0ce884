"""The council: it takes reports of all I/O nodes and chooses one value for all of them.

Bez et al. 2019, section 4.1. The situation in a node's report selects a bandit, and the bandit votes for a value. The
value with the most nodes wins. If one of the values is plain (order of arrival, no aggregation), the others must not
cost more than a small share of what it earns (`loss_limit`). The council uses no clock, socket or file:
`forebay.act.forward` has them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.tune.bandit import CROWD, STEPS, counts, means, priors, squares
from forebay.decide.tune.loss_limit import MOST_LOSS, is_affordable
from forebay.decide.tune.reward import REWARDS, credit, current, inherit, new_stack
from forebay.decide.tune.tuners import DEFAULT, bandit_for, pick
from forebay.model.errors import BadInput, UnknownName, shorten_value
from forebay.model.kernels import Array
from forebay.model.observation import Observation
from forebay.model.random_numbers import draw, seed_state
from forebay.model.situation import OPERATIONS, Situation
from forebay.model.units import plural

Value = int | float | str
PATIENCE = 3  # decisions to keep a value for, until a node has used it for a whole period
LIMIT = 256  # situations remembered
PLAIN: Mapping[str, Value] = {"window": 0, "aggregate": 0, "scheduler": "fifo"}
"""The value of each parameter that leaves requests as they arrive."""
VERSION = 1  # of the JSON document
_BLOCKS = {"counts": counts, "means": means, "squares": squares, "expected": priors}
_LEAST = {"means": -math.inf, "expected": 1e-9}
_SINGLE = {"steps": STEPS, "crowd": CROWD}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One period at one I/O node, with `value` in force for `held` seconds; `situation` is None if it was idle."""

    node: str
    observed: Observation
    value: Value | None
    held: float
    situation: Situation | None = None

    @property
    def active(self) -> bool:
        return self.situation is not None and self.observed.requests > 0

    @property
    def whole(self) -> bool:
        """Whether the value was in force for the whole period; otherwise the reward cannot be attributed."""
        return self.held >= self.observed.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Council:
    """What the council tunes and how, and what it has learned by situation, the oldest first."""

    known: Mapping[Situation, Array] = field(default_factory=dict)
    parameter: str
    values: tuple[Value, ...]
    ordered: bool
    tuner: Policy
    reward: str = "demand"
    limit: int = LIMIT
    most_loss: float = MOST_LOSS
    sent: int | None = None
    waited: int = 0

    @property
    def value(self) -> Value | None:
        """The value in force; None before the first decision."""
        return None if self.sent is None else self.values[self.sent]

    @property
    def plain(self) -> int | None:
        """The place of the plain value, if it is among the values."""
        plain = PLAIN.get(self.parameter)
        return self.values.index(plain) if plain in self.values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The value for all I/O nodes (None: no change) and why; `wishes` counts the nodes that vote for each value."""

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
    most_loss: float = MOST_LOSS,
) -> Council:
    """Return a council without knowledge. If `ordered` is None, values count as ordered if they are sorted numbers."""
    if not values or len(set(values)) != len(values):
        raise BadInput(parameter, "needs one or more distinct values to choose from")
    if reward not in REWARDS:
        raise UnknownName("reward", reward, REWARDS)
    if limit < 1:
        raise BadInput("council", f"must remember at least one situation, not {limit}")
    if not 0 < most_loss <= 1:
        raise BadInput("council", f"most_loss must be above 0 and at most 1, not {most_loss:g}")
    policy = find("tune", tuner)
    bandit_for(policy, len(values))  # checks the options
    if ordered is None:
        numbers = [value for value in values if not isinstance(value, str)]
        ordered = numbers == list(values) and numbers in (sorted(numbers), sorted(numbers, reverse=True))
    return Council(
        parameter=parameter,
        values=tuple(values),
        ordered=ordered,
        tuner=policy,
        reward=reward,
        limit=limit,
        most_loss=most_loss,
    )


def decide(council: Council, reports: Iterable[Report], chance: Array) -> tuple[Council, Decided]:
    """Learn from the reports, then choose the next value.

    The council keeps a new value until a node reports a whole period with it, or for PATIENCE decisions: it learns
    nothing from a value whose effect no node reports. It draws from `chance` once per decision.
    """
    active = [report for report in {report.node: report for report in reports}.values() if report.active]
    council = _learn_rewards(council, active)
    value = council.value
    if not active:
        return council, Decided(value=value, because="all I/O nodes are idle")
    has_taken_effect = any(report.whole and report.value == value for report in active)
    if council.waited < PATIENCE and council.sent is not None and not has_taken_effect:
        setting = f"{council.parameter} {format_value(council.parameter, value)}"
        waiting = f"no I/O node has used {setting} for a whole period yet"
        return replace(council, waited=council.waited + 1), Decided(value=value, because=waiting)
    return _count_votes(council, active, chance)


def _learn_rewards(council: Council, reports: Sequence[Report]) -> Council:
    """Learn from all whole periods; the reward of a situation is the mean over its nodes, one step per period."""
    earned: dict[tuple[Situation, int], list[Observation]] = {}
    for report in reports:
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


def _stack(council: Council, known: Mapping[Situation, Array], situation: Situation) -> Array:
    if situation in known:
        return known[situation]
    stack = new_stack(council.tuner, council.reward, len(council.values), ordered=council.ordered)
    inherit(stack, situation, known)
    return stack


def _count_votes(council: Council, reports: Sequence[Report], chance: Array) -> tuple[Council, Decided]:
    """Choose the value with the most nodes; ties go to the value with more requests, then to the first."""
    # All bandits draw the same random numbers. If each explored by itself, the majority would outvote it.
    seed = int(draw(chance, 2**32))
    observed: dict[Situation, list[Observation]] = {}
    for report in reports:
        if report.situation is not None:
            observed.setdefault(report.situation, []).append(report.observed)
    wishes: dict[Situation, int] = {}
    nodes, requests = [0] * len(council.values), [0] * len(council.values)
    for situation, periods in observed.items():
        row = current(_stack(council, council.known, situation), periods)
        arm = pick(council.tuner, row, seed_state(seed))
        if council.plain is not None and not is_affordable(row, arm, council.plain, council.most_loss):
            arm = council.plain
        wishes[situation] = arm
        nodes[arm] += len(periods)
        requests[arm] += sum(period.requests for period in periods)
    arm = max(range(len(council.values)), key=lambda arm: (nodes[arm], requests[arm], -arm))
    votes = {council.values[arm]: count for arm, count in enumerate(nodes) if count}
    behind = [s for s, wish in wishes.items() if wish == arm]
    first, *others = sorted({f"{s.pattern} {s.operation} of {plural(s.processes, 'process')}" for s in behind})
    whose = f"{first} and {len(others)} more" if others else first
    because = f"wished by {nodes[arm]} of {plural(len(reports), 'I/O node')} ({whose})"
    return replace(council, sent=arm, waited=0), Decided(value=council.values[arm], because=because, wishes=votes)


def format_value(parameter: str, value: Value | None) -> str:
    """Format a value for people; windows are in nanoseconds.

    >>> format_value("window", 500_000), format_value("scheduler", "hbrr")
    ('0.5 ms', 'hbrr')
    """
    return f"{value / 1e6:g} ms" if parameter == "window" and isinstance(value, int) else str(value)


def as_json(council: Council) -> dict[str, object]:
    """Return everything the council has learned; a council with another tuner can continue from it."""

    def bandit_as_json(row: Array) -> dict[str, object]:
        single = {key: float(row[at]) for key, at in _SINGLE.items()}
        return single | {key: block(row).tolist() for key, block in _BLOCKS.items()}

    return {
        "version": VERSION,
        "parameter": council.parameter,
        "values": list(council.values),
        "reward": council.reward,
        "sent": council.sent,
        "situations": [
            {**asdict(situation), "bandits": [bandit_as_json(row) for row in stack]}
            for situation, stack in council.known.items()
        ],
    }


def from_json(council: Council, document: object, where: str) -> Council:
    """Return `council` with the knowledge in `document`, which must have the same parameter and reward.

    The council must have all of the document's values; it may have more, which are untried.
    """
    top = _object(document, where)
    values: Any = top.get("values")
    is_part = isinstance(values, list) and 0 < len(values) < len(council.values)
    if is_part and [value for value in council.values if value in values] == values:
        return _add_values(council, from_json(replace(council, values=tuple(values)), document, where))
    wanted = {key: value for key, value in as_json(council).items() if key not in ("sent", "situations")}
    for key, value in wanted.items():
        reason = f"is {shorten_value(top.get(key))}, not {shorten_value(value)}; remove the file to start anew"
        _check(top.get(key) == value, f"{where}: {key}", reason)
    rows: Any = top.get("situations")
    sent = top.get("sent")
    _check(isinstance(rows, list), f"{where}: situations", "must be a list")
    known = dict(_read_situation(council, row, f"{where}: situations[{at}]") for at, row in enumerate(rows))
    last = len(council.values) - 1
    is_arm = sent is None or (type(sent) is int and 0 <= sent <= last)
    _check(is_arm, f"{where}: sent", f"must be null or from 0 to {last}, not {shorten_value(sent)}")
    return replace(council, known=dict(list(known.items())[-council.limit :]), sent=sent)


def _add_values(council: Council, part: Council) -> Council:
    """Return `council` with the knowledge of one that has only some of its values."""
    places = [council.values.index(value) for value in part.values]
    known = {}
    for situation, stack in part.known.items():
        known[situation] = new_stack(council.tuner, council.reward, len(council.values), ordered=council.ordered)
        for row, before in zip(known[situation], stack, strict=True):
            for at in _SINGLE.values():
                row[at] = before[at]
            for block in _BLOCKS.values():
                block(row)[places] = block(before)
    return replace(council, known=known, sent=None if part.sent is None else places[part.sent])


def _read_situation(council: Council, document: object, where: str) -> tuple[Situation, Array]:
    row = _object(document, where)
    stack = new_stack(council.tuner, council.reward, len(council.values), ordered=council.ordered)
    bandits: Any = row.get("bandits")
    is_stack = isinstance(bandits, list) and len(bandits) == len(stack)
    _check(is_stack, f"{where}.bandits", f"must be a list of {len(stack)}")
    for at, bandit in enumerate(bandits):
        _read_bandit(stack[at], _object(bandit, f"{where}.bandits[{at}]"), f"{where}.bandits[{at}]")
    values: dict[str, Any] = {each.name: row.get(each.name) for each in fields(Situation)}
    for key, value in values.items():
        if key in ("operation", "pattern"):
            is_name = isinstance(value, str) and (key == "pattern" or value in OPERATIONS)
            _check(is_name, f"{where}.{key}", f"unknown {key} {shorten_value(value)}")
        else:
            is_count = type(value) is int and value >= 0
            _check(is_count, f"{where}.{key}", f"must be a whole number, not {shorten_value(value)}")
    return Situation(**values), stack


def _read_bandit(bandit: Array, row: Mapping[str, Any], where: str) -> None:
    for key, at in _SINGLE.items():
        bandit[at] = _number(row.get(key), f"{where}.{key}", 0.0)
    for key, block in _BLOCKS.items():
        numbers: Any = row.get(key)
        values = block(bandit)
        is_block = isinstance(numbers, list) and len(numbers) == values.size
        _check(is_block, f"{where}.{key}", f"must be a list of {values.size} numbers")
        values[:] = [_number(number, f"{where}.{key}", _LEAST.get(key, 0.0)) for number in numbers]


def _number(value: Any, where: str, least: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    _check(is_number and value >= least, where, f"{shorten_value(value)} is not a valid number")
    return float(value)


def _object(value: Any, where: str) -> Mapping[str, Any]:
    _check(isinstance(value, dict), where, f"must be a JSON object, not {shorten_value(value)}")
    return value  # type: ignore[no-any-return]


def _check(holds: bool, where: str, reason: str) -> None:
    if not holds:
        raise BadInput(where, reason)
