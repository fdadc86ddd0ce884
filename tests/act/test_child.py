import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.command import Child, CommandFailed

LONG = 60.0
_FOREVER = "import signal, time\nprint('ready', flush=True)\nwhile True: time.sleep(60)"


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-SEc", code


def said(child: Child) -> bytes:
    return os.read(child.out, 4096)


def test_it_runs_beside_us_until_it_is_stopped() -> None:
    child = Child(python(_FOREVER))
    assert said(child) == b"ready\n"
    assert child.code is None
    child.stop(LONG)
    assert child.code == -signal.SIGTERM


def test_one_that_does_not_listen_is_made_to_end() -> None:
    code = f"import signal\nsignal.signal({int(signal.SIGTERM)}, signal.SIG_IGN)\n{_FOREVER}"
    child = Child(python(code))
    assert said(child) == b"ready\n"
    child.stop(0.0)
    assert child.code == -signal.SIGKILL


def test_its_own_end_is_seen() -> None:
    child = Child(python("raise SystemExit(3)"))
    assert said(child) == b""
    child.stop(LONG)
    assert child.code in (3, -signal.SIGTERM)  # asked while it was ending


def test_a_signal_to_one_that_has_ended_is_no_mistake() -> None:
    child = Child(python("pass"))
    child.stop(LONG)
    code = child.code
    assert code in (0, -signal.SIGTERM)
    child.signal(signal.SIGTERM)
    child.stop(LONG)
    assert child.code == code


def test_it_ends_with_its_parent_however_that_ends() -> None:
    inner = f"({sys.executable!r}, '-SEc', {_FOREVER!r})"
    code = (
        "import os, sys\nfrom forebay.act.command import Child\n"
        f"child = Child({inner})\nos.read(child.out, 10)\nprint(child.pid, flush=True)\nos.kill(os.getpid(), 9)"
    )
    parent = Child((sys.executable, "-c", code))
    pid = int(said(parent))
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        from select import select

        assert select([handle], [], [], LONG)[0], "it lives on"
        os.close(handle)
    parent.stop(LONG)


def test_a_command_that_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="no such command"):
        Child((str(tmp_path / "none"),))
