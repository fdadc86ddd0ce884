"""The database that holds the history: a SQLite file, or PostgreSQL for many machines.

Only one writer at a time has a transaction open (`BEGIN IMMEDIATE`, or an advisory lock), so the rows that it read are
still current when it commits. Readers never wait.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from forebay.history.regular_files import check_regular
from forebay.history.store import schema
from forebay.history.store.schema import VERSION, meta, metadata
from forebay.model.errors import BadInput, name_errors, why

WAIT = 20.0
"""Seconds to wait for another writer; one batch of an ingest takes a fraction of a second."""
_LOCK = 0x666F7265  # the advisory lock that all of Forebay's writers share on PostgreSQL

_REASONS = {
    "database is locked": f"is locked: another process has been writing for {WAIT:.0f} s; try again later",
    "lock timeout": f"is locked: another process has been writing for {WAIT:.0f} s; try again later",
    "readonly database": "is read-only",
    "read-only": "is read-only",
    "not a database": "is not a SQLite database",
    "malformed": "is damaged; `sqlite3 FILE .recover` may rescue its contents",
    "unable to open database file": "cannot be opened; check the permissions of the file and its folder",
    "disk is full": "the disk is full; free some space",
    "No space left on device": "the disk is full; free some space",
    "disk I/O error": "disk I/O error",
    "permission denied": "permission denied",
}


class Store(AbstractContextManager["Store"]):
    """An open history. `where` is its address without the password."""

    def __init__(self, engine: Engine, where: str) -> None:
        self._engine = engine
        self.where = where
        self.is_sqlite = engine.dialect.name == "sqlite"

    @contextmanager
    def open_reader(self) -> Iterator[Connection]:
        """Open a connection that sees one snapshot of the history."""
        with self._translated_errors(), self._engine.connect() as connection, connection.begin():
            if not self.is_sqlite:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    @contextmanager
    def open_writer(self) -> Iterator[Connection]:
        """Open a connection as the only writer. It commits at the end, or rolls back after an error."""
        with (
            self._translated_errors(),
            self._engine.connect().execution_options(writing=True) as connection,
            connection.begin(),
        ):
            if not self.is_sqlite:
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {int(WAIT * 1000)}")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield connection

    def write_ahead(self) -> None:
        """Let readers read during a write, permanently (SQLite only)."""
        with self._translated_errors(), closing(self._engine.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA journal_mode = WAL")  # not possible inside a transaction

    def make_durable(self) -> None:
        """Make later commits survive a power failure (SQLite only; on PostgreSQL they always do)."""
        if self.is_sqlite:
            event.listen(self._engine, "connect", lambda new, _record: new.execute("PRAGMA synchronous = FULL"))
            self._engine.dispose()  # so that existing connections are opened again

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Turn database errors into one line. Code that uses the driver directly raises the driver's own errors."""
        driver: Any = self._engine.dialect.loaded_dbapi
        try:
            yield
        except (DBAPIError, driver.Error) as error:
            original = error.orig if isinstance(error, DBAPIError) else error
            message = " ".join(str(original).split())
            reason = next((reason for part, reason in _REASONS.items() if part in message), None)
            if reason is None and not self.is_sqlite and isinstance(original, driver.OperationalError):
                reason = f"PostgreSQL does not answer: {message}"
            if reason is None:  # a bug in Forebay
                raise
            raise BadInput(self.where, reason) from None
        except UnicodeEncodeError as error:
            raise BadInput(ascii(error.object), "is not UTF-8, as names in the history must be") from None

    def close(self) -> None:
        self._engine.dispose()

    def __exit__(self, *_: object) -> None:
        self.close()


def default_path() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "forebay" / "history.db"


def has_password(db: str) -> bool:
    """Whether the address of a database contains a password.

    >>> has_password("postgresql://me:secret@host/name"), has_password("postgresql://me@host/name")
    (True, False)
    """
    return "@" in db and ":" in db.partition("://")[2].rpartition("@")[0]


def resolve_database(db: str, file: Path, key: str) -> str | None:
    """The database `db` that a settings file names under `key`, if any. A path is relative to the file's folder."""
    if has_password(db) and file.stat().st_mode & 0o077:
        raise BadInput(f"{file}: {key}", f"has a password, but other users can read the file; run: chmod 600 {file}")
    if not db or "://" in db:
        return db or None
    return str(file.absolute().parent / Path(db).expanduser())


def database_file(url: str, where: str) -> Path | None:
    """The file of a database, if it is one; raise BadInput, which begins with `where`, if the address is not valid."""
    try:
        address = _address(url)
    except BadInput as error:
        raise BadInput(where, error.reason) from None
    return Path(address.database) if _is_sqlite(address) and address.database else None


def open_store(url: str | None = None, *, create: bool = True) -> Store:
    """Open the history at `url`: `sqlite:///path`, a path or `postgresql://…`; if None, at FOREBAY_DB or the default.

    With `create`, a missing history is created. An older schema is migrated.
    """
    address = _address(url or os.environ.get("FOREBAY_DB") or str(default_path()))
    if _is_sqlite(address):
        where = address.database or ":memory:"
        if address.database:
            _check_file(Path(address.database), create)
            address = _as_permitted(address, Path(address.database))
    else:  # without the password, and without the driver's name, which users did not write
        where = address.set(drivername="postgresql").render_as_string(hide_password=True)
    store = Store(_engine(address), where)
    try:
        _migrate(store, create)
    except BaseException:
        store.close()
        raise
    return store


def is_sqlite_file(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _is_sqlite(address: URL) -> bool:
    return address.get_backend_name() == "sqlite"


def _address(url: str) -> URL:
    if "://" not in url:
        return URL.create("sqlite", database=url)
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):  # a malformed address or port
        raise BadInput("--db", "is not a database address; write sqlite:///PATH or postgresql://HOST/NAME") from None
    kind = address.get_backend_name()
    if kind in ("postgresql", "postgres"):  # PostgreSQL's own programs accept both
        return address.set(drivername="postgresql+psycopg")
    if kind != "sqlite":
        raise BadInput("--db", f"does not support {kind!r}; write sqlite:///PATH or postgresql://HOST/NAME")
    return address


def _check_file(path: Path, create: bool) -> None:
    if path.is_dir():
        raise BadInput(str(path), "is a folder; give the path of a file")
    if path.exists():
        with name_errors(path):
            check_regular(path)
        return
    if not create:
        raise BadInput(str(path), "no history here yet; `forebay ingest PATH...` creates one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(str(error.filename), why(error)) from None


def _as_permitted(address: URL, path: Path) -> URL:
    """Open a file without write permission read-only. If SQLite cannot create the file that readers and writers share
    either, no process can write, and SQLite need not watch for writers."""
    folder_allows = os.access(path.parent, os.W_OK)
    if not path.exists() or (os.access(path, os.W_OK) and folder_allows):
        return address
    ahead = path.with_name(path.name + "-wal")
    alone = not folder_allows and not (ahead.exists() and ahead.stat().st_size)
    options = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if alone else {})
    return address.set(database=f"file:{quote(str(path.absolute()))}", query=options)


def _engine(address: URL) -> Engine:
    arguments: dict[str, Any] = {"timeout": WAIT} if _is_sqlite(address) else {"connect_timeout": 5}
    try:
        engine = sa.create_engine(address, connect_args=arguments, pool_pre_ping=not _is_sqlite(address))
    except (ModuleNotFoundError, NoSuchModuleError):
        raise BadInput("--db", "PostgreSQL needs psycopg: pip install 'forebay[postgresql]'") from None
    if _is_sqlite(address):
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        # Otherwise it prints its own line when the server disappears.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions, not the driver
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = NORMAL")  # with WAL, a crash loses no committed batch and corrupts nothing
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA wal_autocheckpoint = 8192")  # 32 MB: less often, and in one go


def _begin_sqlite(connection: Connection) -> None:
    writing = connection.get_execution_options().get("writing")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _migrate(store: Store, create: bool) -> None:
    with store.open_reader() as connection:
        version = _read_version(connection, store.where)
    if version == VERSION:
        return
    if version is None and not create:
        raise BadInput(store.where, "contains no history yet; `forebay ingest PATH...` creates one")
    if store.is_sqlite:
        store.write_ahead()
    with store.open_writer() as connection:
        version = _read_version(connection, store.where)  # another process may have migrated it meanwhile
        if version is None:
            metadata.create_all(connection)
            connection.execute(meta.insert().values(key="schema", value=str(VERSION)))
            return
        for migrate in _MIGRATIONS[version - 1 :]:
            migrate(connection)
        connection.execute(meta.update().where(meta.c.key == "schema").values(value=str(VERSION)))


def _add_journal(connection: Connection) -> None:
    """Version 2: the control service keeps its journal here."""
    tables = [schema.journal, schema.checkpoints, schema.grant_logs, schema.heard, schema.tokens]
    metadata.create_all(connection, tables=tables)


def _add_filesystems(connection: Connection) -> None:
    """Version 3: OSTs, layouts and decisions belong to a file system. Existing rows get an unknown one, and the next
    ingest reads their logs again if these still exist. It uses SQL because `schema` only has the newest tables."""
    metadata.create_all(connection, tables=[schema.filesystems])
    for name in ("migration_3.sql", f"migration_3_{connection.dialect.name}.sql"):
        text = (files("forebay.history.store") / name).read_text()
        for statement in text.split(";\n"):
            if statement:
                connection.exec_driver_sql(statement)


def _add_requests(connection: Connection) -> None:
    """Version 4: separate rows for reads and writes, and an index for each application's fastest run.

    The rows come from the logs, so the next ingest reads these again if they still exist.
    """
    metadata.create_all(connection, tables=[schema.requests])
    next(i for i in schema.runs.indexes if i.name == "runs_by_perf").create(connection, checkfirst=True)
    connection.execute(schema.logs.update().values(mtime_ns=-1))


def _add_file_sizes(connection: Connection) -> None:
    """Version 5: the number of files by size, and the components and the pool of advised layouts.

    The sizes come from the logs, so the next ingest reads these again if they still exist.
    """
    for table, column in (("run_requests", "file_sizes"), ("decisions", "components"), ("decisions", "pool")):
        if column not in {c["name"] for c in sa.inspect(connection).get_columns(table)}:
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column} TEXT")
    connection.execute(schema.logs.update().values(mtime_ns=-1))


def _add_findings(connection: Connection) -> None:
    """Version 6: what is wrong with each run's I/O. The next ingest reads the logs again that still exist."""
    metadata.create_all(connection, tables=[schema.diagnoses, schema.findings])
    connection.execute(schema.logs.update().values(mtime_ns=-1))


_MIGRATIONS = (_add_journal, _add_filesystems, _add_requests, _add_file_sizes, _add_findings)
"""From version 1 to 2 and so on, in the transaction that opens the database."""


def _read_version(connection: Connection, where: str) -> int | None:
    """The schema's version; None for an empty database."""
    inspector = sa.inspect(connection)
    if not inspector.has_table(meta.name):
        if inspector.get_table_names():
            raise BadInput(where, "is a database, but not a Forebay history")
        return None
    text = connection.execute(sa.select(meta.c.value).where(meta.c.key == "schema")).scalar()
    if text is None or not text.isdigit():
        raise BadInput(where, "has no schema version; is it a Forebay history?")
    if int(text) > VERSION:
        raise BadInput(where, f"is from a newer Forebay (schema {text}, this version knows {VERSION}); upgrade Forebay")
    return int(text)
