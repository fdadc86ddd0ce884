"""Requests from Theta's two CSV files."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from forebay.history.traces import read_requests
from forebay.model.errors import BadInput

Row = Mapping[str, object]
GB = 10**9
START = 1577931378  # 2020-01-02 02:16:18
DARSHAN = {
    "COBALT_JOBID": 1, "NPROCS": 4, "RUN_TIME": 100, "TOTAL_POSIX_BYTES_READ": 0,
    "TOTAL_POSIX_BYTES_WRITTEN": 20 * GB, "TOTAL_POSIX_F_READ_TIME": 0, "TOTAL_POSIX_F_WRITE_TIME": 40,
}  # fmt: skip
SCHEDULER = {
    "COBALT_JOBID": "1.0", "QUEUED_TIMESTAMP": "2020-01-02 02:06:18", "START_TIMESTAMP": "2020-01-02 02:16:18",
    "END_TIMESTAMP": "2020-01-02 02:26:18.000000", "NODES_USED": 128,
}  # fmt: skip


def table(folder: Path, name: str, defaults: Row, *rows: Row) -> Path:
    columns = list(dict.fromkeys([*defaults, *(key for row in rows for key in row)]))
    lines: list[list[object]] = [[*columns], *([{**defaults, **row}.get(c, "") for c in columns] for row in rows)]
    path = folder / name
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path


def darshan(folder: Path, *rows: Row) -> Path:
    return table(folder, "darshan.csv", DARSHAN, *rows)


def scheduler(folder: Path, *rows: Row) -> Path:
    return table(folder, "jobs.csv", SCHEDULER, *rows)


def refused(*paths: Path) -> str:
    with pytest.raises(BadInput) as raised:
        read_requests(paths)
    assert "\n" not in str(raised.value)
    return str(raised.value).replace(f"{paths[0].parent}/", "")


def test_the_two_files_are_joined_by_job_in_any_order(tmp_path: Path) -> None:
    paths = [darshan(tmp_path, {}), scheduler(tmp_path, {}, {"COBALT_JOBID": 2})]
    for requests in (read_requests(paths), read_requests(paths[::-1])):
        assert requests.ids.tolist() == [1]
        assert requests.ids.dtype == np.int64
        assert requests.bytes.tolist() == [20 * GB]
        assert requests.volume.tolist() == [20e9]
        assert requests.submitted.tolist() == [START - 600]
        assert requests.start.tolist() == [START]
        assert requests.duration.tolist() == [600]
    assert read_requests(paths).origin == "1 request from darshan.csv and jobs.csv"


def test_gzipped_files_with_lower_case_columns_are_read(tmp_path: Path) -> None:
    paths = [darshan(tmp_path, {}), scheduler(tmp_path, {})]
    packed = [path.with_suffix(".csv.gz") for path in paths]
    for path, other in zip(paths, packed, strict=True):
        other.write_bytes(gzip.compress(path.read_bytes().lower()))
    assert read_requests(packed).bytes.tolist() == [20 * GB]


def test_one_file_with_all_columns_may_repeat_the_schedulers_on_each_row(tmp_path: Path) -> None:
    path = table(tmp_path, "all.csv", DARSHAN | SCHEDULER, {}, {"COBALT_JOBID": 1}, {"COBALT_JOBID": "1"})
    assert read_requests([path]).bytes.tolist() == [60 * GB]


def test_rows_of_one_job_that_disagree_on_its_times_are_refused(tmp_path: Path) -> None:
    path = table(tmp_path, "all.csv", DARSHAN | SCHEDULER, {}, {"QUEUED_TIMESTAMP": "2020-01-01 00:00:00"})
    assert refused(path) == "all.csv:3: job 1 already has a row, on line 2"


@pytest.mark.parametrize(
    ("row", "kept"),
    [
        ({}, True),
        ({"TOTAL_POSIX_BYTES_WRITTEN": 10 * GB}, True),
        ({"TOTAL_POSIX_BYTES_WRITTEN": 10 * GB - 1}, False),
        ({"TOTAL_POSIX_BYTES_WRITTEN": 6 * GB, "TOTAL_POSIX_BYTES_READ": 6 * GB}, False),
        ({"TOTAL_POSIX_F_WRITE_TIME": 39.9}, False),
        ({"TOTAL_POSIX_F_WRITE_TIME": 20, "TOTAL_POSIX_F_READ_TIME": 20}, True),
        ({"TOTAL_POSIX_F_WRITE_TIME": 20, "TOTAL_POSIX_F_META_TIME": 20}, True),
        ({"TOTAL_POSIX_F_WRITE_TIME": 20, "TOTAL_MPIIO_F_WRITE_TIME": 20}, False),
        ({"TOTAL_POSIX_F_WRITE_TIME": 20, "TOTAL_MPIIO_F_WRITE_TIME": 40}, True),
        ({"TOTAL_POSIX_F_WRITE_TIME": 20, "TOTAL_STDIO_F_WRITE_TIME": 20}, True),
        ({"TOTAL_POSIX_F_WRITE_TIME": 40, "TOTAL_POSIX_F_READ_TIME": -1000}, True),
        ({"RUN_TIME": 0}, True),
    ],
)
def test_a_tenth_of_the_time_and_ten_gigabytes_one_way_make_a_request(
    tmp_path: Path, row: dict[str, object], kept: bool
) -> None:
    paths = [darshan(tmp_path, row, {"COBALT_JOBID": 2}), scheduler(tmp_path, {}, {"COBALT_JOBID": 2})]
    requests = read_requests(paths)
    assert requests.ids.tolist() == ([1, 2] if kept else [2])
    assert ("left out: 1 job with little I/O" in requests.origin) == (not kept)


def test_mpi_io_goes_through_posix_and_stdio_comes_on_top(tmp_path: Path) -> None:
    row: dict[str, object] = {
        "TOTAL_POSIX_BYTES_READ": 5 * GB, "TOTAL_MPIIO_BYTES_READ": 7 * GB, "TOTAL_STDIO_BYTES_READ": GB,
        "TOTAL_POSIX_BYTES_WRITTEN": 20 * GB, "TOTAL_MPIIO_BYTES_WRITTEN": "3e9", "TOTAL_STDIO_BYTES_WRITTEN": "",
    }  # fmt: skip
    requests = read_requests([darshan(tmp_path, row), scheduler(tmp_path, {})])
    assert requests.bytes.tolist() == [20 * GB]
    assert requests.volume.tolist() == [28e9]


def test_the_rows_of_one_job_are_added_up(tmp_path: Path) -> None:
    half: dict[str, object] = {"TOTAL_POSIX_BYTES_WRITTEN": 6 * GB}
    idle: dict[str, object] = {"TOTAL_POSIX_BYTES_WRITTEN": 0, "TOTAL_POSIX_F_WRITE_TIME": 0}
    busy = {"NPROCS": 1, "TOTAL_POSIX_F_WRITE_TIME": 20} | half
    paths = [darshan(tmp_path, half, half), scheduler(tmp_path, {})]
    assert read_requests(paths).bytes.tolist() == [12 * GB]
    darshan(tmp_path, busy, busy, idle, idle)  # 40 s of I/O in 400 s
    assert read_requests(paths).bytes.tolist() == [12 * GB]
    darshan(tmp_path, busy, busy, idle, idle, idle)  # and in 500 s
    assert "has no requests (left out: 1 job with little I/O)" in refused(*paths)


def test_jobs_that_the_scheduler_does_not_know_are_left_out_and_counted(tmp_path: Path) -> None:
    paths = [darshan(tmp_path, {}, {"COBALT_JOBID": 8}, {"COBALT_JOBID": 9}), scheduler(tmp_path, {})]
    origin = "1 request from darshan.csv and jobs.csv (left out: 2 jobs missing from the scheduler's file)"
    assert read_requests(paths).origin == origin


def test_requests_come_by_the_time_they_were_queued_and_then_by_id(tmp_path: Path) -> None:
    names = (10, 9, 8, 7)
    early = {"COBALT_JOBID": 8, "QUEUED_TIMESTAMP": "2020-01-01 00:00:00"}
    others = ({"COBALT_JOBID": name} for name in (10, 9, 7))
    paths = [darshan(tmp_path, *({"COBALT_JOBID": name} for name in names)), scheduler(tmp_path, *others, early)]
    assert read_requests(paths).ids.tolist() == [8, 7, 9, 10]


def test_ids_may_be_text(tmp_path: Path) -> None:
    row: dict[str, object] = {"COBALT_JOBID": "job-a"}
    assert read_requests([darshan(tmp_path, row), scheduler(tmp_path, row)]).ids.tolist() == ["job-a"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"NPROCS": 0}, "NPROCS must be positive, not '0'"),
        ({"NPROCS": "many"}, "NPROCS must be a number, not 'many'"),
        ({"RUN_TIME": "nan"}, "RUN_TIME must be a number, not 'nan'"),
        ({"RUN_TIME": ""}, "RUN_TIME must be a number, not ''"),
        ({"TOTAL_POSIX_BYTES_READ": -1}, "TOTAL_POSIX_BYTES_READ must be from 0 to 1,000"),
        ({"TOTAL_POSIX_BYTES_READ": 1.5}, "TOTAL_POSIX_BYTES_READ must be a whole number of bytes, not '1.5'"),
        ({"TOTAL_MPIIO_BYTES_READ": "nan"}, "TOTAL_MPIIO_BYTES_READ must be a whole number of bytes, not 'nan'"),
        ({"TOTAL_POSIX_BYTES_READ": 2 * 10**18}, "TOTAL_POSIX_BYTES_READ must be from 0 to 1,000"),
        ({"TOTAL_POSIX_BYTES_READ": 10**18, "TOTAL_STDIO_BYTES_READ": 1}, "job 1 moves more than 1,000"),
        ({"TOTAL_POSIX_F_READ_TIME": "inf"}, "TOTAL_POSIX_F_READ_TIME must be a number, not 'inf'"),
        ({"COBALT_JOBID": ""}, "COBALT_JOBID must have from 1 to 200 characters, not 0"),
        ({"RUN_TIME": "1,2"}, "has 8 values for 7 columns"),
    ],
)
def test_a_bad_row_of_darshans_is_named_by_file_and_line(tmp_path: Path, row: dict[str, object], reason: str) -> None:
    assert f"darshan.csv:3: {reason}" in refused(darshan(tmp_path, {"COBALT_JOBID": 5}, row), scheduler(tmp_path, {}))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"END_TIMESTAMP": "2020-01-02 02:16:17"}, "END_TIMESTAMP is before START_TIMESTAMP"),
        ({"START_TIMESTAMP": ""}, "START_TIMESTAMP must be a time like '2020-01-31 23:59:59', not ''"),
        ({"QUEUED_TIMESTAMP": "soon"}, "QUEUED_TIMESTAMP must be a time like '2020-01-31 23:59:59', not 'soon'"),
        ({"COBALT_JOBID": 5}, "job 5 already has a row, on line 2"),
        ({"NODES_USED": "1,2"}, "has 6 values for 5 columns"),
    ],
)
def test_a_bad_row_of_the_schedulers_is_named_by_file_and_line(
    tmp_path: Path, row: dict[str, object], reason: str
) -> None:
    jobs = darshan(tmp_path, {}, {"COBALT_JOBID": 5})
    assert refused(jobs, scheduler(tmp_path, {"COBALT_JOBID": 5}, row)) == f"jobs.csv:3: {reason}"


def test_a_bad_time_of_a_job_that_is_no_request_does_no_harm(tmp_path: Path) -> None:
    light = {"COBALT_JOBID": 2, "TOTAL_POSIX_BYTES_WRITTEN": 5}
    bad = ({"COBALT_JOBID": name, "END_TIMESTAMP": ""} for name in (2, 3))
    assert len(read_requests([darshan(tmp_path, {}, light), scheduler(tmp_path, {}, *bad)])) == 1


@pytest.mark.parametrize("column", list(DARSHAN))
def test_a_missing_column_of_darshans_is_named(tmp_path: Path, column: str) -> None:
    defaults = {key: value for key, value in DARSHAN.items() if key != column}
    path = table(tmp_path, "darshan.csv", defaults, {})
    assert refused(path, scheduler(tmp_path, {})) == f"darshan.csv:1: needs the column {column}"


@pytest.mark.parametrize("column", [column for column in SCHEDULER if column != "NODES_USED"])
def test_a_missing_column_of_the_schedulers_is_named(tmp_path: Path, column: str) -> None:
    defaults = {key: value for key, value in SCHEDULER.items() if key != column}
    path = table(tmp_path, "jobs.csv", defaults, {})
    assert refused(path, darshan(tmp_path, {})) == f"jobs.csv:1: needs the column {column}"


def test_half_a_pair_or_two_of_a_kind_are_refused(tmp_path: Path) -> None:
    assert refused(darshan(tmp_path, {})) == "darshan.csv:1: needs the column QUEUED_TIMESTAMP"
    assert refused(scheduler(tmp_path, {})) == "jobs.csv: has none of Darshan's columns, like TOTAL_POSIX_BYTES_READ"
    other = table(tmp_path, "other.csv", DARSHAN, {})
    reason = "both have Darshan's columns, like TOTAL_POSIX_BYTES_READ"
    assert refused(darshan(tmp_path, {}), other) == f"darshan.csv and other.csv: {reason}"


def test_files_of_nothing_but_a_header_hold_no_request(tmp_path: Path) -> None:
    assert refused(darshan(tmp_path), scheduler(tmp_path)) == "darshan.csv: has no requests"


def test_what_is_not_csv_is_refused(tmp_path: Path) -> None:
    path = darshan(tmp_path, {})
    path.write_text(path.read_text() + "x" * 200_000)
    assert refused(path, scheduler(tmp_path, {})).startswith("darshan.csv:3: is not CSV: field larger")
    path.write_bytes(b"COBALT_JOBID,\xff\n")
    assert refused(path, scheduler(tmp_path, {})) == "darshan.csv: is not UTF-8 text"
