import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.command import Child, CommandFailed, end_orphan

LONG = 60.0
_FOREVER = "import signal, time\nprint('ready', flush=True)\nwhile True: time.sleep(60)"


@pytest.fixture(autouse=True)
def commands_without_copies() -> None:
    """Here they start as they do outside tests."""


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


def test_it_is_ready_when_its_line_has_ended() -> None:
    child = Child(python("import os, time\nos.write(1, b'ready')\nwhile True: time.sleep(60)"))
    assert select.select([child.out], [], [], LONG)[0]
    assert child.await_ready(0.0) == "late"
    child.stop(LONG)
    child = Child(python("import os, time\nos.write(1, b'ready at 7\\n')\nwhile True: time.sleep(60)"))
    assert child.await_ready(LONG) == "ready"
    child.stop(LONG)


def test_one_that_does_not_listen_is_made_to_end() -> None:
    code = f"import signal\nsignal.signal({int(signal.SIGTERM)}, signal.SIG_IGN)\n{_FOREVER}"
    child = Child(python(code))
    assert said(child) == b"ready\n"
    child.stop(0.0)
    assert child.code == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_takes_signals_that_we_ignore_or_block(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        child = Child(("/bin/sh", "-c", f"kill -{int(number)} $$; echo ignored"))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.signal(number, before)
    assert said(child) == b""
    child.stop(LONG)
    assert child.code == -number


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
    with pytest.raises(CommandFailed, match="command not found"):
        Child((str(tmp_path / "none"),))


def left(file: Path, *words: str) -> Child:
    child = Child((*python(_FOREVER), *words))
    assert said(child) == b"ready\n"
    file.write_text(f"{child.pid}\n")
    return child


def test_one_that_was_left_behind_is_ended_by_the_file_with_its_number(tmp_path: Path) -> None:
    child = left(tmp_path / "pid", str(tmp_path / "pid"))
    end_orphan(tmp_path / "pid")
    assert child.code == -signal.SIGKILL
    child.stop(LONG)


def test_whoever_has_that_number_now_and_is_another_is_left_alone(tmp_path: Path) -> None:
    child = left(tmp_path / "pid", str(tmp_path / "pid2"))
    end_orphan(tmp_path / "pid")
    assert child.code is None
    child.stop(LONG)


@pytest.mark.parametrize("text", ["", "none", "0", "-1", "99999999999"])
def test_a_file_that_names_no_process_ends_nothing(tmp_path: Path, text: str) -> None:
    bystander = left(tmp_path / "pid", str(tmp_path / "pid"))
    (tmp_path / "pid").write_text(text)
    end_orphan(tmp_path / "pid")
    end_orphan(tmp_path / "missing")
    assert bystander.code is None
    bystander.stop(LONG)
