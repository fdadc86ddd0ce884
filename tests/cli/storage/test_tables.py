"""What `forebay storage` prints of documents from the service."""

from __future__ import annotations

from typing import Any, cast

import pytest

from forebay.cli.storage import tables
from forebay.model.errors import Refused

FORGED = "2026-11-20 00:00:00 service: ready, released by root"
EVIL = f"/tmp/q\n{FORGED}\r\x1b[2J\x9b2J\u2028{FORGED}"


def document(**changes: Any) -> Any:
    volume = {"number": 0, "node": "n\n1", "disk": "\x1bd", "size": 1, "state": "made", "path": "/q\n", "settings": {}}
    texts: dict[str, Any] = dict.fromkeys(("user", "job", "because", "path"), EVIL)
    grant = {
        "id": "3f", "type": "volumes", "state": "ready", "size": 1, "until": 1.0, "uid": 1, "created": 1.0,
        "volumes": [volume], "paths": [EVIL], "marks": [EVIL], "staging": {"state": "failed", "said": f"{EVIL}."},
    }  # fmt: skip
    return grant | texts | changes


def check_printed(capfd: pytest.CaptureFixture[str], lines: int) -> None:
    printed = capfd.readouterr().out
    assert FORGED in printed
    assert len(printed.split("\n")) == lines + 1
    assert not [c for c in printed.replace("\n", "") if not c.isprintable()]


def test_what_others_write_cannot_forge_a_line_or_reach_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    event = cast(Any, {"time": 1.0, "text": f"stage-in begins on 1 node: {EVIL}", "node": EVIL})
    tables.print_grant(document(), [event])
    check_printed(capfd, lines=10)
    tables.print_grants([document()])
    capfd.readouterr()
    tables.report_grant(document(state="queued", position=3), json=False, env=False)
    check_printed(capfd, lines=1)
    volume = document()["volumes"][0] | {"path": EVIL}
    tables.report_grant(document(volumes=[volume]), json=False, env=False)
    check_printed(capfd, lines=2)


def test_an_error_cannot_forge_a_line(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from support.command import Forebay

    def refuse(*_: object, **_more: object) -> None:
        raise Refused(f"grant 3f failed: {EVIL}")

    monkeypatch.setattr("forebay.cli.storage.connection.open_client", refuse)
    ran = Forebay(capfd, monkeypatch)("storage", "show", "3f")
    assert ran.code == 2 and len(ran.err.splitlines()) == 1
    assert ran.err[:-1].isprintable()
