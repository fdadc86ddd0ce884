import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act import command
from forebay.act.command import CommandFailed, CommandHangs, Completed, format_command, run, run_unchecked
from forebay.model.errors import UserError
from support.calls import record_calls

LONG = 60.0


@pytest.fixture(autouse=True)
def commands_without_copies() -> None:
    """Here they start as they do outside tests."""


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-SEc", code


def test_gives_what_the_command_prints() -> None:
    assert run(python("print('4 OSTs')"), timeout=LONG) == "4 OSTs\n"


def test_a_failure_shows_the_commands_first_words() -> None:
    words = "\nerror: bad stripe_size 1\nusage: lfs ..."
    code = f"import sys; print('noise'); print({words!r}, file=sys.stderr); sys.exit(22)"
    with pytest.raises(CommandFailed, match=r": error: bad stripe_size 1 \(exit 22\)$"):
        run(python(code), timeout=LONG)


def test_a_failure_without_words_on_stderr_shows_the_last_of_stdout() -> None:
    with pytest.raises(CommandFailed, match=r": second \(exit 3\)$"):
        run(python("print('first'); print('second'); raise SystemExit(3)"), timeout=LONG)


def test_a_failure_without_any_words_says_so() -> None:
    with pytest.raises(CommandFailed, match=r": no reason given \(exit 1\)$"):
        run(("false",), timeout=LONG)


def test_an_end_by_a_signal_is_told_from_an_exit_code() -> None:
    code = f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})"
    with pytest.raises(CommandFailed, match=r"\(ended by signal 15\)$"):
        run(python(code), timeout=LONG)


def test_a_failure_can_be_looked_at_instead() -> None:
    done = run_unchecked(python("print('half'); raise SystemExit(7)"), timeout=LONG)
    assert (done.code, done.out) == (7, "half\n")


def test_a_command_that_is_missing_is_the_users_to_mend() -> None:
    with pytest.raises(UserError, match=r"^no-such-lfs: command not found"):
        run(("no-such-lfs", "df"), timeout=LONG)


def test_a_file_that_is_no_command_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "lfs").write_text("not a program")
    with pytest.raises(CommandFailed, match=r"lfs: cannot start the command: permission denied$"):
        run((str(tmp_path / "lfs"),), timeout=LONG)


def test_a_name_that_no_command_can_be_given_is_one_line() -> None:
    with pytest.raises(CommandFailed, match=r"cannot start the command: embedded null byte$"):
        run(("lfs", "a\0b"), timeout=LONG)


def test_no_shell_reads_the_arguments() -> None:
    assert run((*python("import sys; print(sys.argv[1])"), "$(echo x); *"), timeout=LONG) == "$(echo x); *\n"


def test_the_command_speaks_plain_english_whatever_the_users_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert run(python("import os; print(os.environ['LC_ALL'])"), timeout=LONG) == "C\n"


def test_the_command_can_not_wait_for_the_keyboard() -> None:
    assert run(python("import sys; print(repr(sys.stdin.read()))"), timeout=LONG) == "''\n"


def test_bytes_that_are_no_text_are_no_reason_to_fail() -> None:
    out = run(python("import sys; sys.stdout.buffer.write(b'ok \\xff')"), timeout=LONG)
    assert out == "ok \ufffd"


def test_much_output_on_both_channels_does_not_block() -> None:
    code = "import sys; sys.stderr.write('e' * 300000); sys.stdout.write('o' * 300000)"
    done = run_unchecked(python(code), timeout=LONG)
    assert (len(done.out), len(done.err)) == (300000, 300000)


def test_a_command_that_hangs_is_stopped_and_so_is_its_child(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 100000 & echo $! > '{pids}'; wait"
    with pytest.raises(CommandFailed, match=r"no answer within 1 s; stopped$"):
        run(("sh", "-c", script), timeout=1.0)
    assert not pids.exists() or gone(pids.read_text().strip())


def test_a_child_that_keeps_the_output_open_does_not_outlive_the_command() -> None:
    with pytest.raises(CommandFailed, match="no answer within 1 s; stopped"):
        run(("sh", "-c", "sleep 100000 & exit 0"), timeout=1.0)


@pytest.fixture
def unkillable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands that hang inside the kernel, on a server that is away, take no signals."""

    def not_allowed(_: int, __: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", not_allowed)
    monkeypatch.setattr(command, "_GRACE", 0.01)
    monkeypatch.setattr(command, "_stuck", {})
    yield
    for process in command._stuck.values():
        process.kill()
        process.wait(LONG)


@pytest.mark.usefixtures("unkillable")
def test_a_command_that_can_not_be_killed_is_left_behind() -> None:
    with pytest.raises(CommandHangs, match=r"no answer within 0.01 s; process \d+ cannot be stopped$"):
        run(("sleep", "3"), timeout=0.01)


@pytest.mark.usefixtures("unkillable")
def test_what_hangs_is_not_started_again_until_it_has_ended(tmp_path: Path) -> None:
    starts, end = tmp_path / "starts", tmp_path / "end"
    os.mkfifo(end)
    waiting = ("sh", "-c", f"echo >> '{starts}'; read x < '{end}'")
    with pytest.raises(CommandHangs, match="cannot be stopped"):
        run(waiting, timeout=0.01)
    with pytest.raises(CommandHangs, match=r"not started: process \d+ runs the same command and still hangs"):
        run(waiting, timeout=LONG)
    end.write_text("now\n")
    command._stuck[waiting].wait(LONG)
    assert starts.read_text() == "\n"
    with pytest.raises(CommandHangs, match="cannot be stopped"):  # that is another one
        run(waiting, timeout=0.01)


def test_what_was_printed_before_it_hung_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, timeout: float) -> None:
        raise subprocess.TimeoutExpired("lfs", timeout, output=b"half\n")

    monkeypatch.setattr("subprocess.Popen.communicate", late)
    with pytest.raises(CommandHangs) as hung:
        run(("sleep", "100000"), timeout=LONG)
    assert hung.value.out == "half\n"


def test_an_interrupt_stops_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = record_calls(monkeypatch, os, "killpg")
    monkeypatch.setattr("subprocess.Popen.communicate", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(("sleep", "100000"), timeout=LONG)
    ((stopped, _),) = stops
    assert not _runs(str(stopped))


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


@given(out=st.text(), err=st.text(), code=st.integers(-64, 255))
def test_whatever_a_command_says_the_error_is_one_short_line(out: str, err: str, code: int) -> None:
    message = str(Completed(argv=("lfs", "df"), code=code, out=out, err=err).error())
    assert message.isprintable()
    assert len(message) < 400


def test_commands_are_shown_as_they_are_typed() -> None:
    assert format_command(("lfs", "df", "/a b\n")) == "lfs df '/a b '"


def gone(pid: str) -> bool:
    """Whether it ends: a process that is killed is not gone at once."""
    end = time.monotonic() + LONG
    while _runs(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not _runs(pid)


KILLED = """
import os, sys, threading
from forebay.act import command
argv = {argv!r}
{before}
threading.Thread(target=lambda: command.run(argv, timeout=1000)).start()
while not os.path.exists({begun!r}): pass
os.kill(os.getpid(), 9)
"""


def killed(tmp_path: Path, code: str, before: str = "") -> str:
    """The number of a command that was running when the process that had started it was killed."""
    begun = tmp_path / "begun"
    words = f"import os\nopen({str(begun)!r} + 'x', 'w').write(str(os.getpid()))\n{code}"
    script = KILLED.format(argv=python(words), begun=str(begun), before=before)
    done = subprocess.run([sys.executable, "-c", script], timeout=LONG, check=False)
    assert done.returncode == -signal.SIGKILL
    return (tmp_path / "begunx").read_text()


def test_a_command_ends_with_its_parent_however_that_ends(tmp_path: Path) -> None:
    begun = str(tmp_path / "begun")
    number = killed(tmp_path, f"import time\nopen({begun!r}, 'w')\ntime.sleep(1000)")
    assert gone(number)


def test_a_lock_that_is_held_lasts_until_the_last_of_the_commands_has_ended(tmp_path: Path) -> None:
    """One that can't be killed at once must not be met by another that works on the same."""
    lock, begun, end = tmp_path / "lock", tmp_path / "begun", tmp_path / "end"
    os.mkfifo(end)
    before = (
        f"import fcntl\nlock = os.open({str(lock)!r}, os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(lock, fcntl.LOCK_EX)\ncommand.inherited_descriptors.add(lock)"
    )
    outlives = f"os.setsid() if os.fork() else (open({str(begun)!r}, 'w'), open({str(end)!r}).read(), os._exit(0))"
    killed(tmp_path, f"{outlives}\nimport time\ntime.sleep(1000)", before)
    with lock.open("w") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end.write_text("now")
        fcntl.flock(file, fcntl.LOCK_EX)
