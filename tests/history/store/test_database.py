"""Opening, and what stands in the way of it."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from forebay.history.store import Store, database, default_path, open_store
from forebay.history.store.runs import add_runs
from forebay.history.store.schema import VERSION, apps, meta, metadata, runs
from forebay.model.errors import BadInput
from support.history_rows import run_row
from support.stores import PostgreSQL, own_server


def refusal(url: str, *, create: bool = True) -> str:
    with pytest.raises(BadInput) as caught:
        open_store(url, create=create).close()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def tables(store: Store) -> set[str]:
    with store.open_reader() as connection:
        return set(sa.inspect(connection).get_table_names())


def test_a_new_history_has_all_tables_and_its_version(store: Store) -> None:
    assert tables(store) == set(metadata.tables)
    with store.open_reader() as connection:
        assert connection.execute(sa.select(meta.c.value)).scalars().all() == [str(VERSION)]


def test_it_is_found_again(database: str) -> None:
    with open_store(database) as store, store.open_writer() as connection:
        connection.execute(apps.insert().values(app_id=1, app="x"))
    with open_store(database, create=False) as store, store.open_reader() as connection:
        assert connection.execute(sa.select(apps.c.app)).scalars().all() == ["x"]


def test_what_fails_half_way_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.open_writer() as connection:
        connection.execute(apps.insert().values(app_id=1, app="x"))
        _ = 1 / 0
    with store.open_reader() as connection:
        assert connection.execute(sa.select(apps.c.app)).all() == []


def test_a_reader_sees_one_state_while_somebody_writes(database: str) -> None:
    with open_store(database) as one, open_store(database) as other, one.open_reader() as reader:
        assert reader.execute(sa.select(sa.func.count()).select_from(apps)).scalar() == 0
        with other.open_writer() as writer:
            writer.execute(apps.insert().values(app_id=1, app="x"))
        assert reader.execute(sa.select(sa.func.count()).select_from(apps)).scalar() == 0


def test_a_newer_schema_is_refused(database: str) -> None:
    with open_store(database) as store, store.open_writer() as connection:
        connection.execute(meta.update().values(value="99"))
    assert f"is from a newer Forebay (schema 99, this version knows {VERSION})" in refusal(database)


def test_somebody_elses_database_is_refused_and_left_alone(database: str) -> None:
    with open_store(database) as store, store.open_writer() as connection:
        metadata.drop_all(connection)
        connection.exec_driver_sql("CREATE TABLE recipes (name TEXT)")
    assert refusal(database).endswith("is a database, but not a Forebay history")
    if database.startswith("sqlite"):
        with sqlite3.connect(database.removeprefix("sqlite:///")) as found:
            assert found.execute("SELECT name FROM sqlite_master").fetchall() == [("recipes",)]


def test_an_older_schema_is_brought_up_to_date_in_one_go(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(database) as store, store.open_writer() as connection:
        connection.execute(apps.insert().values(app_id=1, app="x"))

    def rename(connection: sa.Connection) -> None:
        connection.execute(apps.update().values(app="y"))

    _pretend_newer(monkeypatch, rename)
    with open_store(database) as store, store.open_reader() as connection:
        assert connection.execute(sa.select(apps.c.app)).scalars().all() == ["y"]
        assert connection.execute(sa.select(meta.c.value)).scalar() == str(VERSION + 1)


def test_a_migration_that_fails_leaves_the_old_schema(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(database).close()

    def fail(connection: sa.Connection) -> None:
        connection.execute(apps.insert().values(app_id=1, app="x"))
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        _pretend_newer(patch, fail)
        with pytest.raises(RuntimeError):
            open_store(database)
    with open_store(database) as store, store.open_reader() as connection:
        assert connection.execute(sa.select(apps.c.app)).all() == []


def _pretend_newer(patch: pytest.MonkeyPatch, step: object) -> None:
    module = sys.modules["forebay.history.store.database"]
    assert len(module._MIGRATIONS) == VERSION - 1
    patch.setattr(module, "VERSION", VERSION + 1)
    patch.setattr(module, "_MIGRATIONS", (*module._MIGRATIONS, step))


def test_a_locked_history_is_said_to_be_locked(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["forebay.history.store.database"], "WAIT", 0.2)
    with open_store(database) as one, open_store(database) as other, one.open_writer():
        with pytest.raises(BadInput, match="is locked: another process has been writing"), other.open_writer():
            pass
        with other.open_reader() as connection:  # who only reads does not wait
            assert connection.execute(sa.select(apps)).all() == []


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("this is a text, and no database. " * 99)
    assert refusal(str(path)) == f"{path}: is not a SQLite database"
    assert refusal(str(tmp_path)) == f"{tmp_path}: is a folder; give the path of a file"


def test_a_history_that_is_not_there_is_only_made_on_purpose(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.db"
    assert "no history here yet; `forebay ingest PATH...` creates one" in refusal(f"sqlite:///{path}", create=False)
    assert not path.parent.exists()
    open_store(f"sqlite:///{path}").close()
    assert path.exists()


READ_THEN_WRITE = """
import sys, sqlalchemy as sa
from forebay.history.store import open_store
from forebay.history.store.schema import apps
from forebay.model.errors import BadInput
with open_store(sys.argv[1], create=False) as store:
    with store.open_reader() as connection:
        print(connection.execute(sa.select(apps.c.app)).scalars().all())
    try:
        with store.open_writer() as connection:
            connection.execute(apps.insert().values(app_id=2, app="y"))
    except BadInput as error:
        print(error.reason)
"""


@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
def test_another_user_can_read_a_history_but_not_write_it(tmp_path: Path, folder_mode: int) -> None:
    folder = Path(tempfile.mkdtemp())
    path = folder / "x.db"
    with open_store(str(path)) as store, store.open_writer() as connection:
        connection.execute(apps.insert().values(app_id=1, app="x"))
    path.chmod(0o444)
    folder.chmod(folder_mode)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
    command = [*as_nobody, sys.executable, "-c", READ_THEN_WRITE, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/", env={"HOME": str(tmp_path)})
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    if "No module named" in done.stderr or "Permission denied" in done.stderr:
        pytest.skip("another user can't reach this Python")
    assert done.stdout.splitlines() == ["['x']", "is read-only"]


@pytest.mark.parametrize("url", ["mysql://h/x", "oracle://h/x", "postgresql://h:port/x", "://"])
def test_other_databases_are_refused(url: str) -> None:
    assert "write sqlite:///PATH or postgresql://HOST/NAME" in refusal(url)


def test_a_postgresql_that_is_away_is_one_line_without_the_password(tmp_path: Path) -> None:
    said = refusal(f"postgresql://me:secret@/x?host={tmp_path}")
    assert "PostgreSQL does not answer" in said
    assert "secret" not in said


@pytest.mark.parametrize("manner", ["fast", "immediate"])
def test_a_postgresql_that_ends_in_the_middle_is_one_line_and_what_was_written_holds(manner: str) -> None:
    with own_server() as server, open_store(server.new_database()) as store:
        with store.open_writer() as connection:
            add_runs(connection, [run_row("before")])
        with pytest.raises(BadInput, match="PostgreSQL does not answer") as caught, store.open_writer() as connection:
            add_runs(connection, [run_row("lost")])
            server.stop(manner)
            connection.execute(sa.select(runs))
        assert "\n" not in str(caught.value)
        server.go_on()
        with store.open_reader() as connection:
            assert connection.execute(sa.select(runs.c.run_key)).scalars().all() == ["before"]


def test_a_postgresql_that_ends_while_rows_are_copied_is_one_line() -> None:
    with own_server() as server, open_store(server.new_database()) as store:
        with pytest.raises(BadInput, match="PostgreSQL does not answer"), store.open_writer() as connection:
            psycopg: Any = connection.connection.driver_connection
            with psycopg.cursor() as cursor, cursor.copy("COPY apps (app_id, app) FROM STDIN") as copy:
                server.stop()
                for number in range(100_000):
                    copy.write_row((number, "x" * 100))
        server.go_on()


def test_a_name_that_is_not_utf8_is_one_line(store: Store) -> None:
    with pytest.raises(BadInput, match="is not UTF-8") as caught, store.open_reader() as connection:
        connection.execute(sa.select(apps).where(apps.c.app == "\udcff"))
    assert str(caught.value).isascii()


def test_a_postgresql_database_that_does_not_exist_is_one_line(postgresql: PostgreSQL) -> None:
    assert 'database "nowhere" does not exist' in refusal(postgresql.address("nowhere"))


def test_the_default_place_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "forebay" / "history.db"
    open_store().close()
    assert default_path().exists()
    monkeypatch.setenv("FOREBAY_DB", f"sqlite:///{tmp_path / 'other.db'}")
    with open_store() as store:
        assert store.where == str(tmp_path / "other.db")


def test_waiting_is_longer_than_any_batch_takes() -> None:
    assert database.WAIT >= 10
