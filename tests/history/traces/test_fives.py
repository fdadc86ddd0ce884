"""Measured I/O times from the files of the Fives simulator."""

import gzip
from pathlib import Path

import pytest

from forebay.history.traces.fives import read
from forebay.model.errors import BadInput

JOB = """\
- id: 576796
  startTime: '2022-01-26 02:40:23'
  metaTimeSeconds: 36.0
  readBytes: 0
  readTimeSeconds: 0.0
  writtenBytes: 140711729266
  writeTimeSeconds: 677.97
  runs:
  - nprocs: 4096
  - nprocs: 4
"""


def test_a_job_has_the_processes_of_all_its_runs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml.gz"
    path.write_bytes(gzip.compress(b"jobs:\n" + JOB.encode()))
    [job] = read(path)
    assert job["processes"] == 4100
    assert job["bytes"].tolist() == [0, 140711729266] and job["seconds"].tolist() == [0, 677.97]
    assert job["start"] == 1643164823 and job["meta_seconds"] == 36 and not job["requests"].any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("jobs: 3\n", "must be a table with the list 'jobs'"),
        ("- 1\n", "must be a table with the list 'jobs'"),
        ("jobs:\n- 7\n", r"jobs\[0\]: must be a table"),
        ("jobs:\n" + JOB.replace("677.97", ".nan"), r"jobs\[0\]: writeTimeSeconds must be a number"),
        ("jobs:\n" + JOB.replace("677.97", "-1"), "writeTimeSeconds must be from 0 to 1e.12, not -1"),
        ("jobs:\n" + JOB.replace("nprocs: 4096", "nprocs: many"), "nprocs must be a number, not 'many'"),
        ("jobs:\n" + JOB.replace("4096", "0").replace("nprocs: 4\n", "nprocs: 0\n"), "nprocs must be at least 1"),
        ("jobs:\n" + JOB.replace("2022-01-26", "soon"), "must be a time like"),
        ("jobs:\n" + JOB.replace("  runs:", "  ran:"), "needs the list 'runs'"),
        ("jobs: [\n", "is not YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_job(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=reason):
        read(path)
