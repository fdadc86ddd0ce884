"""Runs in the store, and the sums over them, against plain Python."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.history.sacct import read_sacct
from forebay.history.store import Store, open_store
from forebay.history.store.jobs import add_jobs
from forebay.history.store.running_jobs import jobs_by_target, release_targets, take_targets
from forebay.history.store.runs import add_runs, remove_runs
from forebay.history.store.schema import apps, jobs, modules, osts, runs, totals
from forebay.model.errors import BadInput
from support.examples import examples
from support.history_rows import ost_columns, run_row

ROWS = st.builds(
    lambda key, app, procs, stripes, perf, moved, shared, partial: run_row(
        f"k{key}",
        f"app{app}",
        nprocs=procs,
        stripe_count=stripes,
        file_stripe_count=stripes,
        stripe_size=stripes and 1 << 20,
        perf_by_slowest=perf,
        total_bytes=moved,
        shared_bytes=moved if shared else 0,
        partial_flag=partial,
        read_requests=moved % 7,
        osts=ost_columns(*({"ost": o} for o in range(stripes or 0))),
    ),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from([1, 4]),
    st.sampled_from([None, 1, 3]),
    st.floats(0, 1e12),
    st.integers(0, 2**50),
    st.booleans(),
    st.booleans(),
)
STEPS = st.lists(st.one_of(st.lists(ROWS, max_size=5), st.lists(st.integers(0, 9).map("k{}".format), max_size=3)))


def naive_totals(kept: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    sums: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for r in kept:
        kind = (
            r["app"],
            r["nprocs"],
            r["stripe_count"] or 0,
            2 * r["shared_bytes"] > r["total_bytes"],
            r["partial_flag"],
        )
        timed = r["perf_by_slowest"] > 0
        values = (1, int(timed), round(r["perf_by_slowest"]), r["total_bytes"], r["read_requests"])
        sums[kind] = [a + b for a, b in zip(sums[kind], values, strict=True)]
    return {kind: tuple(values) for kind, values in sums.items()}


def stored_totals(connection: sa.Connection) -> dict[tuple[Any, ...], tuple[int, ...]]:
    query = sa.select(
        apps.c.app, totals.c.nprocs, totals.c.stripe_count, totals.c.shared_file, totals.c.partial_flag,
        totals.c.runs, totals.c.timed_runs, totals.c.perf_by_slowest, totals.c.total_bytes, totals.c.requests,
    ).join_from(totals, apps)  # fmt: skip
    return {tuple(row)[:5]: tuple(row)[5:] for row in connection.execute(query)}


@settings(max_examples=examples(40))
@given(steps=STEPS)
def test_sums_are_exact_whatever_is_put_in_replaced_and_taken_out(steps: list[list[Any]]) -> None:
    kept: dict[str, dict[str, Any]] = {}
    with open_store("sqlite://") as store, store.open_writer() as connection:
        for step in steps:
            if step and isinstance(step[0], str):
                remove_runs(connection, step)
                kept = {key: row for key, row in kept.items() if key not in step}
            else:
                add_runs(connection, step)
                kept |= {row["run_key"]: row for row in step}
        assert stored_totals(connection) == naive_totals(list(kept.values()))
        assert set(connection.execute(sa.select(runs.c.run_key)).scalars()) == set(kept)
        expected = Counter(key for key, row in kept.items() for _ in row["osts"].get("ost", ()))
        found = connection.execute(sa.select(runs.c.run_key).join_from(osts, runs)).scalars()
        assert Counter(found) == expected


def test_a_run_keeps_its_number_when_it_is_replaced(store: Store) -> None:
    with store.open_writer() as connection:
        add_runs(connection, [run_row("a"), run_row("b")])
        add_runs(connection, [run_row("c"), run_row("a", total_bytes=5, module_rows=[module_row()])])
        found = connection.execute(sa.select(runs.c.run_key, runs.c.run_id, runs.c.total_bytes)).all()
        assert sorted(map(tuple, found)) == [("a", 1, 5), ("b", 2, 0), ("c", 3, 0)]
        assert connection.execute(sa.select(modules.c.run_id)).scalars().all() == [1]


def module_row() -> dict[str, Any]:
    names = ("total_bytes", "bytes_read", "bytes_written", "time_by_slowest", "perf_by_slowest", "total_files")
    return {"module": "POSIX", "partial_flag": False} | dict.fromkeys(names, 1)


def test_leases_end_by_release_by_time_and_by_asking_again(store: Store) -> None:
    with store.open_writer() as connection:
        take_targets(connection, "fs", "a", [0, 1], until=10, now=0)
        take_targets(connection, "fs", "b", [1, 2], until=20, now=0)
        take_targets(connection, "other", "c", [0], until=20, now=0)
        assert jobs_by_target(connection, "fs", 5) == {0: {"a"}, 1: {"a", "b"}, 2: {"b"}}
        assert jobs_by_target(connection, "fs", 10) == {1: {"b"}, 2: {"b"}}
        take_targets(connection, "fs", "b", [3], until=30, now=5)
        assert jobs_by_target(connection, "fs", 5) == {0: {"a"}, 1: {"a"}, 3: {"b"}}
        assert release_targets(connection, "b") == 1
        assert release_targets(connection, "b") == 0
        assert jobs_by_target(connection, "fs", 5) == {0: {"a"}, 1: {"a"}}


SACCT = """JobIDRaw|JobID|JobName|User|NNodes|Submit|Start|End|State
17|17|vpic|ada|4|2026-01-02T03:04:05|2026-01-02T03:05:05|2026-01-02T04:04:05|COMPLETED
17.batch|17.batch|batch||4|2026-01-02T03:05:05|2026-01-02T03:05:05|2026-01-02T04:04:05|COMPLETED
19|18_1|array|jo|1|1700000000|Unknown|Unknown|PENDING
"""


def test_slurms_accounting_is_joined_by_job(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(SACCT)
    with store.open_writer() as connection:
        assert add_jobs(connection, read_sacct(file)) == 2
        file.write_text(SACCT.replace("vpic", "vpic2"))
        add_jobs(connection, read_sacct(file))
        rows = [dict(r) for r in connection.execute(sa.select(jobs).order_by(jobs.c.job_id)).mappings()]
    assert [(r["job_id"], r["job_name"], r["nodes"], r["state"]) for r in rows] == [
        (17, "vpic2", 4, "COMPLETED"),
        (19, "array", 1, "PENDING"),
    ]
    assert rows[0]["job_start_time"] - rows[0]["submit_time"] == 60
    assert (rows[1]["submit_time"], rows[1]["job_start_time"]) == (1700000000.0, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Name|Nodes\nx|1\n", "has no column JobID or JobIDRaw"),
        ("JobID|NNodes\nx|1\n", ":2: JobID: 'x' is not a job id"),
        ("JobID|NNodes\n1|many\n", ":2: NNodes: 'many' is not a number of nodes"),
        ("JobID|Start\n1|yesterday\n", ":2: Start: 'yesterday' is not a time"),
        ("", "has no column"),
    ],
)
def test_what_is_no_accounting_is_refused_with_its_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "jobs.txt"
    file.write_text(text)
    with pytest.raises(BadInput, match=reason):
        list(read_sacct(file))
