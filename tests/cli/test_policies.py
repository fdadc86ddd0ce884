"""`forebay policies`, as a user sees it."""

import json
from typing import get_args

import pytest

from forebay.decide.policy import Kind
from support.command import Forebay


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    monkeypatch.setenv("COLUMNS", "200")
    return Forebay(capfd, monkeypatch)


def test_every_kind_of_policy_is_listed(forebay: Forebay) -> None:
    found = json.loads(forebay("policies", "--json").out)["policies"]
    assert {p["kind"] for p in found} == set(get_args(Kind))


def test_striping_policies_have_a_table_with_the_command_that_takes_them(forebay: Forebay) -> None:
    table = forebay("policies").out.split("How files are striped: advise --policy")[1]
    assert table.index("default") < table.index("tapp-io") < table.index("dca-io")


def test_striping_policies_say_what_they_need_and_which_options_they_have(forebay: Forebay) -> None:
    found = json.loads(forebay("policies", "--json").out)["policies"]
    by_name = {p["name"]: p for p in found if p["kind"] == "stripe"}
    assert by_name["default"]["difficulty"] == "nothing"
    assert by_name["tapp-io"]["inputs"] == ["processes", "access pattern"]
    assert by_name["dca-io"]["options"] == {"interference": True}


def test_schedulers_and_tuners_have_tables_with_their_options(forebay: Forebay) -> None:
    schedulers, tuners = forebay("policies").out.split("Which request next")[1].split("Which setting of a scheduler")
    assert "window=1000000 aggregate=0" in schedulers
    assert schedulers.index("fifo") < schedulers.index("hbrr") < schedulers.index("twins-work-conserving")
    assert "epsilon=0.1" in tuners


def test_schedulers_say_whether_they_keep_the_order_of_a_files_requests(forebay: Forebay) -> None:
    found = json.loads(forebay("policies", "--json").out)["policies"]
    keeps = {p["name"] for p in found if p["kind"] == "order" and p["keeps_file_order"]}
    assert keeps == {"fifo", "mlf", "twins", "twins-work-conserving"}
