"""A real control service on a UNIX socket in a folder, and callers of it."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from forebay.act.control.api.server import serve
from forebay.act.control.errors import ErrorCode
from forebay.act.control.service.settings import ServiceSettings
from forebay.act.log import Log

GB = 10**9
_STATUSES = {code.value: code.status for code in ErrorCode}
DISK: dict[str, Any] = {"capacity": 100 * GB, "read_bandwidth": 3e9, "write_bandwidth": 3e9}
AGENT_FILE = """
[agent]
node = "n"
service = "unix:{folder}/socket"
folder = "state"
heartbeat = "0.2 s"
look = "1 s"
[[disk]]
name = "d"
kind = "directory"
root = "d"
capacity = "10 MB"
read_bandwidth = "1 GB/s"
write_bandwidth = "1 GB/s"
"""
"""An agent of one small disk; `folder` has the service's socket."""


@dataclass
class Running:
    """A service that runs in a thread of this process, and a caller who is its administrator."""

    settings: ServiceSettings
    log: io.StringIO = field(default_factory=io.StringIO)
    addresses: list[str] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop | None = None
    _end: asyncio.Event | None = None
    _ready: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _failed: BaseException | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="service")
        self._thread.start()
        assert self._ready.wait(120), "the service does not start"
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failed = error
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        await serve(self.settings, self._end, self._told, log=Log(to=self.log))

    def _told(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self._ready.set()

    def stop(self) -> None:
        assert self._thread is not None
        if self._loop is not None and self._end is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    @property
    def socket(self) -> Path:
        assert self.settings.socket is not None
        return self.settings.socket

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Of its log."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def client(self, token: str = "") -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=False)  # certificates would take 28 ms to read
        return httpx.Client(transport=transport, base_url="http://forebay", headers=headers, timeout=60)

    def call(self, method: str, path: str, body: object = None, *, token: str = "", status: int = 200) -> Any:
        """The answer, which must have that status."""
        with self.client(token) as client:
            answer = client.request(method, path, json=body)
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.json()

    def error(self, method: str, path: str, body: object = None, *, token: str = "", status: int = 400) -> str:
        """The one line that says what is wrong."""
        found = self.call(method, path, body, token=token, status=status)
        assert set(found) == {"error", "code"} and _STATUSES[found["code"]] == status
        assert "\n" not in found["error"]
        return str(found["error"])

    def ask(
        self, size: int | str = GB, seconds: float | str = 600, *, status: int = 201, token: str = "", **more: Any
    ) -> Any:
        return self.call("POST", "/v1/grants", {"size": size, "seconds": seconds, **more}, status=status, token=token)

    def hello(
        self, node: str = "n", *disks: str, number: int = 1, volumes: list[Any] | None = None, **more: Any
    ) -> Any:
        """A node with these disks of 100 GB each (one disk `d` if none is named)."""
        told = [{"name": name, **DISK} for name in disks or ("d",)]
        body = {"disks": told, "volumes": volumes or [], "number": number, **more}
        return self.call("POST", f"/v1/nodes/{node}/hello", body)

    def actions(self, node: str = "n", seconds: float = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", f"/v1/nodes/{node}/actions?seconds={seconds}")["actions"]
        return found

    def carry_out(self, node: str = "n", number: int = 2) -> int:
        """Do all that the node's agent is to do; how much that was."""
        reports = []
        for action in self.actions(node):
            done = {"make": "made", "release": "gone"}[action["kind"]]
            reports.append({"kind": done, "volume": action["volume"], "disk": action["disk"], "number": number})
            if done == "made":
                reports[-1]["path"] = f"/fast/{action['volume']}"
        self.call("POST", f"/v1/nodes/{node}/reports", reports)
        return len(reports)

    def grant(self, name: str) -> Any:
        return self.call("GET", f"/v1/grants/{name}")

    def token(self, name: str, role: str, **more: Any) -> str:
        made = self.call("POST", "/v1/tokens", {"name": name, "role": role, **more}, status=201)
        return str(made["token"])


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    """A service on `folder`/socket with its journal in `folder`/journal.db, unless told otherwise."""
    given = {"socket": folder / "socket", "db": str(folder / "journal.db"), **settings}
    service = Running(ServiceSettings(**given))
    service.start()
    try:
        yield service
    finally:
        service.stop()
