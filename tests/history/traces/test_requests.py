"""Which reader reads what, and where the requests are said to come from."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from forebay.history.curves import read_curves
from forebay.history.traces import read_requests
from forebay.model.errors import BadInput
from forebay.model.space_requests import Requests

JOB = """\
- {id: 7, submissionTime: 2020-01-01 00:00:00, startTime: 2020-01-01 00:00:10, endTime: 2020-01-01 00:01:00,
   readBytes: 5, writtenBytes: 3}
"""


def read_one(path: Path) -> Requests:
    return read_requests([path])


def refused(*paths: Path) -> str:
    with pytest.raises(BadInput) as raised:
        read_requests(paths)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("name", ["a.yml", "a.yaml", "IOJobs.YML"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_is_read_as_its_name_says_gzipped_or_not(tmp_path: Path, name: str, packed: bool) -> None:
    path = tmp_path / (name + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(f"jobs:\n{JOB}".encode()) if packed else f"jobs:\n{JOB}".encode())
    requests = read_requests([path])
    assert len(requests) == 1
    assert requests.origin == f"1 request from {path.name}"


def test_a_file_that_was_unpacked_under_its_old_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yml.gz"
    path.write_text(f"jobs:\n{JOB}")
    assert len(read_requests([path])) == 1


def test_other_files_no_files_and_too_many_files_are_refused(tmp_path: Path) -> None:
    kinds = "file names must end in .yml, .yaml, .csv, .swf, optionally followed by .gz"
    assert refused(Path("a.txt")) == f"a.txt: {kinds}"
    assert refused(Path("a.yml"), Path("b.csv")) == f"a.yml and b.csv: {kinds}"
    assert refused() == f"requests: {kinds}"
    assert refused(tmp_path) == f"{tmp_path}: {kinds}"
    many = "are too many files; give one, or the two .csv files of Theta"
    assert refused(Path("a.yml"), Path("b.yml")) == f"a.yml and b.yml: {many}"
    assert refused(Path("a.csv"), Path("b.csv"), Path("c.csv")) == f"a.csv and b.csv and c.csv: {many}"


@pytest.mark.parametrize("name", ["a.yml", "a.csv", "a.swf", "a.swf.gz"])
def test_a_file_that_is_not_there_or_a_folder_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert refused(path) == f"{path}: no such file or directory"
    path.mkdir()
    assert refused(path) == f"{path}: is a directory"


@pytest.mark.parametrize("name", ["a.yml.gz", "a.csv.gz", "a.swf.gz"])
def test_a_gzip_file_that_is_cut_short_or_damaged_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    noise = np.random.default_rng(1).integers(0, 10, 20_000).tolist()
    whole = gzip.compress("; ".join(str(number) for number in noise).encode())
    path.write_bytes(whole[: len(whole) // 2])
    assert refused(path) == f"{path}: is a truncated gzip file"
    path.write_bytes(whole[:1000] + b"\xff" * 1000 + whole[2000:])
    assert refused(path) == f"{path}: is a damaged gzip file"
    path.write_bytes(b"\x1f\x8bjunk that is no gzip")
    assert refused(path) == f"{path}: is a damaged gzip file"


@pytest.mark.parametrize("name", ["a.yml", "a.csv", "a.swf"])
def test_binary_junk_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(np.random.default_rng(1).integers(0, 256, 5_000, dtype=np.uint8).tobytes())
    assert refused(path).startswith(str(path))


@pytest.mark.parametrize("name", ["a.yml", "a.swf", "a.swf.gz"])
def test_an_empty_file_holds_no_request(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.touch()
    assert refused(path) == f"{path}: has no requests"


def test_an_empty_csv_file_has_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    assert refused(path) == f"{path}: has no requests"


BAD_SWF = "1 0 -1 soon 1 -1 -1 1 -1 -1 1 1 1 1 1 1 -1 -1\n"
BAD_THETA = """\
COBALT_JOBID,NPROCS,RUN_TIME,TOTAL_POSIX_BYTES_READ,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP
7,none,1,1,2020-01-01,2020-01-01,2020-01-01
"""
BAD_CURVES = "application,n,bandwidth\na,1,fast\n"


@pytest.mark.parametrize(
    ("read", "name", "content"),
    [
        (read_one, "a.yml", "jobs:\n- {id: 7, startTime: soon}\n"),
        (read_one, "a.swf", "1 0 -1 10 1 -1 100 1 -1 -1 1 1 1 1 1 1 -1 -1\n" + BAD_SWF.replace("soon", "1.5e99")),
        (read_one, "a.swf", BAD_SWF),
        (read_one, "a.csv", BAD_THETA),
        (read_curves, "a.csv", BAD_CURVES),
    ],
)
def test_a_file_with_a_bad_line_is_closed_at_once(
    tmp_path: Path, read: Callable[[Path], object], name: str, content: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(BadInput) as raised:
        read(path)
    assert str(path) in str(raised.value)  # which still refers to the reader that raised it
    assert path not in [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
