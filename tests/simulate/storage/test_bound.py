"""The bound by the rules of a run."""

import ctypes
import os
from typing import Any

import pytest

from forebay.decide.storage import optimal
from forebay.simulate.storage.rules import Rules
from forebay.simulate.storage.run import bound_of
from support.storage import GB, platform_of, requests_of

ONE_DISK = platform_of([(10 * GB, 1.0)])
COMPETING = requests_of([(0.0, 5.0, 10 * GB), (4.0, 5.0, 9 * GB)])


def test_rules_that_split_or_requeue_allow_more() -> None:
    two = platform_of([(10 * GB, 1.0)] * 2)
    requests = requests_of([(0.0, 500.0, 12 * GB), (0.0, 500.0, 9 * GB)])
    assert bound_of(two, requests, Rules()).bytes == 9 * GB
    assert bound_of(two, requests, Rules(split=4 * GB)).bytes == pytest.approx(12 * GB)
    assert bound_of(two, requests, Rules(split=4 * GB, tries=1, interval=499.0)).bytes == pytest.approx(12 * GB)
    assert bound_of(two, requests, Rules(split=4 * GB, tries=2, interval=250.0)).bytes == 21 * GB


def test_the_solver_is_not_heard(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    real, c = vars(optimal)["milp"], ctypes.CDLL(None)

    def talkative(*arguments: Any, **options: Any) -> Any:
        c.printf(b"HighsMipSolverData: noise\n")  # stays in a buffer of C
        return real(*arguments, **options)

    monkeypatch.setattr(optimal, "milp", talkative)
    os.write(1, b"before\n")
    assert bound_of(ONE_DISK, COMPETING, Rules()).bytes == pytest.approx(10 * GB)
    os.write(1, b"after\n")
    c.fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"


def test_where_nobody_listens_all_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: int) -> int:
        raise OSError("bad file descriptor")

    monkeypatch.setattr(os, "dup", closed)
    assert bound_of(ONE_DISK, COMPETING, Rules()).bytes == pytest.approx(10 * GB)
