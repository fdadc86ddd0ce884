"""Locks when processes of the layer die: a dead mount's are free, and none is granted twice."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.fio import needs_fuse
from support.forward_processes import Layer, Part, layer, start
from support.processes import limited, piped, wait_until

_HOLD = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
for line in sys.stdin:
    try:
        print(os.pwrite(file, b"held", 0), flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


@contextmanager
def two_mounts(*, server_options: tuple[str, ...] = ()) -> Iterator[tuple[Layer, list[tuple[Part, Path]]]]:
    needs_fuse()
    with layer() as made:
        made.add_servers(2, more=[server_options, ()])
        made.add_nodes(2)
        start(*made.servers, *made.nodes)
        mounts = [made.add_mount(name) for name in ("mount0", "mount1")]
        start(*(part for part, _ in mounts))
        yield made, mounts


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that holds locks on the file; for each line of input, it writes to the file and says how that went."""
    argv = [sys.executable, "-c", _HOLD, str(path)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert limited(piped(process.stdout).readline) == "locked\n"
        yield process
    finally:
        process.kill()
        with suppress(BrokenPipeError):
            process.communicate(timeout=60)


def is_free(path: Path) -> bool:
    """Whether neither of the holder's locks keeps this process away."""
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(file)


def write_through(process: subprocess.Popen[str]) -> str:
    print(file=process.stdin, flush=True)
    return limited(piped(process.stdout).readline).strip()


def test_the_locks_of_a_mount_that_is_killed_are_free() -> None:
    with two_mounts() as (_, [(killed, here), (_, there)]), holder(here / "file"):
        assert not is_free(there / "file")
        killed.kill()
        wait_until(lambda: is_free(there / "file"), "the locks of a killed mount stay")
        killed.stop()
        subprocess.run(["umount", "-l", str(here)], check=True, timeout=60)


def test_a_mount_that_stands_still_holds_nobody_up_and_then_sees_what_others_did() -> None:
    """As on a compute node that is lost, and one that comes back."""
    with two_mounts() as (_, [(stopped, here), (_, there)]):
        (here / "folder").mkdir()
        (here / "folder/gone").write_text("old")
        (here / "kept").write_text("old")
        assert [path.name for path in (here / "folder").iterdir()] == ["gone"]
        with holder(here / "file") as process:
            stopped.signal(signal.SIGSTOP)
            try:
                (there / "kept").write_text("newer")  # when the lease of the other has ended
                (there / "folder/gone").unlink()
                wait_until(lambda: is_free(there / "file"), "the locks of a mount that stands still stay")
                (there / "file").write_text("mine")
            finally:
                stopped.signal(signal.SIGCONT)
            assert write_through(process) == str(errno.EIO)  # its lock is another's
        assert (here / "kept").read_text() == "newer"
        assert not list((here / "folder").iterdir())
        assert (here / "file").read_text() == "mine"


def test_a_restart_of_a_server_or_an_io_node_neither_loses_locks_nor_grants_them_twice() -> None:
    with two_mounts() as (made, [(_, here), (_, there)]), holder(here / "file") as process:
        for part in (made.servers[0], made.nodes[0], made.servers[0]):
            part.kill()
            part.start()
            assert not is_free(there / "file")
            assert write_through(process) == "4"
        process.kill()
        wait_until(lambda: is_free(there / "file"), "the locks of a program that has ended stay")


def test_a_site_can_turn_locks_off() -> None:
    with two_mounts(server_options=("--no-locks",)) as (_, [(_, here), (_, there)]):
        with (here / "file").open("ab", buffering=0) as file, (there / "file").open("ab", buffering=0) as other:
            for lock in (fcntl.lockf, fcntl.flock):
                with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOLCK):
                    lock(file, fcntl.LOCK_EX)
            file.write(b"one ")
            other.write(b"two ")
            file.write(b"three")
        assert (here / "file").read_bytes() == b"one two three"
