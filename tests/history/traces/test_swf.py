"""Requests from job logs in the Standard Workload Format."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.traces import read_requests, swf
from forebay.model.errors import BadInput

KIB = 1024
NAMES = {"number": 0, "submit": 1, "wait": 2, "run": 3, "processors": 4, "used": 6, "requested": 9, "status": 10}
JOB = ["1", "100", "5", "60", "4", "-1", "2000", "4", "3600", "-1", "1", "1", "1", "-1", "-1", "-1", "-1", "-1"]


def job(**keys: object) -> str:
    cells = list(JOB)
    for name, value in keys.items():
        cells[NAMES[name]] = str(value)
    return " ".join(cells)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "log.swf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def refused(path: Path, volume: str | None = None) -> str:
    with pytest.raises(BadInput) as raised:
        read_requests([path], swf_volume=volume)
    assert "\n" not in str(raised.value)
    return str(raised.value).replace(f"{path.parent}/", "")


def test_a_job_asks_for_its_memory_while_it_runs(tmp_path: Path) -> None:
    path = written(tmp_path, "; Version: 2.2", ";  UnixStartTime: 1000000000", ";", job(), "", "  " + job(number=2))
    requests = read_requests([path])
    assert requests.ids.tolist() == [1, 2]
    assert requests.ids.dtype == np.int64
    assert requests.submitted.tolist() == [1000000100.0] * 2
    assert requests.start.tolist() == [1000000105.0] * 2
    assert requests.duration.tolist() == [60.0] * 2
    assert requests.bytes.tolist() == [2000 * KIB * 4] * 2
    assert requests.volume.tolist() == [2000.0 * KIB * 4] * 2
    assert requests.origin == "2 requests from log.swf"


def test_a_gzipped_log_with_names_in_latin_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(f"; Universität\n{job()}\n".encode("latin-1")))
    assert len(read_requests([path])) == 1


def test_without_a_start_of_the_log_its_second_0_is_0(tmp_path: Path) -> None:
    assert read_requests([written(tmp_path, job())]).submitted.tolist() == [100.0]
    assert read_requests([written(tmp_path, "; UnixStartTime: -1", job())]).submitted.tolist() == [100.0]


def test_what_is_unknown_has_a_substitute(tmp_path: Path) -> None:
    requests = read_requests([written(tmp_path, job(wait=-1, used=-1, requested=7))])
    assert requests.start.tolist() == [100.0]
    assert requests.bytes.tolist() == [7 * KIB * 4]


def test_jobs_without_memory_processors_or_run_time_are_left_out_and_counted(tmp_path: Path) -> None:
    none = [job(number=2, used=-1), job(number=3, used=0), job(number=4, processors=-1), job(number=5, run=0)]
    parts = [job(number=1, status=2), job(number=1, status=3)]
    requests = read_requests([written(tmp_path, job(), *none, *parts, job(number=6, run=-1))])
    assert requests.ids.tolist() == [1]
    assert requests.origin == (
        "1 request from log.swf (left out: 3 jobs without processors or run time, "
        "2 jobs without memory, 2 lines about a part of a job)"
    )


def test_the_volume_may_be_a_size_per_processor(tmp_path: Path) -> None:
    path = written(tmp_path, job(used=-1), job(number=2, processors=3))
    assert read_requests([path], swf_volume="2 GB").bytes.tolist() == [8 * 10**9, 6 * 10**9]
    assert read_requests([path], swf_volume="1 GiB").bytes.tolist() == [4 * 2**30, 3 * 2**30]
    assert read_requests([path], swf_volume="memory").ids.tolist() == [2]
    assert read_requests([path]).ids.tolist() == [2]


@pytest.mark.parametrize("volume", ["", "2", "much", "0 GB", "-1 GB", "2 GB/s", "1e9 TB", "nan"])
def test_a_volume_that_is_none_is_refused(tmp_path: Path, volume: str) -> None:
    reason = f"must be 'memory', or a size per processor like '2 GB', not {volume!r}"
    assert refused(written(tmp_path, job()), volume) == f"volume of SWF jobs: {reason}"


def test_other_files_do_not_mind_the_volume(tmp_path: Path) -> None:
    path = tmp_path / "a.yml"
    path.write_text("jobs: []")
    assert refused(path, "2 GB") == "a.yml: has no requests"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.integers(-1, 10**6),
            st.integers(-1, 10**6),
            st.integers(-1, 10**5),
            st.integers(-1, 10**9),
            st.integers(-1, 10**9),
        ),
        max_size=20,
    )
)
def test_every_job_that_counts_is_a_request(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int, int, int]]
) -> None:
    lines = [
        job(number=i, submit=submit, wait=wait, run=run, processors=processors, used=used, requested=requested)
        for i, (submit, wait, run, processors, used, requested) in enumerate(rows)
    ]
    columns = swf.read(written(tmp_path_factory.mktemp("drawn"), *lines), None)
    expected = [
        (i, float(submit), float(submit + max(wait, 0)), float(run), memory * KIB * processors)
        for i, (submit, wait, run, processors, used, requested) in enumerate(rows)
        if run > 0 and processors > 0 and (memory := requested if used == -1 else used) > 0
    ]
    found = (columns.ids, columns.submitted, columns.start, columns.duration, columns.bytes)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_a_log_of_many_blocks_is_read_like_one_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["; UnixStartTime: 5", *(job(number=n) for n in range(9)), *[";"] * 5, job(number=99)]
    path = written(tmp_path, *lines)
    whole = swf.read(path, None)
    monkeypatch.setattr(swf, "_BLOCK", 2)
    pieces = swf.read(path, None)
    assert pieces.ids.tolist() == whole.ids.tolist() == [*range(9), 99]
    assert pieces.start.tolist() == whole.start.tolist()
    assert "log.swf:17: run time must be a number, not 'x'" in refused(written(tmp_path, *lines, job(run="x")))
    assert "log.swf:17: run time must be a number below 2**53, not nan" in refused(
        written(tmp_path, *lines, job(run="nan"))
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (job(submit="x"), "submit time must be a number, not 'x'"),
        (job(used="1,5"), "used memory must be a number, not '1,5'"),
        ("1 2 3", "has 3 values for 18 columns"),
        (" ".join(JOB[:17]), "has 17 values for 18 columns"),
        ("what is this", "has 3 values for 18 columns"),
        (job(run="nan"), "run time must be a number below 2**53, not nan"),
        (job(run="inf"), "run time must be a number below 2**53, not inf"),
        (job(number=1.5), "job number must be a whole number, not 1.5"),
        (job(used=0.5), "used memory must be a whole number, not 0.5"),
        (job(processors=0.5), "processors must be a whole number, not 0.5"),
        (job(used=-5), "used memory must be 0 or more, or -1 for unknown, not -5"),
        (job(requested=-2), "requested memory must be 0 or more, or -1 for unknown, not -2"),
        (job(wait=-20), "wait time must be 0 or more, or -1 for unknown, not -20"),
        (job(submit=-1), "submit time must not be negative, not -1"),
        (job(used=10**15), "volume must be at most 1,000,000,000,000,000,000 bytes, not 4.096e+18"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path: Path, line: str, reason: str) -> None:
    path = written(tmp_path, "; a header", job(number=7), "; a remark", "", line, job(number=8))
    assert refused(path) == f"log.swf:5: {reason}"


def test_two_jobs_of_one_number_are_refused(tmp_path: Path) -> None:
    assert (
        refused(written(tmp_path, job(), job(number=2), job()))
        == "log.swf: job 1: appears twice; job numbers must be unique"
    )
    assert read_requests([written(tmp_path, job(number=2), job())]).ids.tolist() == [2, 1]


def test_a_start_of_the_log_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ";", "; UnixStartTime: monday", job())
    assert refused(path) == "log.swf:2: UnixStartTime must be a number, not 'monday'"


def test_a_log_without_jobs_holds_no_request(tmp_path: Path) -> None:
    assert refused(written(tmp_path, "; nothing", ";")) == "log.swf: has no requests"
    reason = "has no requests (left out: 1 job without memory)"
    assert refused(written(tmp_path, job(used=-1))) == f"log.swf: {reason}"
