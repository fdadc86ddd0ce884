"""`forebay` processes by fork: a parent that has imported everything makes them in milliseconds, with a clock of each.

Each child is a process like any other: it runs `forebay` with its own words, sockets, threads and connections, which
it makes after the fork, and dies by kill -9. The parent has one thread and no connection. What it saves is the second
that Python takes to start. Where there is a C compiler, each process reads how far its wall clock is from the true one
from a file of its own (nursery_clock.c), so that it can be put forward and back while the process runs.
"""

from __future__ import annotations

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
from contextlib import suppress
from pathlib import Path
from select import select
from types import TracebackType

from support.forward_processes import PATIENCE

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
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._folder = Path(tempfile.mkdtemp(prefix="fb-clock-"))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, sys.path)])}
        if has_clocks():
            environment |= {"LD_PRELOAD": str(self._folder / "clock.so")}
            made = ("cc", "-O2", "-shared", "-fPIC", "-o", environment["LD_PRELOAD"], str(_CLOCK))
            subprocess.run(made, check=True, timeout=PATIENCE)
        argv = (sys.executable, "-m", "support.nursery", str(its.fileno()))
        self._parent = subprocess.Popen(argv, pass_fds=[its.fileno()], env=environment)
        its.close()
        self._socket, self._lock = ours, threading.Lock()
        assert select([ours], [], [], _FIRST)[0] and ours.recv(100), "the parent of all processes does not start"

    def start(self, words: tuple[str, ...], log: Path, clock: Path) -> Child:
        """`forebay` and these words; its errors go to `log`."""
        out, its = os.pipe()
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            told = json.dumps({"words": words, "clock": str(clock)}).encode()
            with self._lock:
                socket.send_fds(self._socket, [told], [its, errors])
                assert select([self._socket], [], [], PATIENCE)[0], "no process is made"
                answer, handles, _, _ = socket.recv_fds(self._socket, 100, 1)
        finally:
            os.close(its)
            os.close(errors)
        assert answer, "the parent of all processes is gone"
        return Child(int(answer), handles[0], out)

    def close(self) -> None:
        self._socket.close()
        self._parent.wait(PATIENCE)
        shutil.rmtree(self._folder)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Child:
    """A process that was made."""

    def __init__(self, pid: int, handle: int, out: int) -> None:
        self.pid, self._handle, self._out = pid, handle, out
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

    def signal(self, number: int) -> None:
        """One that has ended already hears nothing."""
        with self._lock, suppress(ProcessLookupError):
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, number)

    def end(self, number: int) -> None:
        """With this signal; returns when it is gone."""
        self.signal(number)
        assert select([self._handle], [], [], PATIENCE)[0], f"process {self.pid} does not end by signal {number}"
        with self._lock:
            os.close(self._handle)
            self._handle = -1
        os.close(self._out)


def _main() -> None:
    """Make a child for each message, until nobody can send any more; then all children end."""
    import gc

    import forebay.act.control.agent
    import forebay.act.control.agent_file
    import forebay.act.control.serve
    import forebay.act.volumes.choose
    import forebay.show.cli.agent
    import forebay.show.cli.serve  # noqa: F401
    from forebay.act.control.warm import warm_up
    from forebay.decide.registry import find

    find("storage", "forebay")
    warm_up("forebay")
    gc.freeze()
    own = socket.socket(fileno=int(sys.argv[1]))
    own.send(b"ready")
    while True:
        message, handles, _, _ = socket.recv_fds(own, 65536, 2)
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


def _be(told: dict[str, object], out: int, errors: int) -> None:
    """Become a `forebay`."""
    code: object = 1
    try:
        _dress(str(told["clock"]), out, errors)
        words = told["words"]
        assert isinstance(words, list)
        sys.argv = ["forebay", *words]
        from forebay.show.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 0)


def _dress(clock: str, out: int, errors: int) -> None:
    """With a clock and outputs of its own; and it does not outlive its parent."""
    library = ctypes.CDLL(None)
    library.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.dup2(out, 1)
    os.dup2(errors, 2)
    os.close(out)
    os.close(errors)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  (others than the parent's, which it may have used)
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    if os.environ.pop("LD_PRELOAD", ""):  # what it starts itself has the true time
        assert library.forebay_clock(os.fsencode(clock)) == 0, "there is no clock"


if __name__ == "__main__":
    _main()
