"""A control service and its agents as real processes, which a test can kill and start again."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forebay.act.control.api.forms import TokenForm
from forebay.act.control.auth.tokens import new_token, write_secret
from forebay.act.control.client import Client, parse_service
from forebay.act.volumes.kinds import open_volumes
from forebay.act.volumes.volume import Volume
from forebay.history.store import open_store
from forebay.history.store.tokens import remove_token, save_token
from support.nursery import Child, shared_nursery
from support.processes import PATIENCE, wait_until

MB = 10**6
SILENT = 2.0
"""Seconds after which a node counts as silent, where a test waits for that."""
NEVER = 600.0
"""Where none does: a node stays there, however slow the machine is."""


class Process:
    """`forebay` and these words. It says in one line that it is ready; what else it says goes to `log`."""

    def __init__(self, log: Path, *words: str) -> None:
        self._words, self._log = words, log
        self._child: Child | None = None

    def start(self) -> None:
        assert self._child is None
        self._child = shared_nursery().start(self._words, self._log)
        if not self._child.wait_ready():
            raise AssertionError(f"{self._words}: ended with {self._child.wait_gone()}: {self.said()}")

    def end(self, number: int = signal.SIGTERM) -> int:
        """With this signal; what it ended with. One that does not run is left alone."""
        if self._child is None:
            return 0
        self._child.signal(signal.SIGCONT)
        code = self._child.end(number)
        self._child = None
        return code

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def signal(self, number: int) -> None:
        assert self._child is not None
        self._child.signal(number)

    def said(self) -> str:
        return self._log.read_text()


def forebay(*words: str) -> subprocess.CompletedProcess[str]:
    return shared_nursery().run(*words)


class System:
    """Everything is under `folder`."""

    def __init__(self, folder: Path, silent: float) -> None:
        self.folder, self._silent = folder, silent
        self.address = f"unix:{folder}/s"
        self.configure()
        self.service = Process(folder / "service.log", "serve", "--config", str(folder / "serve.toml"))
        self.agents: dict[str, Process] = {}
        self._disks: dict[Path, dict[str, Any]] = {}

    def configure(self, more: str = "") -> None:
        rules = "rules = { interval = 1, tries = 1000000, split = '150 MB' }"
        places = f"socket = '{self.folder}/s'\ndb = '{self.folder}/db'"
        text = f"[service]\n{places}\nsilent = {self._silent}\n{rules}\n{more}\n"
        (self.folder / "serve.toml").write_text(text)

    def add_agent(self, node: str, *disks: str, capacity: str = "100 MB", more: str = "") -> Process:
        """A node with disks, each `kind` or `kind:means` (`loop:nbd`); not started. `more` lines go to its file."""
        service = "" if "service =" in more else f'service = "{self.address}"'
        text = (
            f'[agent]\nnode = "{node}"\nfolder = "{node}-state"\nheartbeat = "0.5 s"\nlook = "2 s"\n{service}\n{more}\n'
        )
        for at, disk in enumerate(disks):
            kind, _, means = disk.partition(":")
            root = self.folder / f"{node}-d{at}"
            root.mkdir(mode=0o711)
            self._disks[root] = {"kind": kind, "local": not means}
            expose = f'expose = "{means}"' if means else ""
            bandwidth = 'read_bandwidth = "1 GB/s"\nwrite_bandwidth = "1 GB/s"'
            text += f'[[disk]]\nname = "d{at}"\nkind = "{kind}"\nroot = "{root}"\ncapacity = "{capacity}"\n'
            text += f"{bandwidth}\n{expose}\n"
        (self.folder / f"{node}.toml").write_text(text)
        log = self.folder / f"{node}.log"
        self.agents[node] = Process(log, "agent", str(self.folder / f"{node}.toml"))
        return self.agents[node]

    def start(self) -> None:
        self.service.start()
        for agent in self.agents.values():
            agent.start()
        self.registered()

    def registered(self) -> None:
        """All agents have told what they have."""
        with self.client() as client:
            wait_until(lambda: {node["name"] for node in client.nodes()} == set(self.agents), "not all nodes are there")

    def client(self, patience: float = PATIENCE) -> Client:
        return Client(parse_service(self.address), patience=patience)

    def command(self, *words: str, token: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`forebay storage` and these words, as whoever the token says."""
        own = () if token is None else ("--token", str(token))
        return forebay("storage", *words, "--service", self.address, *own)

    def token(self, name: str, role: Any, **more: Any) -> Path:
        """A file with a new token, made as `forebay token make` makes it."""
        secret, token = new_token(TokenForm(name=name, role=role, **more), time.time())
        with open_store(str(self.folder / "db")) as store, store.open_writer() as connection:
            save_token(connection, token)
        path = self.folder / f"{name}.token"
        write_secret(path, secret)
        return path

    def remove_token(self, name: str) -> None:
        with open_store(str(self.folder / "db")) as store, store.open_writer() as connection:
            assert remove_token(connection, name)

    def told(self, *words: str) -> Any:
        """The document that a command prints."""
        done = self.command(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def on_disks(self) -> list[Volume]:
        """All volumes that there are."""
        return [
            made
            for root, how in self._disks.items()
            for made in open_volumes(how["kind"], root, local=how["local"]).find()
        ]

    def clean(self) -> None:
        for process in (*self.agents.values(), self.service):
            process.kill()
        for root, how in self._disks.items():
            own = open_volumes(how["kind"], root, local=how["local"])
            for made in own.find():
                own.release(made.name)


@contextmanager
def control_system(silent: float = NEVER) -> Iterator[System]:
    """In a folder with a short path that others may enter; at the end no process and no volume is left."""
    with tempfile.TemporaryDirectory(prefix="fb-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        system = System(folder, silent)
        try:
            yield system
        finally:
            system.clean()
