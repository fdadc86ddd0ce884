"""Sums over all runs, against counting the runs one by one."""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from forebay.history.store import Store
from forebay.history.store.totals import app_count, app_sums, layout_sums, top_apps
from support.made_up_runs import MIB, START, a_run, fill


def many(seed: int = 3, number: int = 120) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    return [
        a_run(
            i,
            pick("vpic", "gcrm", "vorpal"),
            nprocs=pick(1, 8, 64),
            count=pick(None, 1, 1, 24),
            stripe_size=pick(MIB, 8 * MIB),
            partial_flag=pick(False, False, True),
            perf_by_slowest=pick(0.0, 1e8, 2.5e9),
            total_bytes=pick(0, 10**9, 3 * 10**15),
            io_less_1k=int(rng.integers(100)),
        )
        for i in range(number)
    ]


def test_layout_sums_agree_with_the_runs(store: Store) -> None:
    rows = many()
    fill(store, rows)
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        key = (row["stripe_count"] or 0, row["file_stripe_count"] or 0, row["stripe_size"] or 0, row["partial_flag"])
        for i, value in enumerate((1, row["total_bytes"], row["io_less_1k"])):
            expected[key][i] += value
    with store.open_reader() as connection:
        found = layout_sums(connection)
    assert {
        (s.stripe_count, s.file_stripe_count, s.stripe_size, s.partial_flag): [s.runs, s.total_bytes, s.io_less_1k]
        for s in found
    } == expected
    assert all(type(s.total_bytes) is int for s in found)


def test_every_application_with_its_own_numbers_most_run_first(store: Store) -> None:
    rows = many()
    fill(store, rows)
    with store.open_reader() as connection:
        found = app_sums(connection)
        assert app_count(connection) == 3
    assert [a.runs for a in found] == sorted((a.runs for a in found), reverse=True)
    for app in found:
        own = [r for r in rows if r["app"] == app.app]
        whole = [r for r in own if r["perf_by_slowest"] and not r["partial_flag"]]
        best = max(whole, key=lambda r: r["perf_by_slowest"])
        assert (app.runs, app.partial_runs) == (len(own), sum(r["partial_flag"] for r in own))
        assert app.total_bytes == sum(r["total_bytes"] for r in own)
        assert app.mean_perf == pytest.approx(np.mean([r["perf_by_slowest"] for r in whole]))
        assert app.best_perf == best["perf_by_slowest"]  # of one run: that of the best layout may be less on average
        as_good = [r for r in whole if r["perf_by_slowest"] == app.best_perf]
        assert app.best_layout in [(r["nprocs"], r["file_stripe_count"] or 0, r["stripe_size"] or 0) for r in as_good]
        assert app.best_run in [1 + rows.index(r) for r in as_good]
        assert app.nprocs == tuple(sorted({r["nprocs"] for r in own}))
        assert app.last_start_time == max(r["start_time"] for r in own)


def test_an_application_of_partial_runs_only_has_no_performance(store: Store) -> None:
    fill(store, [a_run(0, partial_flag=True)])
    with store.open_reader() as connection:
        (app,) = app_sums(connection)
    assert (app.mean_perf, app.best_perf, app.best_layout, app.partial_runs) == (None, None, None, 1)
    assert app.last_start_time == START


def test_top_applications_by_runs_and_by_bytes_ties_by_name(store: Store) -> None:
    rows = [a_run(i, "often", total_bytes=10) for i in range(3)]
    rows += [a_run(9, "large", total_bytes=10**15), a_run(8, "also", total_bytes=5)]
    fill(store, rows)
    with store.open_reader() as connection:
        assert top_apps(connection, "runs", 10) == [("often", 3, 30), ("also", 1, 5), ("large", 1, 10**15)]
        assert [name for name, *_ in top_apps(connection, "total_bytes", 2)] == ["large", "often"]
