"""What a council learned survives it, and nonsense is refused in one line."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.tune.bandit import STEPS, counts, means, squares
from forebay.decide.tune.council import VERSION, Council, Report, as_json, decide, from_json, new_council
from forebay.model.errors import BadInput
from forebay.model.observation import Observation
from forebay.model.random_numbers import seed_state
from forebay.model.situation import Situation

VALUES = (1, 2, 4)
READS = Situation(operation="read", pattern="shared-strided", servers=4, io_nodes=8, clients=32, processes=128)


def learned(tuner: str = "forebay", reward: str = "demand", limit: int = 8) -> Council:
    council, chance = new_council("window", VALUES, tuner=tuner, reward=reward, limit=limit), seed_state(1)
    for step in range(12):
        seen = Observation(seconds=1.0, reads=9, bytes_read=10**8 * (1 + step % 3), load=2.0 + step, busy=0.9)
        situation = replace(READS, processes=2 ** (step % 4))
        reported = Report(node="a", observed=seen, value=VALUES[step % 3], held=2.0, situation=situation)
        council, _ = decide(council, [reported], chance)
    return council


@pytest.mark.parametrize("reward", ["bandwidth", "demand"])
def test_it_goes_on_exactly_where_it_was(reward: str) -> None:
    council = learned(reward=reward)
    text = json.dumps(as_json(council))
    again = from_json(new_council("window", VALUES, reward=reward, limit=8), json.loads(text), "state.json")
    assert list(again.known) == list(council.known) and again.sent == council.sent
    for situation, stack in council.known.items():
        assert np.array_equal(again.known[situation], stack)


def test_another_tuner_can_go_on_from_it() -> None:
    document = as_json(learned("epsilon-greedy"))
    again = from_json(new_council("window", VALUES, tuner="ucb:width=2", limit=8), document, "state.json")
    assert as_json(again) == document


def test_what_is_known_of_fewer_values_stays_when_values_are_added() -> None:
    before = learned()
    again = from_json(new_council("window", (0, 1, 2, 3, 4), limit=8), as_json(before), "state.json")
    assert again.value == before.value
    assert list(again.known) == list(before.known)
    for situation, stack in before.known.items():
        for old, new in zip(stack, again.known[situation], strict=True):
            assert new[STEPS] == old[STEPS]
            for block in (counts, means, squares):
                assert np.array_equal(block(new)[[1, 2, 4]], block(old))
                assert not block(new)[[0, 3]].any()


def test_a_smaller_memory_keeps_the_latest() -> None:
    council = learned()
    again = from_json(new_council("window", VALUES, limit=2), as_json(council), "state.json")
    assert list(again.known) == list(council.known)[-2:]


def change(path: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    """What makes `value` of the thing at `path`."""

    def changed(document: dict[str, Any]) -> Any:
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        place: Any = document
        for key in way:
            place = place[key]
        place[last] = value
        return document

    return changed


NONSENSE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "state.json: must be a JSON object, not []": lambda _: [],
    "state.json: must be a JSON object, not None": lambda _: None,
    f"state.json: version: is 99, not {VERSION}; remove the file to start anew": change("version", 99),
    "state.json: parameter: is 'quantum', not 'window'": change("parameter", "quantum"),
    "state.json: values: is [1, 3], not [1, 2, 4]": change("values", [1, 3]),
    "state.json: values: is [2, 1], not [1, 2, 4]": change("values", [2, 1]),
    "state.json: reward: is None, not 'demand'": change("reward", None),
    "state.json: sent: must be null or from 0 to 2, not 3": change("sent", 3),
    "state.json: sent: must be null or from 0 to 2, not True": change("sent", True),
    "state.json: situations: must be a list": change("situations", {}),
    "state.json: situations[0]: must be a JSON object, not 7": change("situations.0", 7),
    "state.json: situations[1].operation: unknown operation 'append'": change("situations.1.operation", "append"),
    "state.json: situations[1].pattern: unknown pattern 4": change("situations.1.pattern", 4),
    "state.json: situations[1].servers: must be a whole number, not -1": change("situations.1.servers", -1),
    "state.json: situations[1].clients: must be a whole number, not 1.5": change("situations.1.clients", 1.5),
    "state.json: situations[0].bandits: must be a list of 6": change("situations.0.bandits", [{}]),
    "state.json: situations[0].bandits[2]: must be a JSON object": change("situations.0.bandits.2", "x"),
    "situations[0].bandits[2].counts: must be a list of 3": change("situations.0.bandits.2.counts", [1.0]),
    "situations[0].bandits[2].counts: -1.0 is not a valid number": change("situations.0.bandits.2.counts.0", -1.0),
    "situations[0].bandits[2].means: nan is not a valid number": change("situations.0.bandits.2.means.1", float("nan")),
    "situations[0].bandits[2].means: '7' is not a valid number": change("situations.0.bandits.2.means.1", "7"),
    "situations[0].bandits[2].expected: 0 is not a valid number": change("situations.0.bandits.2.expected.1", 0),
    "situations[0].bandits[2].steps: None is not a valid number": change("situations.0.bandits.2.steps", None),
}


@pytest.mark.parametrize("complaint", NONSENSE)
def test_nonsense_is_refused_with_where_it_stands(complaint: str) -> None:
    document = NONSENSE[complaint](json.loads(json.dumps(as_json(learned()))))
    with pytest.raises(BadInput) as raised:
        from_json(new_council("window", VALUES), document, "state.json")
    assert complaint in str(raised.value) and "\n" not in str(raised.value)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = ["situations", "situations.0", "situations.0.bandits", "situations.0.bandits.0", "situations.0.processes"]
PATHS += [f"situations.0.bandits.0.{key}" for key in ("counts", "means", "squares", "steps", "crowd", "counts.0")]


@given(st.sampled_from([*PATHS, "sent", "values", "version"]), JSON)
def test_any_change_is_taken_or_refused_and_nothing_else(path: str, value: Any) -> None:
    document = change(path, value)(json.loads(json.dumps(as_json(learned("epsilon-greedy", "bandwidth", 2)))))
    try:
        again = from_json(new_council("window", VALUES, reward="bandwidth"), document, "state.json")
    except BadInput as error:
        assert str(error).startswith("state.json") and "\n" not in str(error)
    else:
        assert all(np.isfinite(stack).all() for stack in again.known.values())
