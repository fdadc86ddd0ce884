"""Whole tables, streamed."""

import pytest

from forebay.history.store import Store
from forebay.history.store.dump import dump_tables
from support.made_up_runs import a_run, fill


def test_every_table_with_its_columns_and_rows_in_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.history.store.dump.AT_ONCE", 2)
    fill(store, [a_run(i, "ab"[i % 2], count=2) for i in range(5)])
    with store.reading() as connection:
        found = {
            d.name: (d.columns, [[tuple(row) for row in part] for part in d.parts]) for d in dump_tables(connection)
        }
    assert list(found) == ["runs", "run_modules", "run_requests", "run_osts", "jobs", "decisions"]
    columns, parts = found["runs"]
    assert [len(part) for part in parts] == [2, 2, 1]
    assert [row[:2] for part in parts for row in part] == [(1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "a")]
    assert (columns["run_id"], columns["app"], columns["perf_by_slowest"]) == ("BIGINT", "VARCHAR", "DOUBLE")
    assert (columns["partial_flag"], columns["stripe_count"]) == ("BOOLEAN", "BIGINT")
    assert "app_id" not in columns
    assert sum(len(part) for part in found["run_osts"][1]) == 10
    assert found["jobs"][1] == []
