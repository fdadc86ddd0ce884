"""The settings of the control service: its TOML file, checked. examples/serve.toml explains it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from forebay.act.control.api.proxies import Proxies
from forebay.act.forward.net.address import parse_address
from forebay.decide.grants.grant_limits import GrantRules
from forebay.history.store import Store, database_file, has_password, resolve_database
from forebay.history.toml import BeforeValidator, Bytes, Field, RelativePath, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput, why
from forebay.model.units import format_duration

SOCKET = Path("/run/forebay/service.sock")
OptionalPath = Annotated[Path | None, RelativePath]
_MIB = 1 << 20


def _read_rules(table: object) -> object:
    return GrantRules().change(table, "service.rules") if isinstance(table, dict) else table


Rules = Annotated[GrantRules, BeforeValidator(_read_rules)]


class ForwardSettings(Table):
    metrics: list[str] = Field(default_factory=list, max_length=1000)  #: HOST:PORT of each I/O node and the council.
    log: OptionalPath = None  #: The file to which the council writes its decisions (`--log`).
    state: OptionalPath = None  #: The file that keeps what the council learned (`--state`).


class Limits(Table):
    body: Bytes = float(_MIB)  #: The largest body of a call.
    report: Bytes = 16.0 * _MIB  #: The largest body of an agent's call.
    bodies: Bytes = 128.0 * _MIB  #: The largest total of all bodies under way.
    send: Seconds = 30.0  #: How long a caller may take to send a call.
    take: Seconds = 60.0  #: How long a caller may take to receive an answer.
    connections: int = 4096  #: Connections in all; no limit for administrators on the socket.
    each: int = 64  #: Connections of one user on the socket.
    host: int = 256  #: Connections from one address, and over TLS of one identified caller.
    waiting: int = 64  #: Calls of one caller that wait or follow events.

    def model_post_init(self, _: object) -> None:
        for name in ("body", "report", "bodies", "connections", "each", "host", "waiting"):
            if not 1 <= getattr(self, name) < 2**40:
                raise BadInput(f"limits.{name}", f"must be at least 1, not {getattr(self, name):g}")
        for name in ("send", "take"):
            if not 0.05 <= (seconds := getattr(self, name)) <= 3600:
                raise BadInput(f"limits.{name}", f"must be from 0.05 s to an hour, not {format_duration(seconds)}")

    def body_of(self, path: str) -> float:
        """The largest body for a path. An agent reports all volumes of its disks in one call."""
        return self.report if path.startswith("/v1/nodes/") else self.body


class ServiceSettings(Table):
    socket: OptionalPath = SOCKET  #: The UNIX socket for users and agents on this machine. Empty: none.
    socket_mode: int = Field(default=0o666, ge=0, le=0o777)  #: Who may connect to the socket.
    listen: str = ""  #: HOST:PORT for callers over TLS; needs `certificate` and `key`. Empty: none.
    certificate: OptionalPath = None  #: The certificate, a PEM file.
    key: OptionalPath = None  #: Its key, a PEM file of mode 0600.
    db: str | None = None  #: The journal: a path relative to the file, or postgresql://HOST/NAME; default: $FOREBAY_DB.
    policy: str = "forebay"  #: The storage policy of a new journal; later, `forebay storage policy` changes it.
    shadow: bool = False  #: Decide and record without acting.
    silent: Seconds = 60.0  #: A node whose agent does not call for this long gets no new grants.
    administrators: list[int] = Field(default_factory=lambda: [0])  #: Uids; the service's user is one, too.
    checkpoint: int = 20_000  #: After this many events the service stores its whole state, so that it starts quickly.
    log: Literal["json", "text"] = "json"  #: The format of the log, which goes to stderr.
    munge: OptionalPath = None  #: The socket of MUNGE's daemon, if it is not the usual one.
    proxies: list[str] = Field(default_factory=list)  #: Addresses or networks of proxies that the service trusts.
    history: str = ""  #: The database of past runs that the page shows.
    schedule: OptionalPath = None  #: The plan.json of `forebay schedule`, for the page.
    forward: ForwardSettings = ForwardSettings()  #: What the page shows of the forwarding layer.
    rules: Rules = GrantRules()  #: The rules of a new journal; later, `forebay storage rules` changes them.
    limits: Limits = Limits()  #: Limits that keep one caller from blocking the others.

    def model_post_init(self, _: object) -> None:
        if self.socket is None and not self.listen:
            raise BadInput("service", "has no address to listen on; set socket or listen")
        if self.listen:
            self._check_listen()
        if not 0.2 <= self.silent <= 86_400:
            raise BadInput("service.silent", f"must be between 0.2 s and a day, not {format_duration(self.silent)}")
        if self.checkpoint < 1:
            raise BadInput("service.checkpoint", f"must be at least 1, not {self.checkpoint}")
        Proxies(self.proxies)
        self.rules = replace(self.rules, shadow=self.shadow)

    def _check_listen(self) -> None:
        if parse_address(self.listen, "service.listen").path:
            raise BadInput("service.listen", f"must be HOST:PORT, not {self.listen!r}")
        if self.certificate is None or self.key is None:
            raise BadInput("service.listen", "needs TLS: set certificate and key, each a PEM file")
        for path in (self.certificate, self.key):
            if not path.is_file():
                raise BadInput(str(path), "no such file; set certificate and key to PEM files")
        if self.key.stat().st_mode & 0o077:
            raise BadInput(str(self.key), f"others can read the key; run: chmod 600 {self.key}")


class _File(Table):
    service: ServiceSettings  #: The control service.


def read_service(path: Path | None, changes: Mapping[str, object]) -> ServiceSettings:
    """The table [service] of the file, or the defaults without a file, with the changes of the command line."""
    document = {} if path is None else load_toml(path).get("service")
    if document is None:
        raise BadInput(str(path), "has no [service] table; see examples/serve.toml")
    settings = validate(path or Path("command line"), {"service": {**document, **changes}}, _File).service
    if "db" in changes and has_password(str(settings.db)):
        raise BadInput("--db", "all users can see the password in the process list; set db in the settings file")
    if path is None:
        return settings
    settings.history = resolve_database(settings.history, path, "service.history") or ""
    if "db" not in changes:
        settings.db = resolve_database(settings.db or "", path, "service.db")
    return settings


def check_places(settings: ServiceSettings) -> None:
    """Check, without changing anything, that the databases, sockets and files that the settings name can be used."""
    for key, url in (("service.db", settings.db or ""), ("service.history", settings.history)):
        if (path := database_file(url, key)) is not None:
            _check_file(path, key, is_written=key == "service.db")
    if settings.munge is not None and not settings.munge.is_socket():
        raise BadInput("service.munge", f"no socket at {settings.munge}; start munged, or name its socket")
    if settings.schedule is not None:
        _check_file(settings.schedule, "service.schedule", is_written=True)


def _check_file(path: Path, key: str, *, is_written: bool) -> None:
    """Check that the file exists, or, if it `is_written` later, that it can be created."""
    if path.is_dir():
        raise BadInput(key, f"{path} is a folder; give the path of a file")
    if path.exists():
        return
    if not is_written:
        raise BadInput(key, f"no such file: {path}; `forebay ingest --db {path} PATH...` creates it")
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(key, f"{path} cannot be created: {folder} is not a folder that you can write to")


@contextmanager
def private_files() -> Iterator[None]:
    """Create files that only their owner can read: the store contains the secret of all volume keys."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def make_private(store: Store) -> None:
    path = Path(store.where)
    if not store.is_sqlite or not path.is_file():
        return
    try:
        for file in (path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))):
            if file.exists() and file.stat().st_mode & 0o077:
                file.chmod(0o600)
    except OSError as error:
        raise BadInput(store.where, f"other users can read it, and its mode cannot be changed: {why(error)}") from None
