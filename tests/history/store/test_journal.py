"""The journal and the tokens in the store."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from forebay.history.store import Store, open_store
from forebay.history.store.journal import (
    Entry,
    LogLine,
    add_log_lines,
    append_entries,
    checkpoints_before,
    compress_state,
    last_heard,
    last_number,
    list_entries,
    list_log_lines,
    read_after,
    read_unseen,
    record_heard,
    save_checkpoint,
)
from forebay.history.store.schema import VERSION, checkpoints, grant_logs, heard, journal, meta, tokens
from forebay.history.store.tokens import Token, digest_token, list_tokens, remove_token, save_token
from forebay.model.errors import BadInput
from support.old_histories import make_version_2

GRANT = "0123456789abcdef" * 2


def entries(first: int, count: int) -> list[Entry]:
    return [
        Entry(number, float(number), GRANT if number % 2 else "", f'{{"n":{number}}}')
        for number in range(first, first + count)
    ]


def test_what_is_appended_is_read_in_its_order(store: Store) -> None:
    with store.open_writer() as connection:
        assert last_number(connection) == 0
        append_entries(connection, entries(1, 3))
        append_entries(connection, [])
        append_entries(connection, entries(4, 4))
    with store.open_reader() as connection:
        assert last_number(connection) == 7
        assert list(read_after(connection, 0)) == entries(1, 7)
        assert list(read_after(connection, 5)) == entries(6, 2)
        assert list(read_after(connection, 2, 2)) == entries(3, 2)
        assert read_unseen(connection, 5) == entries(6, 2)
        assert list_entries(connection, GRANT) == [entry for entry in entries(1, 7) if entry.grant]


def test_a_number_that_is_taken_is_refused_and_nothing_is_written(store: Store) -> None:
    with store.open_writer() as connection:
        append_entries(connection, entries(1, 3))
    with pytest.raises(sa.exc.IntegrityError), store.open_writer() as connection:
        append_entries(connection, entries(3, 3))
    with store.open_reader() as connection:
        assert last_number(connection) == 3


def test_a_journal_with_a_hole_is_told(store: Store) -> None:
    with store.open_writer() as connection:
        append_entries(connection, [*entries(1, 3), *entries(5, 2)])
    with store.open_reader() as connection:
        with pytest.raises(BadInput, match=r"entry 4 is missing \(the next one is 5\)"):
            list(read_after(connection, 0))
        with pytest.raises(BadInput, match=r"entry 4 is missing \(the next one is 5\)"):
            read_unseen(connection, 3)


def test_the_last_two_checkpoints_are_kept_and_a_damaged_one_is_passed_over(store: Store) -> None:
    with store.open_writer() as connection:
        for number in (5, 9, 12):
            save_checkpoint(connection, number, compress_state(f"state {number}"))
        save_checkpoint(connection, 12, compress_state("state 12 again"))
    with store.open_reader() as connection:
        assert list(checkpoints_before(connection, 20)) == [(12, "state 12 again"), (9, "state 9")]
        assert list(checkpoints_before(connection, 11)) == [(9, "state 9")]
    with store.open_writer() as connection:
        connection.execute(checkpoints.update().where(checkpoints.c.number == 12).values(state=b"torn"))
    with store.open_reader() as connection:
        assert list(checkpoints_before(connection, 20)) == [(9, "state 9")]


def test_lines_of_a_grant_are_kept_in_the_order_of_their_arrival(store: Store) -> None:
    lines = [LogLine(GRANT, at, "n1", "info", f"line at {at}") for at in (3.0, 1.0)]
    with store.open_writer() as connection:
        add_log_lines(connection, lines)
        add_log_lines(connection, [LogLine("f" * 32, 2.0, "n2", "error", "of another")])
        add_log_lines(connection, [])
    with store.open_reader() as connection:
        assert list_log_lines(connection, GRANT) == lines


def test_who_was_heard_of_last_counts(store: Store) -> None:
    with store.open_writer() as connection:
        record_heard(connection, {"a": 1.0, "b": 2.0})
        record_heard(connection, {"b": 5.0})
        record_heard(connection, {})
    with store.open_reader() as connection:
        assert last_heard(connection) == {"a": 1.0, "b": 5.0}


def test_a_token_of_the_same_name_is_replaced(store: Store) -> None:
    old, new = (Token(name="n1", digest=digest_token(secret), role="agent", node="n1", made=1.0) for secret in "ab")
    with store.open_writer() as connection:
        assert not save_token(connection, old)
        assert save_token(connection, new)
        assert list_tokens(connection) == [new]
        assert remove_token(connection, "n1")
        assert not remove_token(connection, "n1")


def test_a_database_of_the_first_version_gets_the_tables(database: str) -> None:
    new = [journal, checkpoints, grant_logs, heard, tokens]
    gone = [f"DROP TABLE {table.name}" for table in new]
    make_version_2(database, [*gone, "UPDATE forebay_meta SET value = '1' WHERE key = 'schema'"])
    with open_store(database) as store, store.open_writer() as connection:
        append_entries(connection, entries(1, 2))
        assert {table.name for table in new} <= set(sa.inspect(connection).get_table_names())
        assert connection.execute(sa.select(meta.c.value)).scalar() == str(VERSION)


def test_a_durable_store_waits_for_the_disk(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "journal.db")) as store:
        store.make_durable()
        with store.open_reader() as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
