"""`forebay storage policy` and `rules`, against a real service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import Forebay
from support.control import Running, running

pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with running(tmp_path, policy="first-fit") as made:
        monkeypatch.setenv("FOREBAY_SERVICE", f"unix:{made.socket}")
        yield made


def test_the_policy_is_shown_and_changed_while_the_service_runs(forebay: Forebay, service: Running) -> None:
    assert forebay("storage", "policy").out == "first-fit\n"
    assert forebay("storage", "policy", "worst-fit").out == "worst-fit\n"
    assert service.call("GET", "/v1/policy") == {"policy": "worst-fit"}
    assert json.loads(forebay("storage", "policy", "--json").out) == {"policy": "worst-fit"}


def test_an_unknown_policy_changes_nothing(forebay: Forebay, service: Running) -> None:
    ran = forebay("storage", "policy", "wurst-fit")
    assert (ran.code, ran.out) == (2, "")
    assert "worst-fit" in ran.err and ran.err.count("\n") == 1
    assert service.call("GET", "/v1/policy") == {"policy": "first-fit"}


def test_a_rule_that_is_given_twice_changes_nothing(forebay: Forebay, service: Running) -> None:
    before = service.call("GET", "/v1/rules")
    ran = forebay("storage", "rules", "most=3", "most=1000")
    assert (ran.code, ran.err) == (2, "forebay: rules: most is given twice\n")
    assert service.call("GET", "/v1/rules") == before


def test_rules_change_one_by_one_and_the_others_stay(forebay: Forebay, service: Running) -> None:
    before = service.call("GET", "/v1/rules")
    shown = forebay("storage", "rules", "split=1TB", "tries=3", "interval=2min").out.splitlines()
    assert {"split = 1.00 TB", "tries = 3", "interval = 2 min", "longest = 30 d", "remember = 7 d"} <= set(shown)
    assert service.call("GET", "/v1/rules") == before | {"split": 10**12, "tries": 3, "interval": 120.0}
    assert json.loads(forebay("storage", "rules", "--json").out)["tries"] == 3


@pytest.mark.parametrize(
    "word", ["tries", "tries=", "=3", "tries=-1", "tries=many", "split=-1GB", "interval=0", "pace=3"]
)
def test_a_wrong_rule_is_told_in_one_line_and_changes_nothing(forebay: Forebay, service: Running, word: str) -> None:
    before = service.call("GET", "/v1/rules")
    ran = forebay("storage", "rules", "longest=1d", word)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert service.call("GET", "/v1/rules") == before
