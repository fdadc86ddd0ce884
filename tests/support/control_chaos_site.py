"""A control service (or two over one PostgreSQL), its agents and the wire before them, all in a folder."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import psycopg

from forebay.act.control.client import Client, parse_service
from forebay.act.volumes.kinds import open_volumes
from support.control_chaos_oracle import Tale
from support.control_chaos_wire import Wire
from support.nursery import Child, Nursery
from support.processes import wait_until
from support.stores import PostgreSQL

_VOLUME = re.compile(r"[0-9a-f]{32}\.\d+")
_STARTS = 100


class Unit:
    """A `forebay` that is started again whenever it ends, with a clock of its own. One fault at a time: `lock`."""

    def __init__(self, nursery: Nursery, folder: Path, name: str, *words: str) -> None:
        self._nursery, self._words, self.name = nursery, words, name
        self.log, self._clock = folder / f"{name}.log", folder / f"{name}.clock"
        self.lock = threading.Lock()
        self.child: Child | None = None
        self.in_vain = 0
        self.set_clock(0)

    def set_clock(self, seconds: float) -> None:
        """So many whole seconds from the true time, forward or back."""
        file = os.open(self._clock, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(file, struct.pack("d", seconds))
        os.close(file)

    @property
    def runs(self) -> bool:
        return self.child is not None and self.child.runs

    def begin(self) -> None:
        assert self.child is None
        self.child = self._nursery.start(self._words, self.log, self._clock)

    def wait_ready(self) -> None:
        """Until it is ready; one that could not start (its database is away) is started again, as its host would."""
        for _ in range(_STARTS):
            assert self.child is not None
            if self.child.wait_ready():
                return
            self.end(signal.SIGKILL)
            self.in_vain += 1
            sleep(0.05)
            self.begin()
        raise AssertionError(f"{self.name} does not start: {self.log.read_text()[-2000:]}")

    def start(self) -> None:
        self.begin()
        self.wait_ready()

    def end(self, number: int) -> None:
        if self.child is not None:
            self.child.end(number)
            self.child = None


@dataclass
class Database:
    """Where the journal is: a SQLite file, or a database of the server."""

    address: str
    file: Path | None = None
    server: PostgreSQL | None = None

    def journal(self) -> list[tuple[int, str]]:
        return [(int(number), str(line)) for number, line in self._rows("SELECT number, line FROM journal ORDER BY 1")]

    def copy(self, to: Path) -> None:
        """As SQLite's own backup does, while others work with it."""
        assert self.file is not None
        _copy(self.file, to)

    def put_back(self, copy: Path) -> None:
        assert self.file is not None
        _copy(copy, self.file)

    def checkpoints(self) -> list[tuple[int, str]]:
        """Numbers and states, whole as JSON."""
        found = self._rows("SELECT number, state FROM journal_checkpoints ORDER BY 1")
        return [(int(number), zlib.decompress(bytes(state)).decode()) for number, state in found]

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        if self.file is not None:
            with closing(sqlite3.connect(self.file, timeout=30)) as connection:
                return connection.execute(query).fetchall()
        with psycopg.connect(self.address) as server:
            return server.execute(query.encode()).fetchall()


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source, timeout=30)) as one, closing(sqlite3.connect(target, timeout=30)) as other:
        one.backup(other)


class Site:
    """Everything is under `folder`. `nodes` gives each node's number of disks, of 100 MB each."""

    def __init__(
        self, nursery: Nursery, folder: Path, database: Database, nodes: list[int], kind: str, chance: random.Random
    ) -> None:
        self.folder, self.database, self.kind = folder, database, kind
        instances = 1 if database.server is None else 2
        self._sockets = [folder / f"s{at}" for at in range(instances)]
        rules = f"interval = 1, tries = {chance.choice([1, 3, 1000])}, split = '{chance.choice([35, 70, 150])} MB'"
        for at, socket in enumerate(self._sockets):
            (folder / f"serve{at}.toml").write_text(
                f"[service]\nsocket = '{socket}'\ndb = '{database.address}'\nsilent = 1.0\n"
                f"checkpoint = {chance.choice([5, 40, 20000])}\nrules = {{ {rules} }}\n"
            )
        self.wire = Wire(folder / "wire", self._sockets, chance)
        self.services = [
            Unit(nursery, folder, f"service{at}", "serve", "--config", str(folder / f"serve{at}.toml"))
            for at in range(instances)
        ]
        self.put_back: list[tuple[Tale, Tale]] = []  # the journal as it was, and as it was before
        self.disks: dict[str, Path] = {}
        self.agents = [self._agent(nursery, f"n{at}", disks) for at, disks in enumerate(nodes)]

    def _agent(self, nursery: Nursery, node: str, disks: int) -> Unit:
        text = f'[agent]\nnode = "{node}"\nfolder = "{node}-state"\nheartbeat = "0.3 s"\nlook = "1 s"\n'
        text += f'service = "unix:{self.wire.path}"\n'
        for at in range(disks):
            root = self.disks[f"{node}/d{at}"] = self.folder / f"{node}-d{at}"
            root.mkdir(mode=0o711)
            text += f'[[disk]]\nname = "d{at}"\nkind = "{self.kind}"\nroot = "{root}"\ncapacity = "100 MB"\n'
            text += 'read_bandwidth = "1 GB/s"\nwrite_bandwidth = "1 GB/s"\n'
        (self.folder / f"{node}.toml").write_text(text)
        return Unit(nursery, self.folder, node, "agent", str(self.folder / f"{node}.toml"))

    @property
    def units(self) -> list[Unit]:
        return [*self.services, *self.agents]

    def start(self) -> None:
        for unit in self.units:
            unit.begin()
        for unit in self.units:
            unit.wait_ready()
        self.wire.start()
        self.registered()

    def registered(self) -> None:
        """All nodes are there, and none is silent."""
        names = {agent.name for agent in self.agents}
        with self.client() as client:
            wait_until(
                lambda: {node["name"] for node in client.nodes() if not node["silent"]} == names, "a node is missing"
            )

    def looked(self) -> None:
        """All agents have said once more what is on their disks; a report on one volume does not count."""
        last, _ = self.database.journal()[-1]

        def nodes() -> set[str]:
            events = [json.loads(line) for number, line in self.database.journal() if number > last]
            return {event["node"] for event in events if event["kind"] == "Reported"}

        wait_until(lambda: nodes() == {agent.name for agent in self.agents}, "an agent does not look")

    def client(self, instance: int = 0) -> Client:
        """Straight to an instance."""
        return Client(parse_service(f"unix:{self._sockets[instance]}"), patience=30.0)

    def on_disks(self) -> set[tuple[str, str]]:
        """Volumes that there are and their disks; by their names alone. Two disks may have one of the same name."""
        return {
            (path.name, disk) for disk, root in self.disks.items() for path in root.iterdir()
            if _VOLUME.fullmatch(path.name)
        }  # fmt: skip

    def litter(self) -> list[str]:
        """What else carries a volume's name, is mounted, or is a loop device's file."""
        left = [
            str(path) for root in self.disks.values() for path in (root / ".forebay").rglob("*")
            if _VOLUME.match(path.name)
        ]  # fmt: skip
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        loops = [f"{path}: {path.read_text()}" for path in Path("/sys/block").glob("loop*/loop/backing_file")]
        return left + [line for line in (*mounts, *loops) if f"{self.folder}/" in line]

    def clean(self) -> None:
        for unit in self.units:
            unit.end(signal.SIGKILL)
        for root in self.disks.values():
            own = open_volumes(self.kind, root)
            for made in own.find():
                own.release(made.name)


def kill_server(server: PostgreSQL) -> None:
    """All of PostgreSQL at once, as when its machine fails; then it is started again."""
    parent = int(Path(server.data, "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    handles = [os.pidfd_open(pid) for pid in (parent, *map(int, children)) if Path(f"/proc/{pid}").exists()]
    for handle in handles:
        _send(handle, signal.SIGKILL)
    wait_until(lambda: not any(_send(handle, 0) for handle in handles), "PostgreSQL does not die")
    for handle in handles:
        os.close(handle)
    server.go_on()


def _send(handle: int, number: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def lock_of(file: Path) -> Iterator[None]:
    """Nobody else can write to the SQLite file meanwhile."""
    with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
