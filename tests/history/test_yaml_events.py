"""YAML as events with lines, and what is said of what is no YAML."""

from pathlib import Path

import pytest
import yaml

from forebay.history.yaml_events import events, line_of, load_yaml, nesting
from forebay.model.errors import BadInput

PATH = Path("a.yml")


def test_every_event_knows_its_line() -> None:
    found = [(e.value, line_of(e)) for e in events(PATH, b"a: 1\n\nb: [2]\n") if isinstance(e, yaml.ScalarEvent)]
    assert found == [("a", 1), ("1", 1), ("b", 3), ("2", 3)]


def test_what_begins_ends() -> None:
    assert sum(nesting(event) for event in events(PATH, b"a: {b: [1, [2]]}")) == 0


def test_a_document_is_loaded_as_it_stands() -> None:
    assert load_yaml(PATH, b"a: [1, x, 2.5]\n") == {"a": [1, "x", 2.5]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: 1\nb: c: d\n", "a.yml:2: is not YAML: mapping values are not allowed in this context"),
        (b"\x00", "a.yml: is not YAML: unacceptable character #x0000: control characters are not allowed"),
        (b"a: !!python/object:os.x {}", "a.yml:1: is not YAML: could not determine a constructor for the tag"),
        (b"a: 2020-99-99", "a.yml: is not YAML: month must be in 1..12"),
        (b"\n" + b"[" * 100_000, "a.yml:2: is nested too deeply"),
    ],
)
def test_what_is_no_yaml_is_named_by_its_line(content: bytes, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        load_yaml(PATH, content)
    assert str(raised.value).startswith(message)
