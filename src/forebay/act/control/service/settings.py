"""The service as an administrator describes it, in TOML; examples/serve.toml explains it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from forebay.act.control.api.limits import Limits
from forebay.act.control.api.proxies import Proxies
from forebay.act.forward.net.address import parse_address
from forebay.decide.grants.rules import GrantRules
from forebay.history.store import Store, has_password, resolve_database
from forebay.history.toml import Bytes, Field, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput, why
from forebay.model.units import format_duration

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
    `proxies` are addresses and networks that are believed when they tell for whom they call. `history` is the database
    of past runs that the page shows, `forward` what it shows of the forwarding layer.
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
    proxies: tuple[str, ...] = ()
    history: str = ""
    forward: ForwardSettings = field(default_factory=ForwardSettings)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.socket is None and not self.listen:
            raise BadInput("service", "must listen somewhere: set socket or listen")
        if self.listen:
            self._check_listen()
        if not 0.2 <= self.silent <= 86_400:
            raise BadInput("service.silent", f"must be between 0.2 s and a day, not {format_duration(self.silent)}")
        Proxies(self.proxies)
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
    """Larger requests are split over several disks, all or nothing; 0: none is."""
    tries: int = GrantRules().tries
    """How often a request without space comes again."""
    interval: Seconds = GrantRules().interval
    """Time between its tries."""
    longest: Seconds = GrantRules().longest
    """The longest that a grant may last."""
    ahead: Seconds = GrantRules().ahead
    """How long before its start one may ask for a grant."""
    remember: Seconds = GrantRules().remember
    """How long grants that ended are listed; the journal keeps them for good."""
    most: int = GrantRules().most
    """How many grants a user may hold or have queued at once; 0: any number. Administrators may always."""


class _Limits(Table):
    body: Bytes = float(Limits().body)
    """The most that a caller may send in one call."""
    report: Bytes = float(Limits().report)
    """The most that an agent may."""
    bodies: Bytes = float(Limits().bodies)
    """The most that all together may at the same time."""
    send: Seconds = Limits().send
    """How long it may take until a call has been sent as a whole."""
    take: Seconds = Limits().take
    """How long it may take until an answer has been taken."""
    connections: int = Limits().connections
    """Connections in all; administrators on the socket are always let in."""
    each: int = Limits().each
    """Connections of one user on the socket."""
    host: int = Limits().host
    """Connections of one address; and by TLS those of one caller who has said who it is."""
    waiting: int = Limits().waiting
    """Calls of one caller that wait, or follow the events."""


class _Forward(Table):
    metrics: list[str] = Field(default_factory=list, max_length=1000)
    """HOST:PORT of the metrics of each I/O node and of the council."""
    log: str = ""
    """The file that the council writes its decisions to (`--log`)."""
    state: str = ""
    """The file that keeps what the council learned (`--state`)."""


class _Service(Table):
    socket: str = str(SOCKET)
    """The UNIX socket for users and agents on this machine; the kernel tells who calls. Empty: none."""
    socket_mode: int = Field(default=0o666, ge=0, le=0o777)
    """Who may open the socket; what each may do is another matter."""
    listen: str = ""
    """HOST:PORT for others, by TLS; needs `certificate` and `key`. Empty: none."""
    certificate: str = ""
    """The certificate, a PEM file."""
    key: str = ""
    """Its key, a PEM file of mode 0600."""
    db: str = ""
    """The journal: a path (from this file's folder on), or postgresql://HOST/NAME for several instances.

    Empty: $FOREBAY_DB, or in ~/.local/share.
    """
    policy: str = "forebay"
    """The storage policy of a new journal; later, `forebay storage policy` changes it."""
    shadow: bool = False
    """Decide and record, but have nothing done."""
    silent: Seconds = 60.0
    """A node that is not heard of for so long gets no new grants."""
    administrators: list[int] = Field(default_factory=lambda: [0])
    """The uids of administrators; the service's own user is one, too."""
    checkpoint: int = 20_000
    """After so many events the whole state is kept, so that a start is quick."""
    log: Literal["json", "text"] = "json"
    """The form of the log's lines, which go to stderr."""
    munge: str = ""
    """The socket of MUNGE's daemon, if it is not where it usually is."""
    proxies: list[str] = Field(default_factory=list)
    """Addresses or networks of proxies, which are believed when they tell for whom they call; nobody else is."""
    history: str = ""
    """The database of past runs that the page shows."""
    forward: _Forward = _Forward()
    """What the page shows of the forwarding layer."""
    rules: _Rules = _Rules()
    """The rules of a new journal; later, `forebay storage rules` changes them."""
    limits: _Limits = _Limits()
    """What callers may take of the service, so that nobody can take it from the others."""


def read_service(path: Path | None, changes: dict[str, Any]) -> ServiceSettings:
    """What the file says under [service] (nothing without a file), with what the command line changes."""
    document = {} if path is None else load_toml(path).get("service")
    if document is None:
        raise BadInput(str(path), "has no [service] table")
    where = Path("command line") if path is None else path
    table = validate(where, {"service": {**document, **changes}}, _File).service
    if "db" in changes and has_password(table.db):
        raise BadInput("--db", "all users can see the password in the list of processes; put db into the file")
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
    if path is not None:
        values["history"] = resolve_database(table.history, path, "service.history") or ""
        if "db" not in changes:
            values["db"] = resolve_database(table.db, path, "service.db")
    for name in ("administrators", "proxies"):
        values[name] = tuple(values[name])
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


class _File(Table):
    service: _Service
    """The control service."""
