"""What a council learned, as a JSON document and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from forebay.decide.tune.bandit import CROWD, STEPS, counts, expected, means, squares
from forebay.decide.tune.council import Council
from forebay.decide.tune.reward import new_stack
from forebay.model.errors import BadInput
from forebay.model.situation import OPERATIONS, Situation

VERSION = 1
_BLOCKS = {"counts": counts, "means": means, "squares": squares, "expected": expected}
_SINGLE = {"steps": STEPS, "crowd": CROWD}


def as_json(council: Council) -> dict[str, Any]:
    """All that it learned, whatever tuner it has: another one can go on from it."""
    return {
        "version": VERSION,
        "parameter": council.parameter,
        "values": list(council.values),
        "reward": council.reward,
        "sent": council.sent,
        "situations": [
            {**asdict(situation), "bandits": [_bandit(row) for row in stack]}
            for situation, stack in council.known.items()
        ],
    }


def from_json(council: Council, document: object, where: str) -> Council:
    """`council` with what `document` says was learned; `where` it comes from is said in complaints.

    What was learned for another parameter, other values or another reward is refused.
    """
    top = _table(document, where)
    wanted = {"version": VERSION, **{key: as_json(council)[key] for key in ("parameter", "values", "reward")}}
    for key, value in wanted.items():
        if top.get(key) != value:
            raise BadInput(f"{where}: {key}", f"is {_short(top.get(key))}, not {_short(value)}: nothing to go on from")
    rows = top.get("situations")
    if not isinstance(rows, list):
        raise BadInput(f"{where}: situations", "must be a list")
    known = dict(_read_learned(council, row, f"{where}: situations[{at}]") for at, row in enumerate(rows))
    sent = top.get("sent")
    if sent is not None and (type(sent) is not int or not 0 <= sent < len(council.values)):
        raise BadInput(f"{where}: sent", f"must be null or from 0 to {len(council.values) - 1}, not {_short(sent)}")
    return replace(council, known=dict(list(known.items())[-council.limit :]), sent=sent)


def _bandit(row: Any) -> dict[str, Any]:
    own = {key: float(row[at]) for key, at in _SINGLE.items()}
    return own | {key: block(row).tolist() for key, block in _BLOCKS.items()}


def _read_learned(council: Council, document: object, where: str) -> tuple[Situation, Any]:
    row = _table(document, where)
    stack = new_stack(council.tuner, council.reward, len(council.values), ordered=council.ordered)
    bandits = row.get("bandits")
    if not isinstance(bandits, list) or len(bandits) != len(stack):
        raise BadInput(f"{where}.bandits", f"must be a list of {len(stack)}")
    for at, (own, told) in enumerate(zip(stack, bandits, strict=True)):
        _fill(own, _table(told, f"{where}.bandits[{at}]"), f"{where}.bandits[{at}]")
    return _situation(row, where), stack


def _situation(row: Mapping[str, Any], where: str) -> Situation:
    own = {each.name: row.get(each.name) for each in fields(Situation)}
    for key, value in own.items():
        if key in ("operation", "pattern"):
            if not isinstance(value, str) or (key == "operation" and value not in OPERATIONS):
                raise BadInput(f"{where}.{key}", f"can't be {_short(value)}")
        elif type(value) is not int or value < 0:
            raise BadInput(f"{where}.{key}", f"must be a whole number, not {_short(value)}")
    return Situation(**own)  # type: ignore[arg-type]


def _fill(bandit: Any, told: Mapping[str, Any], where: str) -> None:
    for key, at in _SINGLE.items():
        bandit[at] = _number(told.get(key), f"{where}.{key}", low=0.0)
    for key, block in _BLOCKS.items():
        numbers, own = told.get(key), block(bandit)
        if not isinstance(numbers, list) or len(numbers) != own.size:
            raise BadInput(f"{where}.{key}", f"must be a list of {own.size} numbers")
        low = -math.inf if key == "means" else 1e-9 if key == "expected" else 0.0
        own[:] = [_number(number, f"{where}.{key}", low=low) for number in numbers]


def _number(value: object, where: str, *, low: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < low:
        raise BadInput(where, f"can't be {_short(value)}")
    return float(value)


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(where, f"must be a JSON object, not {_short(value)}")
    return value


def _short(value: object) -> str:
    """On one line, and not a page of it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
