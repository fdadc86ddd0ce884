"""Work that is done in time, or ended."""

import os
import select
import signal
from pathlib import Path

import pytest

from forebay.act.slurm.jobs_guard import within

LONG = 60.0


def hang() -> None:
    while True:
        select.select([], [], [], LONG)


def test_what_is_done_in_time_is_done(tmp_path: Path) -> None:
    assert within(LONG, lambda: (tmp_path / "done").touch()) == ""
    assert (tmp_path / "done").exists()


def test_what_hangs_is_interrupted_and_can_clean_up(tmp_path: Path) -> None:
    def work() -> None:
        try:
            hang()
        finally:
            (tmp_path / "cleaned").touch()

    assert within(0.05, work, grace=LONG) == "not done within 0.05 s; ended"
    assert (tmp_path / "cleaned").exists()


def test_what_does_not_listen_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    children, fork = [], os.fork

    def noted() -> int:
        children.append(fork())
        return children[-1]

    def work() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        hang()

    monkeypatch.setattr(os, "fork", noted)
    assert "ended" in within(0.5, work, grace=0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


def test_an_end_of_its_own_is_told() -> None:
    assert within(LONG, lambda: os._exit(3)) == "ended with 3"
    assert within(LONG, lambda: os.kill(os.getpid(), signal.SIGKILL)) == "ended by signal 9"


def test_an_interrupt_that_was_ignored_before_counts() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert "ended" in within(0.05, hang, grace=LONG)
    finally:
        signal.signal(signal.SIGINT, before)
