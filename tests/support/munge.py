"""A MUNGE daemon of a test's own, with its own key and socket."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.processes import PATIENCE, started, wait_until


@contextmanager
def munged(folder: Path) -> Iterator[Path]:
    """Its socket, which anybody may use; a skip where MUNGE is not installed."""
    program = shutil.which("munged", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("munged is not installed (Debian: munge)")
    folder.mkdir(mode=0o755)
    key = folder / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {"key-file": key, "log-file": folder / "log", "pid-file": folder / "pid", "seed-file": folder / "seed"}
    socket = folder / "socket"
    options = [f"--{name}={path}" for name, path in {**files, "socket": socket}.items()]
    argv = [program, "--force", "--foreground", "--num-threads=2", *options]
    with started(argv, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: socket.exists() or process.poll() is not None, "munged does not start")
        assert socket.exists(), files["log-file"].read_text()
        yield socket


def made(words: str, socket: Path, *, uid: int | None = None, ttl: int | None = None) -> str:
    """A credential with these words in it, made by that user."""
    own = () if ttl is None else ("--ttl", str(ttl))
    argv = ("munge", "--socket", str(socket), "--string", words, *own)
    done = subprocess.run(argv, user=uid, group=uid, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return done.stdout.strip()
