"""A truth table: runs whose requests are known, and what is told of them from their logs alone."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from forebay.history.darshan.ingest_worker import read_one
from forebay.history.darshan.log import counter_columns
from forebay.history.darshan.summary import read_log
from forebay.history.store import open_store
from forebay.history.store.ingested_logs import find_unchanged, record_logs
from forebay.history.store.past_runs import Behaviour, RequestTotals, list_behaviours
from forebay.history.store.runs import add_runs
from forebay.history.store.schema import meta, requests, runs
from forebay.profile.access_pattern import Pattern, pattern_of
from forebay.profile.application import measures_of
from support.darshan_runs import STDOUT, Handle, posix_records, record, write_log

KIB, MIB = 1 << 10, 1 << 20
PROCESSES, REQUESTS = 4, 32
ORDERS = ("contiguous", "strided", "random")
Files = dict[tuple[int, int], Handle]


def offsets(order: str, rank: int, shared: bool, size: int, seed: int = 0) -> list[int]:
    """Where process `rank` reads or writes, as IOR does it: a block each, turn by turn, or all over the file."""
    if order == "contiguous":
        first = rank * REQUESTS * size if shared else 0
        return [first + i * size for i in range(REQUESTS)]
    if order == "strided":
        return [(i * PROCESSES + (rank if shared else 0)) * size for i in range(REQUESTS)]
    places = list(range(PROCESSES * REQUESTS if shared else REQUESTS))
    random.Random(seed if shared else seed + rank).shuffle(places)
    return [place * size for place in (places[rank::PROCESSES] if shared else places)]


def access(files: Files, verb: str, order: str, *, shared: bool, size: int, first_file: int = 100) -> None:
    for rank in range(PROCESSES):
        handle = files[first_file if shared else first_file + rank, rank]
        handle.open()
        for offset in offsets(order, rank, shared, size):
            getattr(handle, verb)(offset, size)


def told(path: Path, nprocs: int, files: Files, calls: Any = (), streams: Any = ()) -> Pattern:
    row = read_log(write_log(path / "a.darshan", nprocs, files, calls, streams)).row
    apart = {
        f"{part['operation']}s": RequestTotals(**{name: part[name] for name in RequestTotals._fields})
        for part in row["request_rows"]
    }
    known = row | apart | {"run_id": 1}
    return pattern_of([Behaviour(**{name: known[name] for name in Behaviour.__slots__})])


@pytest.mark.parametrize("size", [4 * KIB, 8 * MIB])
@pytest.mark.parametrize("shared", [False, True], ids=["file per process", "shared file"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("verb", ["read", "write"])
def test_sharing_order_and_size(tmp_path: Path, verb: str, order: str, shared: bool, size: int) -> None:
    files: Files = defaultdict(Handle)
    access(files, verb, order, shared=shared, size=size)
    found = told(tmp_path, PROCESSES, files)
    done, other = (found.reads, found.writes) if verb == "read" else (found.writes, found.reads)
    assert other is None
    assert done is not None
    assert (done.sharing, done.order) == ("shared file" if shared else "file per process", order)
    assert (done.common_size, done.mean_size, done.total_bytes) == (size, size, size * PROCESSES * REQUESTS)
    assert (done.calls, done.collective) == ("none", None)
    assert (found.sharing, found.order) == (done.sharing, done.order)


@pytest.mark.parametrize("same_file", [False, True])
@pytest.mark.parametrize("reading", ORDERS)
@pytest.mark.parametrize("writing", ORDERS)
def test_reads_and_writes_are_told_apart(tmp_path: Path, writing: str, reading: str, same_file: bool) -> None:
    files: Files = defaultdict(Handle)
    access(files, "write", writing, shared=True, size=64 * KIB)
    access(files, "read", reading, shared=same_file, size=96 * KIB, first_file=100 if same_file else 200)
    found = told(tmp_path, PROCESSES, files)
    assert found.reads is not None and found.writes is not None
    assert (found.writes.order, found.writes.common_size) == (writing, 64 * KIB)
    assert (found.reads.order, found.reads.common_size) == (reading, 96 * KIB)
    assert (found.writes.sharing, found.reads.sharing) == (
        "shared file", "shared file" if same_file else "file per process"
    )  # fmt: skip


@pytest.mark.parametrize(("seed", "requests"), [(seed, number) for seed in range(8) for number in (12, 100)])
def test_random_requests_are_never_mixed(tmp_path: Path, seed: int, requests: int) -> None:
    handle = Handle()
    handle.open()
    places = list(range(requests))
    random.Random(seed).shuffle(places)
    for place in places:
        handle.write(place * MIB, MIB)
    assert told(tmp_path, 1, {(100, 0): handle}).order == "random"


def test_opening_a_file_again_is_no_jump(tmp_path: Path) -> None:
    files: Files = defaultdict(Handle)
    for _ in range(5):
        access(files, "write", "contiguous", shared=True, size=64 * KIB)
    found = told(tmp_path, PROCESSES, files)
    assert (found.order, found.contiguous) == ("contiguous", 1.0)


def test_one_request_after_each_open_has_no_order(tmp_path: Path) -> None:
    handle = Handle()
    for _ in range(50):
        handle.open()
        handle.read(0, 100)
    assert told(tmp_path, 1, {(100, 0): handle}).order == "one request per file"


@pytest.mark.parametrize(
    ("kinds", "calls", "share"),
    [
        ({"COLL_WRITES": 128}, "collective", 1.0),
        ({"INDEP_WRITES": 128}, "independent", 0.0),
        ({"SPLIT_WRITES": 64, "NB_WRITES": 64}, "both", 0.5),
    ],
)
def test_collective_calls_are_told_from_independent_ones(
    tmp_path: Path, kinds: dict[str, int], calls: str, share: float
) -> None:
    files: Files = defaultdict(Handle)
    access(files, "write", "strided", shared=True, size=64 * KIB)
    counters = {"BYTES_WRITTEN": 128 * 64 * KIB, "ACCESS1_ACCESS": 64 * KIB, "ACCESS1_COUNT": 128}
    call = record("MPI-IO", 100, -1, {**kinds, **counters, "SIZE_WRITE_AGG_10K_100K": 128})
    found = told(tmp_path, PROCESSES, files, [call])
    assert found.writes is not None
    assert (found.writes.calls, found.writes.collective) == (calls, share)
    assert (found.writes.common_call_size, found.writes.mean_call_size) == (64 * KIB, 64 * KIB)
    assert found.reads is None


def test_a_file_that_one_process_writes_for_all_is_shared(tmp_path: Path) -> None:
    handle = Handle()
    handle.open()
    for i in range(8):
        handle.write(i * MIB, MIB)
    counters = {"COLL_WRITES": 128, "BYTES_WRITTEN": 8 * MIB, "ACCESS1_ACCESS": 64 * KIB, "ACCESS1_COUNT": 128}
    call = record("MPI-IO", 100, -1, {**counters, "SIZE_WRITE_AGG_10K_100K": 128})
    found = told(tmp_path, PROCESSES, {(100, 0): handle}, [call])
    assert found.writes is not None
    assert (found.sharing, found.writes.sharing, found.shared) == ("shared file", "shared file", 1.0)
    assert (found.writes.common_size, found.writes.common_call_size) == (MIB, 64 * KIB)
    assert told(tmp_path, PROCESSES, {(100, 0): handle}).sharing == "one process"


def test_lines_on_a_screen_are_no_requests_and_no_shared_file(tmp_path: Path) -> None:
    files: Files = defaultdict(Handle)
    access(files, "write", "contiguous", shared=False, size=8 * MIB)
    lines = record("STDIO", STDOUT, -1, {"WRITES": 10_000, "BYTES_WRITTEN": 800_000_000})
    log = record("STDIO", 300, 0, {"WRITES": 5000, "BYTES_WRITTEN": 400_000, "MAX_BYTE_WRITTEN": 399_999})
    found = told(tmp_path, PROCESSES, files, streams=[lines, log])
    assert found.writes is not None
    assert (found.writes.mean_size, found.writes.common_size) == (8 * MIB, 8 * MIB)
    assert (found.sharing, found.shared) == ("file per process", 0.0)
    assert found.writes.total_bytes == PROCESSES * REQUESTS * 8 * MIB + 400_000


def test_a_program_that_only_writes_lines_into_files_has_those_as_requests(tmp_path: Path) -> None:
    log = record("STDIO", 300, 0, {"WRITES": 5000, "BYTES_WRITTEN": 400_000, "MAX_BYTE_WRITTEN": 399_999})
    found = told(tmp_path, PROCESSES, {}, streams=[log])
    assert found.writes is not None
    assert (found.writes.mean_size, found.writes.common_size, found.order) == (80.0, None, "unknown")


def test_what_is_called_the_commonest_request_occurred(tmp_path: Path) -> None:
    """Many records with different sizes: the library's own sums take counts for sizes there."""
    chance = random.Random(1)
    files: Files = {}
    sizes: set[int] = set()
    for file in range(60):
        handle = files[100 + file, file % PROCESSES] = Handle()
        handle.open()
        at = 0
        for _ in range(chance.randint(1, 9)):
            size = chance.choice([1000 + file, 7777, 4096, 123_456, 5 * MIB + file])
            sizes.add(size)
            (handle.read if chance.random() < 0.4 else handle.write)(at, size)
            at += size
    found = told(tmp_path, PROCESSES, files)
    assert found.reads is not None and found.writes is not None
    assert {found.common_size, found.reads.common_size, found.writes.common_size} <= sizes
    assert read_log(tmp_path / "a.darshan").row["common_size"] in sizes


def test_no_request_is_the_commonest_if_most_are_of_another_kind(tmp_path: Path) -> None:
    handle = Handle()
    handle.open()
    for place in range(10):
        handle.read(place * 5376, 5376)
    for _ in range(100):
        handle.read(10 * 5376, 0)  # the end of the file: Darshan keeps no such size
    found = told(tmp_path, 1, {(100, 0): handle})
    assert found.reads is not None
    assert (found.reads.common_size, found.reads.total_bytes) == (None, 53760)


def test_over_several_runs_the_commonest_request_is_one_that_occurred(tmp_path: Path) -> None:
    rows = []
    for i, size in enumerate((4 * KIB, MIB)):
        files: Files = defaultdict(Handle)
        access(files, "write", "contiguous", shared=True, size=size)
        rows.append(read_log(write_log(tmp_path / f"{i}.darshan", PROCESSES, files)).row | {"run_key": str(i)})
    with open_store(str(tmp_path / "history.db")) as store:
        with store.open_writer() as connection:
            add_runs(connection, rows)
        with store.open_reader() as connection:
            found = list_behaviours(connection, rows[0]["app"])
    measured = measures_of(found)
    assert {measured[name].median for name in ("common_size", "common_write_size")} <= {4 * KIB, MIB}
    assert pattern_of(found).common_size in (4 * KIB, MIB)


def test_half_of_the_bytes_are_in_files_of_the_file_size(tmp_path: Path) -> None:
    files: Files = defaultdict(Handle)
    for file, size in ((1, 100), (2, 100), (3, 10 * MIB)):
        files[file, 0].open()
        files[file, 0].write(0, size)
    [read, written] = read_log(write_log(tmp_path / "a.darshan", PROCESSES, files)).row["request_rows"]
    assert (read["file_size"], written["file_size"]) == (None, 10 * MIB)


@pytest.mark.parametrize(
    ("order", "shared", "recorded"),
    [  # writes, sequential, consecutive, commonest stride and how often: of IOR 4.1, 4 processes, -t 64k, Darshan 3.5
        ("contiguous", False, (32, 31, 31, 0, 0)),
        ("contiguous", True, (128, 127, 124, 0, 0)),
        ("strided", True, (128, 127, 0, 196608, 124)),
    ],
)
def test_records_are_those_that_real_runs_of_ior_left(
    order: str, shared: bool, recorded: tuple[int, int, int, int, int]
) -> None:
    files: Files = defaultdict(Handle)
    access(files, "write", order, shared=shared, size=64 * KIB)
    made = posix_records(files, PROCESSES)[0]["counters"]
    names = ("WRITES", "SEQ_WRITES", "CONSEC_WRITES", "STRIDE1_STRIDE", "STRIDE1_COUNT")
    assert tuple(int(made[counter_columns("POSIX")[name]]) for name in names) == recorded


def test_what_an_older_version_read_is_read_again(tmp_path: Path) -> None:
    """Reads and writes are told apart from then on; runs whose logs are gone stay as they are."""
    files: Files = defaultdict(Handle)
    access(files, "write", "strided", shared=True, size=MIB)
    path = write_log(tmp_path / "a.darshan", PROCESSES, files)
    log, database = read_one(str(path)), str(tmp_path / "history.db")
    assert log.row is not None
    with open_store(database) as store, store.open_writer() as connection:
        record_logs(connection, [log])
        requests.drop(connection)
        next(index for index in runs.indexes if index.name == "runs_by_perf").drop(connection)
        connection.execute(meta.update().where(meta.c.key == "schema").values(value="3"))
    with open_store(database) as store:
        with store.open_reader() as connection:
            [before] = list_behaviours(connection, log.row["app"])
            assert not find_unchanged(connection, {log.path: (log.size, log.mtime_ns)})
        with store.open_writer() as connection:
            record_logs(connection, [log])
        with store.open_reader() as connection:
            [after] = list_behaviours(connection, log.row["app"])
            assert find_unchanged(connection, {log.path: (log.size, log.mtime_ns)})
    assert (before.writes, before.run_id) == (None, after.run_id)
    assert after.writes is not None
    assert (pattern_of([before]).order, pattern_of([after]).order) == ("strided", "strided")
