"""What a decision looks up: the newest runs of an application, and what others did nearby."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.history.store import Store, open_store
from forebay.history.store.past_runs import list_past_runs, list_peer_runs
from forebay.model.past_runs import Peers
from support.examples import examples
from support.made_up_runs import MIB, a_run, fill

RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "app": st.sampled_from(["own", "b", "c"]),
            "nprocs": st.sampled_from([1, 4, 16, 64]),
            "count": st.sampled_from([None, 1, 8]),
            "stripe_size": st.sampled_from([MIB, 4 * MIB]),
            "shared_bytes": st.sampled_from([0, 1000 * MIB]),
            "partial_flag": st.booleans(),
            "perf_by_slowest": st.sampled_from([0.0, 1e8, 3e9]),
        }
    ),
    max_size=25,
)


def test_past_runs_are_the_newest_oldest_first(store: Store) -> None:
    fill(store, [a_run(i, count=1 + i) for i in (3, 1, 4, 0, 2)] + [a_run(9, "other")])
    with store.open_reader() as connection:
        found = list_past_runs(connection, "vpic", limit=3)
        assert [run.count for run in found] == [3, 4, 5]
        assert [run.count for run in list_past_runs(connection, "vpic")] == [1, 2, 3, 4, 5]


def test_an_application_that_nobody_has_seen_has_no_past(store: Store) -> None:
    fill(store, [a_run(0)])
    with store.open_reader() as connection:
        assert list_past_runs(connection, "nobody") == []


def test_past_runs_tell_what_is_not_known_and_what_is_partial(store: Store) -> None:
    fill(store, [a_run(0, count=None, partial_flag=True, common_size=4096, io_procs=3)])
    with store.open_reader() as connection:
        (run,) = list_past_runs(connection, "vpic")
    assert (run.count, run.size, run.partial) == (0, 0, True)
    assert (run.request_size, run.io_processes, run.processes, run.shared_bytes) == (4096, 3, 64, 1000 * MIB)


def test_peers_are_those_of_the_nearest_numbers_of_processes_on_both_sides(store: Store) -> None:
    fill(store, [a_run(i, "other", nprocs=n) for i, n in enumerate((2, 8, 8, 32, 128))])
    with store.open_reader() as connection:
        assert [(p.processes, p.runs) for p in list_peer_runs(connection, "vpic", 16)] == [(8, 2), (32, 1)]
        assert [p.processes for p in list_peer_runs(connection, "vpic", 8)] == [8]
        assert [p.processes for p in list_peer_runs(connection, "vpic", 1)] == [2]
        assert [p.processes for p in list_peer_runs(connection, "vpic", 4096)] == [128]
        assert list_peer_runs(connection, "other", 8) == []


def naive_peers(rows: list[dict[str, Any]], app: str, nprocs: int) -> list[Peers]:
    told = [
        r for r in rows if r["app"] != app and r["file_stripe_count"] and r["perf_by_slowest"] and not r["partial_flag"]
    ]
    below = [r["nprocs"] for r in told if r["nprocs"] <= nprocs]
    above = [r["nprocs"] for r in told if r["nprocs"] >= nprocs]
    near = {*([max(below)] if below else []), *([min(above)] if above else [])}
    groups = defaultdict(list)
    for r in told:
        if r["nprocs"] in near:
            shared = 2 * r["shared_bytes"] > r["total_bytes"]
            groups[r["nprocs"], r["file_stripe_count"], r["stripe_size"], shared].append(r["perf_by_slowest"])
    return [
        Peers(
            processes=key[0],
            count=key[1],
            size=key[2],
            shared_file=key[3],
            runs=len(perf),
            throughput=sum(perf) / len(perf),
        )
        for key, perf in sorted(groups.items())
    ]


@given(kinds=RUNS, nprocs=st.integers(1, 100))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_peers_agree_with_counting_by_hand(kinds: list[dict[str, Any]], nprocs: int) -> None:
    rows = [a_run(i, **kind) for i, kind in enumerate(kinds)]
    with open_store("sqlite://") as store:
        fill(store, rows)
        with store.open_reader() as connection:
            found = list_peer_runs(connection, "own", nprocs)
    expected = naive_peers(rows, "own", nprocs)
    assert [(p.processes, p.count, p.size, p.shared_file, p.runs) for p in found] == [
        (p.processes, p.count, p.size, p.shared_file, p.runs) for p in expected
    ]
    assert [p.throughput for p in found] == pytest.approx([p.throughput for p in expected])
