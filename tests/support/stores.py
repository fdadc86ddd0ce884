"""Histories to test with: on SQLite, and on a PostgreSQL that is started for the tests."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.history.store import Store, open_store

NOBODY = "postgres"  # PostgreSQL does not run as root


def _programs() -> Path | None:
    """Where PostgreSQL's own programs are."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


class PostgreSQL:
    """A server of its own on a UNIX socket in `folder`; nothing listens on the network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs = _programs()
        self._number = 0

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        if os.getuid() == 0:
            shutil.chown(self.folder, NOBODY, NOBODY)
        self.run("initdb", "-D", self.data, "-U", "forebay", "--auth=trust", "--no-sync", "-E", "UTF8")
        self.go_on()

    def go_on(self) -> None:
        """Start with the data that are there."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        self.run("pg_ctl", "-D", self.data, "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, manner: str = "immediate") -> None:
        self.run("pg_ctl", "-D", self.data, "-m", manner, "-w", "stop")

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def new_database(self) -> str:
        """The address of an empty database."""
        self._number += 1
        name = f"history{self._number}"
        self.run("psql", "-h", str(self.folder), "-U", "forebay", "-d", "postgres", "-c", f"CREATE DATABASE {name}")
        return self.address(name)

    def address(self, name: str) -> str:
        return f"postgresql://forebay@/{name}?host={self.folder}"

    def run(self, program: str, *arguments: str) -> None:
        as_other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
        assert self._programs is not None
        subprocess.run(
            [*as_other, str(self._programs / program), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            timeout=60,
        )


@contextmanager
def own_server() -> Iterator[PostgreSQL]:
    """A server that a test may do with as it likes."""
    if _programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    # Not under pytest's own folder, which only its owner may enter; and a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="forebay-pg-"))
    folder.chmod(0o755)
    server = PostgreSQL(folder / "s")
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    with own_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a history that is not there yet, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'history.db'}"
    return str(request.getfixturevalue("postgresql").new_database())


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with open_store(database) as opened:
        yield opened
