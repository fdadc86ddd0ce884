"""What holds for every test: it has a limit, and so has each wait in it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.limits import END, LIMIT, reset_signals
from support.waits import endless_waits

TESTS = Path(__file__).parent
HANGING = """
import signal, threading
def test_hangs():
    signal.setitimer(signal.ITIMER_REAL, 0.01)  # its time is over
    threading.Event().wait(600)
def test_goes_on():
    pass
"""


def test_one_that_hangs_fails_with_the_stacks_of_all_threads_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\n")
    argv = [sys.executable, "-m", "pytest", "-p", "support.limits", "-p", "no:cacheprovider", "-n", "1", "-q"]
    done = subprocess.run([*argv, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT / 2)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert f"test_hangs took longer than {LIMIT:g} s" in done.stdout and "most recent call first" in done.stdout


def test_every_test_has_a_limit_of_five_minutes_at_most(pytestconfig: pytest.Config) -> None:
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < left <= LIMIT < END == float(pytestconfig.getini("faulthandler_timeout")) <= 300
    assert pytestconfig.getini("faulthandler_exit_on_timeout")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_children_have_default_signals_where_this_process_has_not(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        reset_signals()
        done = subprocess.run(["/bin/sh", "-c", f"kill -{int(number)} $$; echo ignored"], timeout=60, check=False)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.signal(number, before)
    assert done.returncode == -number


def test_no_wait_is_without_a_limit() -> None:
    for path in sorted(TESTS.rglob("*.py")):
        assert {path: endless_waits(path.read_text())} == {path: []}
