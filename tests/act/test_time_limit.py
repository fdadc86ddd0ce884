"""Work that is done in time, or ended."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act import command
from forebay.act.command import run_within

SHORT, LONG = 0.05, 60.0


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A pipe: time is over once the work has written to it, and ended processes are waited for without hurry."""
    reading, writing = os.pipe()
    ended = command._has_ended

    def over(watch: int, seconds: float) -> bool:
        if seconds == SHORT:
            assert select.select([reading], [], [], LONG)[0]
            return False
        return ended(watch, LONG if seconds else 0.0)

    monkeypatch.setattr(command, "_has_ended", over)
    yield writing
    os.close(reading)
    os.close(writing)


def hang(begun: int) -> None:
    os.write(begun, b"x")
    while True:
        select.select([], [], [], LONG)


def test_what_is_done_in_time_is_done(tmp_path: Path) -> None:
    assert run_within(LONG, lambda: (tmp_path / "done").touch()) == ""
    assert (tmp_path / "done").exists()


def test_what_hangs_is_interrupted_and_can_clean_up(tmp_path: Path, begun: int) -> None:
    def work() -> None:
        try:
            hang(begun)
        finally:
            (tmp_path / "cleaned").touch()

    assert run_within(SHORT, work, grace=LONG) == "not finished within 0.05 s; ended"
    assert (tmp_path / "cleaned").exists()


def test_what_does_not_listen_is_ended(monkeypatch: pytest.MonkeyPatch, begun: int) -> None:
    children, fork = [], os.fork

    def noted() -> int:
        children.append(fork())
        return children[-1]

    def work() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        hang(begun)

    monkeypatch.setattr(os, "fork", noted)
    assert "ended" in run_within(SHORT, work, grace=0.0)
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


def test_an_end_of_its_own_is_told() -> None:
    assert run_within(LONG, lambda: os._exit(3)) == "ended with 3"
    assert run_within(LONG, lambda: os.kill(os.getpid(), signal.SIGKILL)) == "ended by signal 9"


def test_an_interrupt_that_was_ignored_before_counts(begun: int) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert "ended" in run_within(SHORT, lambda: hang(begun), grace=LONG)
    finally:
        signal.signal(signal.SIGINT, before)
