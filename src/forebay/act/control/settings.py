"""The service as an administrator describes it, in TOML; examples/serve.toml explains it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from forebay.act.control.api_limits import Limits
from forebay.act.forward.net.address import parse_address
from forebay.decide.grants.rules import GrantRules
from forebay.history.store import Store
from forebay.history.toml import Bytes, Field, Seconds, Table, checked, load
from forebay.model.errors import BadInput, why

SOCKET = Path("/run/forebay/service.sock")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardSettings:
    """Where the page learns of the forwarding layer: addresses of metrics, and the council's log and memory."""

    metrics: tuple[str, ...] = ()
    log: Path | None = None
    state: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Where it listens, where it keeps its journal, and how it begins; durations in seconds.

    `listen` is HOST:PORT ("" for none) and needs a certificate and its key. `silent` is after how long a node that
    does not answer gets no new grants. `administrators` are uids besides the service's own. Every `checkpoint`
    events the whole state is kept. `munge` is the socket of the MUNGE daemon, if it is not where it usually is.
    `history` is the database of past runs that the page shows, `forward` what it shows of the forwarding layer.
    """

    socket: Path | None = SOCKET
    socket_mode: int = 0o666
    listen: str = ""
    certificate: Path | None = None
    key: Path | None = None
    db: str | None = None
    policy: str = "forebay"
    rules: GrantRules = field(default_factory=GrantRules)
    silent: float = 60.0
    administrators: tuple[int, ...] = (0,)
    checkpoint: int = 20_000
    log: Literal["json", "text"] = "json"
    munge: Path | None = None
    history: str = ""
    forward: ForwardSettings = field(default_factory=ForwardSettings)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.socket is None and not self.listen:
            raise BadInput("service", "must listen somewhere: set socket or listen")
        if self.listen:
            self._check_listen()
        if not 0.2 <= self.silent <= 86_400:
            raise BadInput("service.silent", f"must be between 0.2 s and a day, not {self.silent:g} s")
        if self.checkpoint < 1:
            raise BadInput("service.checkpoint", f"must be at least 1, not {self.checkpoint}")

    def _check_listen(self) -> None:
        if parse_address(self.listen, "service.listen").path:
            raise BadInput("service.listen", f"must be HOST:PORT, not {self.listen!r}")
        if self.certificate is None or self.key is None:
            raise BadInput("service.listen", "needs TLS: set certificate and key, each a PEM file")
        for path in (self.certificate, self.key):
            if not path.is_file():
                raise BadInput(str(path), "there is no such file")
        if self.key.stat().st_mode & 0o077:
            raise BadInput(str(self.key), f"others may read the key; do: chmod 600 {self.key}")


class _Rules(Table):
    split: Bytes = float(GrantRules().split)
    tries: int = GrantRules().tries
    interval: Seconds = GrantRules().interval
    longest: Seconds = GrantRules().longest
    ahead: Seconds = GrantRules().ahead
    remember: Seconds = GrantRules().remember


class _Limits(Table):
    body: Bytes = float(Limits().body)
    report: Bytes = float(Limits().report)
    bodies: Bytes = float(Limits().bodies)
    send: Seconds = Limits().send
    take: Seconds = Limits().take
    connections: int = Limits().connections
    each: int = Limits().each
    host: int = Limits().host
    waiting: int = Limits().waiting


class _Forward(Table):
    metrics: list[str] = Field(default_factory=list, max_length=1000)
    log: str = ""
    state: str = ""


class _Service(Table):
    socket: str = str(SOCKET)
    socket_mode: int = Field(default=0o666, ge=0, le=0o777)
    listen: str = ""
    certificate: str = ""
    key: str = ""
    db: str = ""
    policy: str = "forebay"
    shadow: bool = False
    silent: Seconds = 60.0
    administrators: list[int] = Field(default_factory=lambda: [0])
    checkpoint: int = 20_000
    log: Literal["json", "text"] = "json"
    munge: str = ""
    history: str = ""
    forward: _Forward = _Forward()
    rules: _Rules = _Rules()
    limits: _Limits = _Limits()


def read_service(path: Path | None, changes: dict[str, Any]) -> ServiceSettings:
    """What the file says under [service] (nothing without a file), with what the command line changes."""
    document = {} if path is None else load(path).get("service")
    if document is None:
        raise BadInput(str(path), "has no [service] table")
    where = Path("command line") if path is None else path
    table = checked(where, {"service": {**document, **changes}}, _File).service
    if "db" in changes and _has_password(table.db):
        raise BadInput("--db", "all users can see the password in the list of processes; put db into the file")
    if path is not None:
        _check_secret(path, table.db)
    folder = Path.cwd() if path is None else path.absolute().parent
    values = table.model_dump()
    shadow = values.pop("shadow")
    rules = values.pop("rules")
    values["rules"] = GrantRules(**{**rules, "split": int(rules["split"])}, shadow=shadow)
    sizes = ("body", "report", "bodies")
    limits = {name: int(value) if name in sizes else value for name, value in values["limits"].items()}
    values["limits"] = Limits(**limits)
    for name in ("socket", "certificate", "key", "munge"):
        values[name] = folder / os.path.expanduser(values[name]) if values[name] else None  # noqa: PTH111
    forward = values["forward"]
    places = {name: folder / Path(forward[name]).expanduser() if forward[name] else None for name in ("log", "state")}
    values["forward"] = ForwardSettings(metrics=tuple(forward["metrics"]), **places)
    values["db"] = values["db"] or None
    values["administrators"] = tuple(values["administrators"])
    return ServiceSettings(**values)


@contextmanager
def privately() -> Iterator[None]:
    """Files that are made meanwhile are ours alone: the store has the secret of which all keys are made."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def keep_private(store: Store) -> None:
    """Nobody else may read a file that was there before, either."""
    path = Path(store.where)
    if not store.is_sqlite or not path.is_file():
        return
    try:
        for file in (path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))):
            if file.exists() and file.stat().st_mode & 0o077:
                file.chmod(0o600)
    except OSError as error:
        raise BadInput(store.where, f"others may read it, and that can't be changed: {why(error)}") from None


def _check_secret(path: Path, db: str) -> None:
    """A password is nobody else's business."""
    if _has_password(db) and path.stat().st_mode & 0o077:
        raise BadInput(f"{path}: service.db", f"has a password, and others may read the file; do: chmod 600 {path}")


def _has_password(db: str) -> bool:
    return "@" in db and ":" in db.partition("://")[2].rpartition("@")[0]


class _File(Table):
    service: _Service
