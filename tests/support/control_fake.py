"""The control service's own decisions behind a small HTTP server: it loses, repeats and refuses answers at will."""

# ruff: noqa: ARG001  (all answers are made from the same)

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from forebay.act.control.api.forms import HelloForm, ReportForm
from forebay.act.control.api.nodes import register_of, report_of
from forebay.act.control.auth.callers import Who
from forebay.act.control.connections import Address
from forebay.decide.grants import commands as co
from forebay.decide.grants.control import Control
from forebay.model.errors import UserError
from forebay.model.grant import Ask, NoSuchGrant, NotAllowed

UID = os.geteuid()
ME = co.Caller(role="user", uid=UID)


def well(_method: str, _path: str) -> str:
    """What happens to each call."""
    return ""


@dataclass
class Fake:
    """`fault` says what happens to a call: "" nothing, "lose" the answer, "drop" the call, or a status to answer."""

    control: Control = field(default_factory=Control)
    fault: Callable[[str, str], str] = well
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    now: float = 1000.0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def do(self, command: co.Command) -> None:
        with self.changed:
            for event in self.control.handle(command, self.now):
                self.control.apply(event)
            self.changed.notify_all()

    def ask(self, size: int, **more: Any) -> str:
        """A grant for `size` bytes; its id."""
        name = secrets.token_hex(16)
        settings: dict[str, Any] = {"key": name, "uid": UID, "gid": UID, "seconds": 3600.0, **more}
        self.do(co.Request(caller=ME, ask=Ask(grant=name, size=size, **settings)))
        return name

    def release(self, grant: str) -> None:
        self.do(co.Release(caller=co.SERVICE, grant=grant))

    def state(self, grant: str) -> str:
        with self.changed:
            return self.control.grant(grant).state.value

    def wait_for(self, ready: Callable[[], bool], what: str = "it did not happen") -> None:
        with self.changed:
            assert self.changed.wait_for(ready, 60.0), what

    def wait_state(self, grant: str, state: str) -> None:
        self.wait_for(lambda: self.control.grant(grant).state.value == state, f"{grant} is {self.control.grant(grant)}")

    def answer(self, method: str, path: str, params: dict[str, str], body: Any) -> tuple[int, Any]:
        for pattern, does in _ROUTES.items():
            if match := re.fullmatch(pattern, f"{method} {path}"):
                try:
                    return does(self, *match.groups(), params=params, body=body)
                except NotAllowed as error:
                    return 403, {"error": str(error)}
                except NoSuchGrant as error:
                    return 404, {"error": str(error)}
                except UserError as error:
                    return 400, {"error": str(error)}
        return 404, {"error": f"no {path}"}

    def document(self, grant: str) -> dict[str, Any]:
        own = self.control.grant(grant)
        volumes = self.control.volumes(grant)
        paths = [volume.path for volume in volumes]
        return {
            "id": grant, "state": own.state.value, "size": own.ask.size, "seconds": own.ask.seconds,
            "start": own.start, "until": own.end, "uid": own.ask.uid, "user": own.ask.user, "job": own.ask.job,
            "tier": own.ask.wants.get("tier", ""), "because": own.because, "position": self.control.position(grant),
            "marks": self.control.marks(grant),
            "path": paths[0] if paths else "", "paths": paths, "created": own.asked, "changed": self.now,
            "volumes": [
                {"number": at, "node": v.node, "disk": v.disk.partition("/")[2], "size": v.size,
                 "state": v.state.value, "path": v.path, "settings": dict(v.settings)}
                for at, v in enumerate(volumes)
            ],
        }  # fmt: skip


def _hello(fake: Fake, node: str, *, params: Any, body: Any) -> tuple[int, Any]:
    form = HelloForm.model_validate(body)
    fake.do(register_of(node, form, Who(role="agent", node=node), True if form.seen else None))
    return _actions(fake, node, params={}, body=None)


def _actions(fake: Fake, node: str, *, params: Any, body: Any) -> tuple[int, Any]:
    with fake.changed:
        if node not in fake.control.tables.nodes:
            return 404, {"error": f"no node {node!r}"}
        fake.changed.wait_for(lambda: bool(fake.control.actions(node)), float(params.get("seconds", 0)))
        return 200, {"actions": [asdict(action) for action in fake.control.actions(node)], "seen": "1:a"}


def _reports(fake: Fake, node: str, *, params: Any, body: Any) -> tuple[int, Any]:
    for each in body:
        fake.do(report_of(node, ReportForm.model_validate(each), Who(role="agent", node=node)))
    return 200, {}


def _log(fake: Fake, _node: str, *, params: Any, body: Any) -> tuple[int, Any]:
    with fake.changed:
        fake.lines += body
        fake.changed.notify_all()
    return 200, {}


def _new(fake: Fake, *, params: Any, body: Any) -> tuple[int, Any]:
    known = fake.control.by_key(UID, body["key"])
    more = {"expose": body.get("expose", ""), "job": body.get("job", ""), "wants": body.get("fields", {})}
    name = known.id if known else fake.ask(int(body["size"]), key=body["key"], seconds=float(body["seconds"]), **more)
    return 200 if known else 201, fake.document(name)


def _show(fake: Fake, grant: str, *, params: Any, body: Any) -> tuple[int, Any]:
    return 200, fake.document(grant)


def _wait(fake: Fake, grant: str, *, params: Any, body: Any) -> tuple[int, Any]:
    with fake.changed:
        before = fake.control.grant(grant)
        if params.get("known", before.state) == before.state:
            fake.changed.wait_for(lambda: fake.control.grant(grant) != before, float(params["seconds"]))
    return 200, fake.document(grant)


def _release(fake: Fake, grant: str, *, params: Any, body: Any) -> tuple[int, Any]:
    fake.do(co.Release(caller=ME, grant=grant))
    return 200, fake.document(grant)


def _extend(fake: Fake, grant: str, *, params: Any, body: Any) -> tuple[int, Any]:
    fake.do(co.Extend(caller=ME, grant=grant, end=body["until"]))
    return 200, fake.document(grant)


def _list(fake: Fake, *, params: Any, body: Any) -> tuple[int, Any]:
    names = [name for name in fake.control.tables.grants if name > params.get("after", "")]
    found = [fake.document(name) for name in sorted(names)]
    found = [each for each in found if params.get("state", each["state"]) == each["state"]]
    return 200, {"grants": found[:2], "more": len(found) > 2}


def _story(fake: Fake, grant: str, *, params: Any, body: Any) -> tuple[int, Any]:
    fake.control.grant(grant)
    return 200, {"story": [line for line in fake.lines if line["grant"] == grant]}


def _drain(fake: Fake, node: str, what: str, *, params: Any, body: Any) -> tuple[int, Any]:
    disk = (body or {}).get("disk")
    kind = co.Drain if what == "drain" else co.Undrain
    fake.do(kind(caller=co.SERVICE, what=f"{node}/{disk}" if disk else node))
    return 200, {"node": node}


def _nodes(fake: Fake, *, params: Any, body: Any) -> tuple[int, Any]:
    return 200, {"nodes": [{"name": name} for name in fake.control.tables.nodes]}


def _give_up(fake: Fake, node: str, *, params: Any, body: Any) -> tuple[int, Any]:
    fake.do(co.Remove(caller=co.SERVICE, what=f"{node}/{params['disk']}" if "disk" in params else node))
    return 200, {"nodes": []}


_ROUTES: dict[str, Callable[..., tuple[int, Any]]] = {
    "POST /v1/nodes/([^/]+)/hello": _hello,
    "GET /v1/nodes": _nodes,
    "GET /v1/nodes/([^/]+)/actions": _actions,
    "POST /v1/nodes/([^/]+)/reports": _reports,
    "POST /v1/nodes/([^/]+)/log": _log,
    "POST /v1/nodes/([^/]+)/(drain|undrain)": _drain,
    "DELETE /v1/nodes/([^/]+)": _give_up,
    "POST /v1/grants": _new,
    "GET /v1/grants": _list,
    "GET /v1/grants/([0-9a-f]+)": _show,
    "GET /v1/grants/([0-9a-f]+)/wait": _wait,
    "GET /v1/grants/([0-9a-f]+)/story": _story,
    "POST /v1/grants/([0-9a-f]+)/release": _release,
    "POST /v1/grants/([0-9a-f]+)/extend": _extend,
}


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    fake: Fake

    def __init__(self, path: str) -> None:
        self.connections: set[socket.socket] = set()
        super().__init__(path, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def end_connections(self) -> None:
        """As the end of a process would."""
        for each in self.connections:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _answer(self) -> None:
        fake, parts = self.server.fake, urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        fault = fake.fault(self.command, parts.path)
        with fake.changed:
            fake.calls.append((self.command, parts.path, body))
            fake.headers.append({name.lower(): value for name, value in self.headers.items()})
            fake.changed.notify_all()
        if fault == "drop":
            self.close_connection = True
            return
        params = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, found = (int(fault), {"error": "so it is"}) if fault.isdigit() else fake.answer(
            self.command, parts.path, params, body
        )  # fmt: skip
        if fault == "lose":
            self.close_connection = True
            return
        text = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            """Whoever asked did not wait."""


@contextmanager
def served(fake: Fake, path: Path) -> Iterator[Address]:
    """The fake listens at `path` meanwhile."""
    path.unlink(missing_ok=True)
    with _Server(str(path)) as server:
        server.fake = fake
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield Address(socket=str(path))
        finally:
            server.shutdown()
            thread.join(60)
            server.end_connections()
