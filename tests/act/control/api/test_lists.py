"""Long lists are put together a few at a time, and are whole."""

from pathlib import Path

import pytest

from forebay.act.control.api import grants as api_grants
from support.control import running


def test_a_list_of_many_parts_is_whole_and_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_grants, "_AT_ONCE", 2)
    with running(tmp_path) as service:
        service.hello("n", "a", "b")
        asked = [service.ask(job=str(number))["id"] for number in range(7)]
        listed = service.call("GET", "/v1/grants")
        assert ([grant["id"] for grant in listed["grants"]], listed["more"]) == (asked, False)
        assert listed["grants"][3] == service.grant(asked[3])
        page = service.call("GET", f"/v1/grants?limit=3&after={asked[1]}")
        assert ([grant["id"] for grant in page["grants"]], page["more"]) == (asked[2:5], True)
        assert service.call("GET", "/v1/grants?state=released") == {"grants": [], "more": False}
