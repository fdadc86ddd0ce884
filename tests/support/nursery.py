"""`forebay` processes by fork: a parent that has imported everything makes them in milliseconds, with a clock of each.

Each child is a process like any other: it runs `forebay` with its own words, sockets, threads and connections, which
it makes after the fork, and dies by kill -9. The parent has one thread and no connection. What it saves is the second
that Python takes to start. Where there is a C compiler, each process reads how far its wall clock is from the true one
from a file of its own (nursery_clock.c), so that it can be put forward and back while the process runs.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from select import select
from types import TracebackType
from typing import Any

from support.processes import PATIENCE

_TESTS = Path(__file__).resolve().parent.parent
_CLOCK = Path(__file__).with_name("nursery_clock.c")
_FIRST = 240.0  # seconds for the parent, which may have to compile what decides
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def has_clocks() -> bool:
    """Whether clocks can be put forward and back (Debian: apt-get install gcc libc6-dev)."""
    return shutil.which("cc") is not None


class Nursery:
    """The parent of all processes. To be closed, and with it all of them."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fb-clock-")))
            self._socket, its = map(stack.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            self._parent = self._begin(its)
            its.close()
            answered = select([self._socket], [], [], _FIRST)[0] and self._socket.recv(100)
            assert answered, "the parent of all processes does not start"
            self._lock, self._stack = threading.Lock(), stack.pop_all()

    def _begin(self, its: socket.socket) -> subprocess.Popen[bytes]:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, sys.path)])}
        if has_clocks():
            environment |= {"LD_PRELOAD": str(self._folder / "clock.so")}
            made = ("cc", "-O2", "-shared", "-fPIC", "-o", environment["LD_PRELOAD"], str(_CLOCK))
            subprocess.run(made, check=True, timeout=PATIENCE)
        argv = (sys.executable, "-m", "support.nursery", str(its.fileno()))
        return subprocess.Popen(argv, pass_fds=[its.fileno()], env=environment)

    def start(self, words: tuple[str, ...], log: Path | None = None, clock: Path | None = None) -> Child:
        """`forebay` and these words, with our environment; its errors go to `log`, or where ours go."""
        out, its = os.pipe()
        errors = os.dup(2) if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        code, its_code = os.pipe()
        try:
            told = {"words": words, "clock": clock and str(clock), "environment": dict(os.environ)}
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(told).encode()], [its, errors, its_code])
                assert select([self._socket], [], [], PATIENCE)[0], "no process is made"
                answer, handles, _, _ = socket.recv_fds(self._socket, 100, 1)
        finally:
            for handle in (its, errors, its_code):
                os.close(handle)
        assert answer, "the parent of all processes is gone"
        return Child(int(answer), handles[0], out, code)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`forebay` and these words, to its end."""
        with tempfile.NamedTemporaryFile(dir=self._folder) as errors:
            child = self.start(words, Path(errors.name))
            out = child.read_all()
            return subprocess.CompletedProcess(words, child.wait_gone(), out, errors.read().decode())

    def close(self) -> None:
        self._socket.close()
        self._parent.wait(PATIENCE)
        self._stack.close()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


@cache
def shared_nursery() -> Nursery:
    """One for all tests of this process."""
    made = Nursery()
    atexit.register(made.close)
    return made


class Child:
    """A process that was made."""

    def __init__(self, pid: int, handle: int, out: int, code: int) -> None:
        self.pid, self._handle, self._out, self._code = pid, handle, out, code
        self._lock = threading.Lock()  # a handle that is closed may be somebody else's

    @property
    def runs(self) -> bool:
        return not select([self._handle], [], [], 0)[0]

    def wait_ready(self) -> bool:
        """Until it says so; False if it ended instead."""
        said = b""
        while b"ready" not in said:
            assert select([self._out], [], [], PATIENCE)[0], "not ready"
            more = os.read(self._out, 4096)
            if not more:
                return False
            said += more
        return True

    def read_all(self) -> str:
        """All that it says until its end."""
        said = b""
        while True:
            assert select([self._out], [], [], PATIENCE)[0], f"process {self.pid} does not end; it said {said!r}"
            more = os.read(self._out, 65536)
            if not more:
                return said.decode()
            said += more

    def wait_gone(self) -> int:
        """Until it is gone; what it ended with, or -1 if it was killed."""
        assert select([self._handle], [], [], PATIENCE)[0], f"process {self.pid} does not end"
        code = int(os.read(self._code, 100) or -1)
        with self._lock:
            os.close(self._handle)
            self._handle = -1
        os.close(self._out)
        os.close(self._code)
        return code

    def signal(self, number: int) -> None:
        """One that has ended already hears nothing."""
        with self._lock, suppress(ProcessLookupError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, number)

    def end(self, number: int) -> int:
        """With this signal; as `wait_gone`."""
        self.signal(number)
        return self.wait_gone()


def _main() -> None:
    """Make a child for each message, until nobody can send any more; then all children end."""
    import gc

    import forebay.act.control.agent.agent
    import forebay.act.control.agent.settings
    import forebay.act.control.api.server
    import forebay.act.forward.council.process
    import forebay.act.forward.metrics
    import forebay.act.forward.node.process
    import forebay.act.volumes.kinds
    import forebay.cli.agent
    import forebay.cli.serve
    import forebay.show.web.forwarding
    import forebay.show.web.history  # noqa: F401
    from forebay.cli import command
    from forebay.decide.grants.control import warm_up
    from forebay.decide.registry import find

    find("storage", "forebay")
    warm_up("forebay")
    command()
    gc.freeze()
    own = socket.socket(fileno=int(sys.argv[1]))
    own.send(b"ready")
    while True:
        message, handles, _, _ = socket.recv_fds(own, 1 << 18, 3)
        if not message:
            return
        _reap()
        pid = os.fork()
        if pid == 0:
            own.close()
            _be(json.loads(message), *handles)
        handles.append(os.pidfd_open(pid))
        socket.send_fds(own, [str(pid).encode()], handles[-1:])
        for handle in handles:
            os.close(handle)


def _reap() -> None:
    """Those that have ended. Not before the next is made, so that who asked for one can still say which it is."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _be(told: dict[str, Any], out: int, errors: int, its_code: int) -> None:
    """Become a `forebay`, which tells at its end what it ends with, as only its parent could see that."""
    code: object = 1
    os.set_inheritable(its_code, False)
    try:
        _dress(told["clock"], out, errors)
        os.environ.clear()
        os.environ.update(told["environment"])
        import forebay
        from forebay.cli import main

        sys.argv = [str(Path(forebay.__file__).with_name("__main__.py")), *told["words"]]  # as of `python -m forebay`
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        number = code if isinstance(code, int) else 0
        os.write(its_code, str(number).encode())
        os._exit(number)


def _dress(clock: str | None, out: int, errors: int) -> None:
    """With a clock and outputs of its own; and it does not outlive its parent."""
    library = ctypes.CDLL(None)
    library.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    os.close(out)
    os.close(errors)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  (others than the parent's, which it may have used)
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    if os.environ.get("LD_PRELOAD") and clock is not None:
        assert library.forebay_clock(os.fsencode(clock)) == 0, "there is no clock"


if __name__ == "__main__":
    _main()
