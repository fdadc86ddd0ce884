"""The `forebay` command in this process, as a user types it."""

import json
import signal
import sys
from typing import Any, NamedTuple

import pytest

from forebay.cli import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out)


def _nothing() -> None: ...


class Forebay:
    def __init__(self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capfd, self._monkeypatch = capfd, monkeypatch

    def __call__(self, *arguments: object) -> Ran:
        self._monkeypatch.setattr("forebay.cli.announce_compiling", _nothing)  # so it prints the same at any time
        self._monkeypatch.setattr(sys, "argv", ["forebay", *map(str, arguments)])
        code = 0
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            signal.signal(signal.SIGINT, on_interrupt)
        return Ran(code, *self._capfd.readouterr())
