from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.council_payloads import SIZE_BINS, JobPart, JobReport
from forebay.act.forward.net.wire import BadMessage, pack, unpack_as
from forebay.act.forward.node.connected_jobs import Jobs, identify_process, job_number
from forebay.act.forward.node.job_accounting import JobProcess, begin_request, end_request
from forebay.act.forward.node.job_history import store_parts
from forebay.history.store import open_store
from forebay.history.store.listing import list_runs, read_run
from forebay.model.layout import Layout

LAYOUT = Layout(count=4, size=64 << 10, start=1)
SECOND = 10**9
REQUEST = st.tuples(
    st.integers(0, 2), st.integers(0, 1 << 40), st.sampled_from((1, 100, 101, 1024, 1025, 65536, 4 << 20)),
    st.integers(0, 1),
)  # fmt: skip


def peer(process: str = "a", **facts: Any) -> Peer:
    return Peer(role="client", name=process, facts={"application": "app", "uid": 5} | facts)


def client(**facts: Any) -> JobProcess:
    return Jobs("node").enter(peer(**facts), 0)


def begin(process: JobProcess, now: int, file: int, offset: int, size: int, write: int) -> None:
    begin_request(process.uses, process.times, now, process.rows[file], offset, size, write)


def end(process: JobProcess, now: int, began: int, write: int) -> None:
    end_request(process.times, now, began, write)


def part_of(requests: list[tuple[int, int, int, int]]) -> JobPart:
    made = client(job="1")
    for file in range(3):
        made.add_file(file, 100 + file, LAYOUT)
    for file, offset, size, write in requests:
        begin(made, SECOND, file, offset, size, write)
        end(made, 3 * SECOND, SECOND, write)
    part = made.summary()
    assert part is not None
    return part


@given(st.lists(REQUEST, min_size=1, max_size=30))
def test_counts_are_those_of_a_plain_count(requests: list[tuple[int, int, int, int]]) -> None:
    part = part_of(requests)
    edges = [100, 1024, 10240, 102400, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30]
    for write, name in ((0, "read"), (1, "write")):
        sizes = [size for _, _, size, w in requests if w == write]
        assert getattr(part, f"{name}s") == len(sizes)
        assert (part.bytes_written if write else part.bytes_read) == sum(sizes)
        binned = Counter(int(np.searchsorted(edges, size)) for size in sizes)
        assert getattr(part, f"{name}_sizes") == [binned[i] for i in range(SIZE_BINS)]
    ends: dict[int, int] = {}
    in_order = behind = unaligned = 0
    for file, offset, size, _ in requests:
        in_order += file in ends and offset >= ends[file]
        behind += ends.get(file) == offset
        unaligned += offset % LAYOUT.size > 0
        ends[file] = offset + size
    assert (part.seq, part.consec, part.unaligned) == (in_order, behind, unaligned)
    assert {file: moved for file, _, moved, _ in part.files} == {
        100 + file: sum(size for f, _, size, _ in requests if f == file) for file in ends
    }
    assert unpack_as(JobPart, pack(part)) == part


def test_the_time_of_requests_that_overlap_counts_once() -> None:
    made = client()
    made.add_file(0, 1, LAYOUT)
    begin(made, 0, 0, 0, 10, 1)
    begin(made, 1 * SECOND, 0, 10, 10, 1)
    end(made, 2 * SECOND, 0, 1)
    end(made, 4 * SECOND, 1 * SECOND, 1)
    begin(made, 9 * SECOND, 0, 10, 10, 0)
    end(made, 10 * SECOND, 9 * SECOND, 0)
    part = made.summary()
    assert part is not None
    assert (part.busy, part.write_time, part.read_time) == (5.0, 5.0, 1.0)


def test_a_process_that_did_nothing_leaves_nothing() -> None:
    made = client()
    made.add_file(0, 1, LAYOUT)
    assert made.summary() is None


def test_a_jobs_parts_come_when_its_last_connection_goes() -> None:
    jobs = Jobs("node")
    first, again, other = (jobs.enter(peer(name, job="9"), 0) for name in ("a", "a", "b"))
    assert first is again
    for made in (first, other):
        made.add_file(0, 1, LAYOUT)
        begin(made, 0, 0, 0, 10, 1)
        end(made, 1, 0, 1)
    assert jobs.leave(first) == []
    assert jobs.leave(other) == []
    parts = jobs.leave(again)
    assert [part.process for part in parts] == ["b", "a"]
    assert len({part.token for part in parts}) == 2
    assert not jobs._processes


def test_processes_without_a_job_are_one_as_long_as_one_is_there() -> None:
    jobs = Jobs("node")
    first = jobs.enter(peer("a"), 0)
    second = jobs.enter(peer("b"), 0)
    assert first.job == second.job
    jobs.leave(first)
    jobs.leave(second)
    assert jobs.enter(peer("a"), 0).job != first.job
    assert Jobs("another node").enter(peer("a"), 0).job != first.job


@pytest.mark.parametrize("facts", [{}, {"application": 5, "uid": -1, "job": [], "processes": "many", "user": b"x"}])
def test_facts_that_make_no_sense_are_not_believed(facts: dict[str, Any]) -> None:
    found = identify_process(Peer(role="client", name="p", facts=facts), 0)
    assert (found.app, found.uid, found.job, found.processes, found.user) == ("unknown", 0, 0, 1, None)


def test_a_jobs_name_is_always_the_same_number() -> None:
    assert job_number("a name") == job_number("a name") != job_number("another")
    assert 0 <= job_number("9" * 30) < 1 << 62


def made_part(token: str, process: str, moved: int, *, job: int = 7, files: tuple[int, ...] = (1,)) -> JobPart:
    made = client(job=str(job), processes=4)
    for number, file in enumerate(files):
        made.add_file(number, file, LAYOUT)
        begin(made, 0, number, 0, moved, 1)
        end(made, SECOND, 0, 1)
    part = made.summary()
    assert part is not None
    part.token, part.process = token, process
    return part


def test_all_processes_of_a_job_are_one_run_whichever_nodes_they_used(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "h.db")) as store:
        store_parts(store, [made_part("n0/1", "a", 1 << 20), made_part("n0/2", "b", 2 << 20)])
        store_parts(store, [made_part("n1/1", "c", 4 << 20)])
        store_parts(store, [made_part("n0/1", "a", 1 << 20)])  # told twice
        with store.open_reader() as connection:
            (run,) = list_runs(connection)
            whole = read_run(connection, run["run_id"])["run"]
    assert (run["app"], run["job_id"], run["nprocs"], run["total_bytes"]) == ("app", 7, 4, 7 << 20)
    assert (whole["io_procs"], whole["shared_files"], whole["shared_bytes"]) == (3, 1, 7 << 20)
    assert (whole["stripe_size"], whole["file_stripe_count"], whole["stripe_offset"]) == (64 << 10, 4, 1)
    assert whole["filesystem"] == "forward"  # whose servers are no OSTs of another
    assert whole["time_by_slowest"] == 1.0
    assert whole["perf_by_slowest"] == 7 << 20


def test_other_jobs_are_other_runs(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "h.db")) as store:
        store_parts(store, [made_part("n/1", "a", 10, job=1), made_part("n/2", "a", 10, job=2, files=(5, 6))])
        with store.open_reader() as connection:
            found = {run["job_id"]: run["total_bytes"] for run in list_runs(connection)}
    assert found == {1: 10, 2: 20}


@pytest.mark.parametrize(
    ("key", "value"),
    [("reads", -1), ("app", 5), ("busy", float("nan")), ("files", [[1, [0, 5, 0], 1, 1]]), ("read_sizes", [1] * 9)],
)
def test_a_record_that_can_not_be_is_refused_whole(tmp_path: Path, key: str, value: object) -> None:
    with open_store(str(tmp_path / "h.db")) as store:
        parts = [made_part("n/1", "a", 10), made_part("n/2", "b", 10)]
        report = unpack_as(dict[str, Any], pack(JobReport(parts=parts)))
        report["parts"][1][key] = value
        with pytest.raises(BadMessage, match=key):
            store_parts(store, unpack_as(JobReport, pack(report)).parts)
        with store.open_reader() as connection:
            assert list(list_runs(connection)) == []
