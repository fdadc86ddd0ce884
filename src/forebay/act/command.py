"""Runs commands, reads their output, and stops commands that hang. Only this module starts processes."""

import ctypes
import os
import pwd
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from forebay.model.errors import UserError, why

_LONGEST = 300  # characters of a command's message that an error repeats
_GRACE = 1.0  # seconds for a killed command to end; a command that hangs in the kernel may never end


class CommandFailed(UserError):
    """A command is missing, hangs or fails. The message is one line with the reason that the command gave."""


class CommandHangs(CommandFailed):
    """A command did not end in time. `out` is its output up to then."""

    def __init__(self, argv: Sequence[str], reason: str, out: str = "") -> None:
        super().__init__(f"{format_command(argv)}: {reason}")
        self.reason, self.out = reason, out


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A command that has succeeded or failed."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def reason(self) -> str:
        """The reason that the command gives for its failure, in one line.

        >>> Completed(argv=("lfs",), code=22, out="", err="\\nerror: bad stripe_size\\nusage: ...").reason
        'error: bad stripe_size'
        """
        for lines in (self.err.splitlines(), self.out.splitlines()[::-1]):
            for line in filter(None, map(_escape_line, lines)):
                return line
        return "no reason given"

    def error(self) -> CommandFailed:
        """Describe the failure as an error."""
        end = f"exit {self.code}" if self.code >= 0 else f"ended by signal {-self.code}"
        return CommandFailed(f"{format_command(self.argv)}: {self.reason} ({end})")


def format_command(argv: Sequence[str]) -> str:
    """Format the command as a user would type it.

    >>> format_command(("lfs", "setstripe", "-c", "8", "/scratch/my data"))
    "lfs setstripe -c 8 '/scratch/my data'"
    """
    return _escape_line(shlex.join(argv))


def run(argv: Sequence[str], *, timeout: float, errors: str = "replace") -> str:
    """Run the command and return its output; raise CommandFailed if its exit status is not 0. `timeout` in seconds."""
    completed = run_unchecked(argv, timeout=timeout, errors=errors)
    if completed.code:
        raise completed.error()
    return completed.out


def run_unchecked(
    argv: Sequence[str],
    *,
    timeout: float,
    errors: str = "replace",
    variables: Mapping[str, str] | None = None,
    text: str = "",
) -> Completed:
    """Run the command, whatever its exit status; stop it after `timeout` seconds. `variables` are added to its
    environment, which other users cannot read; `text` is its input.

    Nothing can stop a command that hangs in the kernel. This function abandons it and does not start the same command
    again while it hangs. `errors` says how to decode bytes that are not UTF-8. If this process is killed, the kernel
    kills the command too.
    """
    if (earlier := _stuck.get(tuple(argv))) and earlier.poll() is None:
        raise CommandHangs(argv, f"not started: process {earlier.pid} runs the same command and still hangs")
    _stuck.pop(tuple(argv), None)
    environment = os.environ | {"LC_ALL": "C"} | dict(variables or {})
    descriptors = tuple(inherited_descriptors)
    source = subprocess.PIPE if text else subprocess.DEVNULL
    with _start(argv, stdin=source, stderr=subprocess.PIPE, env=environment, pass_fds=descriptors) as process:
        try:
            out, err = process.communicate(text.encode() or None, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            end = "stopped" if _stop(process, argv) else f"process {process.pid} cannot be stopped"
            printed = (late.output or b"").decode("utf-8", errors)
            raise CommandHangs(argv, f"no answer within {timeout:g} s; {end}", printed) from None
        except BaseException:
            _stop(process, argv)
            raise
    out_text, err_text = out.decode("utf-8", errors), err.decode("utf-8", errors)
    return Completed(argv=tuple(argv), code=process.returncode, out=out_text, err=err_text)


_stuck: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}  # commands that no signal ends, by their arguments
inherited_descriptors: set[int] = set()
"""Descriptors that stay open in all later commands, so that a lock on one lasts until the last command has ended.

A killed process does not end at once: it may still be writing to a disk.
"""


class Child:
    """A child process, which the kernel kills if this process ends. Call `stop`, or wait until `code` is not None.

    It also ends with the thread that started it. With `outlives`, it ends with neither.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        quiet: bool = False,
        is_merged: bool = False,
        descriptors: Sequence[int] = (),
        outlives: bool = False,
        errors: Path | None = None,
    ) -> None:
        """Start it with these `descriptors` of this process.

        Read its output from `out`. Its stderr goes there, too, if `is_merged`; else to the file `errors`; else to this
        process's stderr, or nowhere if `quiet`.
        """
        self.argv = tuple(argv)
        with ExitStack() as stack:
            stderr: Any = subprocess.STDOUT if is_merged else subprocess.DEVNULL if quiet else None
            if errors is not None:
                stderr = stack.enter_context(errors.open("wb"))
            descriptors = tuple(descriptors)
            self._process = _start(argv, outlives=outlives, stderr=stderr, pass_fds=descriptors)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def out(self) -> int:
        """The descriptor to read its output from."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def code(self) -> int | None:
        """Its exit status (negative for a signal); None while it runs."""
        return self._process.poll()

    def await_ready(self, seconds: float) -> Literal["ready", "late", "ended"]:
        """Wait until it prints a whole line that says ready. Return `late` if it prints nothing for `seconds`.

        A child that writes without a buffer would find the pipe closed if its line were not read to the end.
        """
        printed = b""
        while not re.search(rb"ready.*\n", printed):
            if not select.select([self.out], [], [], seconds)[0]:
                return "late"
            if not (more := os.read(self.out, 4096)):
                return "ended"
            printed += more
        return "ready"

    def signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def detach(self) -> None:
        """Leave it to itself; it must not print any more."""
        os.close(self.out)
        self._process.returncode = 0  # so that nothing waits for it

    def wait(self, seconds: float) -> int | None:
        """Wait until it ends, but no longer than this; return `code`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.code

    def stop(self, grace: float) -> None:
        """Ask it to end. After `grace` seconds, kill it and every process that it started."""
        self.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        if not _stop(self._process, self.argv):
            self._process.returncode = -signal.SIGKILL  # so that nothing waits for it again
        if self._process.stdout:
            self._process.stdout.close()


def end_orphan(file: Path, grace: float = 0.0, *, ask: bool = False) -> None:
    """Kill a process that an earlier run left behind, after `grace` seconds. `file` has its id and is its argument.

    With `ask`, ask it to end first.
    """
    with _open_orphan(file) as process:
        if process is not None:
            if ask:
                signal.pidfd_send_signal(process, signal.SIGTERM)
            if not select.select([process], [], [], grace)[0]:
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], _GRACE)


def is_orphan_alive(file: Path) -> bool:
    """Return whether the process whose id is in `file`, and whose argument is `file`, still runs."""
    with _open_orphan(file) as process:
        return process is not None


@contextmanager
def _open_orphan(file: Path) -> Iterator[int | None]:
    """Yield a descriptor of the process if it runs: another process may have its id now."""
    process = None
    try:
        with suppress(OSError, ValueError, OverflowError):
            pid = int(file.read_text())
            process = os.pidfd_open(pid)
            if os.fsencode(file) not in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.close(process)
                process = None
        yield process
    finally:
        if process is not None:
            os.close(process)


def run_within(seconds: float, work: Callable[[], None], *, grace: float = _GRACE) -> str:
    """Do the work in a child process; return why it failed, or "".

    After `seconds`, send it SIGINT as Ctrl-C does, so that it can undo its changes; then kill it. A file system that
    hangs blocks a process in the kernel, where no signal reaches it, so nothing must wait for the process.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    child = os.fork()
    if child == 0:
        _run_child(work)
    watch = os.pidfd_open(child)
    try:
        if _has_ended(watch, seconds):
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return "" if code == 0 else f"ended with {code}" if code > 0 else f"ended by signal {-code}"
        for number, patience in ((signal.SIGINT, grace), (signal.SIGKILL, 0.2)):
            with suppress(ProcessLookupError):
                os.kill(child, number)
            if _has_ended(watch, patience):
                os.waitpid(child, 0)
                break
        return f"not finished within {seconds:g} s; ended"
    finally:
        os.close(watch)


def _has_ended(watch: int, seconds: float) -> bool:
    return bool(select.select([watch], [], [], seconds)[0])


def _run_child(work: Callable[[], None]) -> None:
    """Do the work in the child process. Never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent may ignore it
        with suppress(KeyboardInterrupt):
            work()
            code = 0
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


_DEATH_SIGNAL, _GET_DEATH_SIGNAL = 1, 2  # PR_SET_PDEATHSIG and PR_GET_PDEATHSIG of prctl(2)
_prctl = ctypes.CDLL(None, use_errno=True).prctl
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)


def _reset_signals() -> None:
    for number in _ENDING:  # a background job ignores some of these signals, and its children inherit that
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _end_with_parent(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        _reset_signals()
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the prctl
            os._exit(1)

    return prepare


def user_groups(uid: int, gid: int) -> list[int]:
    """All groups of a user, but never root's; without an account, only this one."""
    try:
        groups = os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        groups = [gid]
    return [group for group in groups if group != 0]


def become_user(uid: int, gid: int, groups: Sequence[int] = ()) -> None:
    """Switch this process, which root has started, to a user for good, with no other groups than these.

    The kernel then forgets that this process ends with its parent, so say it again.
    """
    parent, number = os.getppid(), ctypes.c_int()
    _prctl(_GET_DEATH_SIGNAL, ctypes.byref(number))
    os.setgroups(list(groups))
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if number.value:
        _prctl(_DEATH_SIGNAL, number.value)
        if os.getppid() != parent:  # the parent ended in the meantime
            os._exit(1)


class _Process(subprocess.Popen[bytes]):
    """A process that can be abandoned: the end of a `with` block does not wait for it."""

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe:
                with suppress(BrokenPipeError):  # it ended before it read all of its input
                    pipe.close()


def _start(argv: Sequence[str], *, outlives: bool = False, stdin: int = subprocess.DEVNULL, **options: Any) -> _Process:
    try:
        return _Process(
            list(argv),
            stdin=stdin,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that a signal to the group also stops the command's children
            preexec_fn=_reset_signals if outlives else _end_with_parent(os.getpid()),
            **options,
        )
    except FileNotFoundError:
        raise CommandFailed(f"{argv[0]}: command not found; install it or add its folder to PATH") from None
    except OSError as error:
        raise CommandFailed(f"{argv[0]}: cannot start the command: {why(error)}") from None
    except ValueError as error:  # a name with a zero byte in it
        raise CommandFailed(f"{format_command(argv)}: cannot start the command: {error}") from None


def _stop(process: _Process, argv: Sequence[str]) -> bool:
    """Kill it and every process that it started. If no signal ends it, remember it and return False."""
    with suppress(ProcessLookupError, PermissionError):  # it has just ended, or runs as another user
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        _stuck[tuple(argv)] = process
        return False
    return True


def _escape_line(line: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in line).strip()
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."
