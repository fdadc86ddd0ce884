"""The one place that starts processes: a command, its words, and an end to it when it hangs."""

from __future__ import annotations

import ctypes
import os
import select
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay.model.errors import UserError, why

_LONGEST = 300
"""Characters of a command's own words that an error repeats."""
_GRACE = 1.0
"""Seconds to wait for the end of a killed command; one that hangs inside the kernel can't be waited for."""


class CommandFailed(UserError):
    """A command that is missing, hangs or refuses; the message is one line with the command's own words."""


class CommandHangs(CommandFailed):
    """A command that did not end in time; `out` is what it had printed until then."""

    def __init__(self, message: str, out: str = "") -> None:
        super().__init__(message)
        self.out = out


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that came to its end."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What the command has to say of its end, in one line.

        >>> Done(argv=("lfs",), code=22, out="", err="\\nerror: bad stripe_size\\nusage: ...").words
        'error: bad stripe_size'
        """
        for lines in (self.err.splitlines(), self.out.splitlines()[::-1]):
            for line in filter(None, map(_printable, lines)):
                return line
        return "it gave no reason"

    def failed(self) -> CommandFailed:
        """The error that says so."""
        end = f"exit {self.code}" if self.code >= 0 else f"ended by signal {-self.code}"
        return CommandFailed(f"{shown(self.argv)}: {self.words} ({end})")


def shown(argv: Sequence[str]) -> str:
    """As one would type it.

    >>> shown(("lfs", "setstripe", "-c", "8", "/scratch/my data"))
    "lfs setstripe -c 8 '/scratch/my data'"
    """
    return _printable(shlex.join(argv))


def run(argv: Sequence[str], *, timeout: float, errors: str = "replace") -> str:
    """What the command prints; one that ends with anything but 0 is an error. `timeout` in seconds."""
    done = ended(argv, timeout=timeout, errors=errors)
    if done.code:
        raise done.failed()
    return done.out


def ended(argv: Sequence[str], *, timeout: float, errors: str = "replace") -> Done:
    """The command, once it has ended: well or not. One that takes longer than `timeout` seconds is stopped.

    One that hangs inside the kernel can't be stopped. It is given up and remembered: as long as it hangs, the same
    command is not started again, as it would hang behind it. `errors` says what becomes of bytes that are not UTF-8.
    If this process is killed meanwhile, the system ends the command too.
    """
    _check_stuck(argv)
    with _started(argv) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            end = "stopped" if _stop_or_remember(process, argv) else f"process {process.pid} can't be stopped"
            printed = (late.output or b"").decode("utf-8", errors)
            raise CommandHangs(f"{shown(argv)}: no answer within {timeout:g} s; {end}", printed) from None
        except BaseException:
            _stop_or_remember(process, argv)
            raise
    said, complained = out.decode("utf-8", errors), err.decode("utf-8", errors)
    return Done(argv=tuple(argv), code=process.returncode, out=said, err=complained)


_stuck: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}
"""Commands that took no signal, by what they are."""


def _stop_or_remember(process: _Process, argv: Sequence[str]) -> bool:
    ended_now = _stop(process)
    if not ended_now:
        _stuck[tuple(argv)] = process
    return ended_now


def _check_stuck(argv: Sequence[str]) -> None:
    earlier = _stuck.get(tuple(argv))
    if earlier is None:
        return
    if earlier.poll() is None:
        raise CommandHangs(f"{shown(argv)}: not tried, as process {earlier.pid} has hung in it since an earlier try")
    del _stuck[tuple(argv)]


_held: set[int] = set()


def hold(descriptor: int) -> None:
    """Commands keep this descriptor open from now on, so that a lock on it lasts until the last of them has ended.

    A process that is killed is not gone at once: it may still be in the middle of a write to a disk.
    """
    _held.add(descriptor)


def let_go(descriptor: int) -> None:
    _held.discard(descriptor)


class Child:
    """A process that runs on beside this one, and ends with it: however this one ends, the system ends the other.

    Whoever starts one calls `stop`, or has its end by `code` that is no longer None.
    """

    def __init__(self, argv: Sequence[str], *, quiet: bool = False) -> None:
        """Start it. What it prints can be read from `out`; its errors go where ours go, unless it is to be `quiet`."""
        self.argv = tuple(argv)
        words = subprocess.DEVNULL if quiet else None
        self._process = _opened(argv, stderr=words)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def out(self) -> int:
        """The descriptor from which its output can be read."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def code(self) -> int | None:
        """What it ended with (a signal is negative); None as long as it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def stop(self, grace: float) -> None:
        """Ask it to end, and make it after `grace` seconds; with it goes what it started and left behind."""
        self.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        if not _stop(self._process):
            self._process.returncode = -signal.SIGKILL  # nobody asks for it again
        if self._process.stdout:
            self._process.stdout.close()


def end_left(file: Path, grace: float = 0.0) -> None:
    """End a process that an earlier one started, and wait for that: its number is in `file`, which its command names.

    It has `grace` seconds to end by itself.
    """
    with suppress(OSError, ValueError, OverflowError):
        pid = int(file.read_text())
        process = os.pidfd_open(pid)
        try:
            if os.fsencode(file) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                _end_within(process, grace)
        finally:
            os.close(process)


def _end_within(process: int, grace: float) -> None:
    if not select.select([process], [], [], grace)[0]:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], _GRACE)


_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_prctl = ctypes.CDLL(None, use_errno=True).prctl
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)


def _end_with_parent(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        for number in _ENDING:  # a background job ignores some of them, and would pass that on
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we could ask
            os._exit(1)

    return prepare


class _Process(subprocess.Popen[bytes]):
    """One that can be left behind: the end of the block does not wait for a process that can't be killed."""

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe:
                pipe.close()


def _started(argv: Sequence[str]) -> _Process:
    return _opened(argv, stderr=subprocess.PIPE, env=os.environ | {"LC_ALL": "C"}, pass_fds=tuple(_held))


def _opened(argv: Sequence[str], **how: Any) -> _Process:
    try:
        return _Process(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that what the command starts can be stopped with it
            preexec_fn=_end_with_parent(os.getpid()),
            **how,
        )
    except FileNotFoundError:
        raise CommandFailed(f"{argv[0]}: no such command on this machine; is it installed, and on PATH?") from None
    except OSError as error:
        raise CommandFailed(f"{argv[0]}: can't be started: {why(error)}") from None
    except ValueError as error:  # a name with a zero byte in it
        raise CommandFailed(f"{shown(argv)}: can't be started: {error}") from None


def _stop(process: _Process) -> bool:
    """Kill it and all that it started; False if it takes no signal."""
    with suppress(ProcessLookupError, PermissionError):  # it ended just now, or runs as somebody else
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True


def _printable(line: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in line).strip()
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."
