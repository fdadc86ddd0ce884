"""`forebay storage strays`, `adopt` and `discard`, against a real service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import Forebay
from support.control import GB, Running, running

FIRST, SECOND = "a" * 32, "b" * 32
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A node has volumes that this service does not know."""
    with running(tmp_path) as made:
        monkeypatch.setenv("FOREBAY_SERVICE", f"unix:{made.socket}")
        about = {"disk": "d", "size": 20 * GB, "uid": os.getuid(), "gid": os.getgid()}
        made.hello("n", volumes=[{"name": f"{grant}.0", **about} for grant in (FIRST, SECOND)])
        yield made


def test_what_is_kept_is_listed_adopted_and_discarded(forebay: Forebay, service: Running) -> None:
    assert "open, in doubt" in forebay("storage", "nodes").out
    listed = forebay("storage", "strays").out
    assert listed.count("the journal does not know it") == 2 and f"{FIRST}.0" in listed and "20.00 GB" in listed
    adopted = forebay("storage", "adopt", FIRST, "--time", "24h").out
    assert f"{FIRST}: adopted" in adopted and f"{FIRST}.0" not in adopted and f"{SECOND}.0" in adopted
    assert service.grant(FIRST)["seconds"] == 86_400
    again = forebay("storage", "adopt", FIRST, "--time", "24h")
    assert again.code == 2 and f"grant {FIRST} is making; there is nothing to adopt" in again.err
    assert [row["why"] for row in forebay("storage", "discard", SECOND, "--json").json] == ["it is being removed"]
    assert forebay("storage", "discard", "n").code == 0
    service.carry_out()
    assert forebay("storage", "strays").out == "no strays\n"
    assert forebay("storage", "adopt", "n", "--time", "24h").out == "n: nothing to adopt\n"
    assert "in doubt" not in forebay("storage", "nodes").out


def test_what_can_not_be_says_why_in_one_line(forebay: Forebay, service: Running) -> None:
    ran = forebay("storage", "discard", "nobody")
    assert ran.code == 2 and ran.err.count("\n") == 1 and "no volumes of 'nobody' are kept" in ran.err
    assert "--time: " in forebay("storage", "adopt", FIRST, "--time", "long").err
    assert service.call("GET", "/v1/health")["kept"] == 2
