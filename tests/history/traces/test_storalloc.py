"""Requests from IOJobs.yml, and what is said of jobs that can't be."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.traces import read_requests
from forebay.history.traces.storalloc import read
from forebay.model.errors import BadInput

TRACE = Path(__file__).parents[3].parent / "shared/data/storalloc/iojobs-24k.yml.gz"
START = 1577931378  # 2020-01-02 02:16:18
JOB = {
    "MPIprocs": "1024",
    "endTime": "'2020-01-02 02:26:18'",
    "id": "400000",
    "readBytes": "1000",
    "startTime": "'2020-01-02 02:16:18'",
    "submissionTime": "'2020-01-02 02:06:18'",
    "waitingTime": "'600'",
    "writtenBytes": "3000",
}


def job(**keys: str | None) -> str:
    """Like an entry of the file, a key a line; None leaves a key out."""
    return "- " + "\n  ".join(f"{key}: {value}" for key, value in (JOB | keys).items() if value is not None) + "\n"


def written(folder: Path, *jobs: str) -> Path:
    path = folder / "IOJobs.yml"
    path.write_text("jobs:\n" + "".join(jobs), encoding="utf-8")
    return path


def refused(path: Path) -> tuple[str, str]:
    with pytest.raises(BadInput) as raised:
        read_requests([path])
    assert "\n" not in str(raised.value)
    return raised.value.where.removeprefix(f"{path}"), raised.value.reason


def test_a_job_asks_for_the_larger_of_what_it_reads_and_writes_while_it_runs(tmp_path: Path) -> None:
    requests = read_requests([written(tmp_path, job(), job(id="3", readBytes="9000"))])
    assert requests.ids.tolist() == [400000, 3]
    assert requests.ids.dtype == np.int64
    assert requests.bytes.tolist() == [3000, 9000]
    assert requests.volume.tolist() == [4000.0, 12000.0]
    assert requests.submitted.tolist() == [START - 600.0] * 2
    assert requests.start.tolist() == [START] * 2
    assert requests.duration.tolist() == [600.0] * 2
    assert requests.origin == "2 requests from IOJobs.yml"


def test_jobs_of_no_bytes_are_left_out_and_counted(tmp_path: Path) -> None:
    requests = read_requests([written(tmp_path, job(), job(id="2", readBytes="0", writtenBytes="0"))])
    assert requests.ids.tolist() == [400000]
    assert requests.origin == "1 request from IOJobs.yml (left out: 1 job without bytes)"


def test_times_may_be_timestamps_of_yaml_and_ids_text(tmp_path: Path) -> None:
    path = written(tmp_path, job(startTime="2020-01-02 02:16:18", endTime="2020-01-02T03:16:18+01:00", id="theta-1"))
    requests = read_requests([path])
    assert (requests.start.tolist(), requests.duration.tolist()) == ([START], [0.0])
    assert requests.ids.tolist() == ["theta-1"]


def test_jobs_may_stand_among_other_keys_and_have_lists_and_tables_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "IOJobs.yml"
    text = f"about: {{by: [a, b]}}\n? [x, y]\n: z\njobs:\n{job(files='[{id: 5}, [1]]')}more: 1\n"
    path.write_text(text, encoding="utf-8")
    assert read_requests([path]).ids.tolist() == [400000]


def test_an_alias_of_an_earlier_value_is_that_value(tmp_path: Path) -> None:
    path = written(tmp_path, job(readBytes="&size 77", writtenBytes="*size"))
    assert read_requests([path]).bytes.tolist() == [77]


class Job(TypedDict):
    id: int | str
    submissionTime: datetime
    startTime: datetime
    endTime: datetime
    readBytes: int
    writtenBytes: int
    note: object


TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda time: time.replace(microsecond=0))
SIZES = st.integers(0, 10**18)
IDS = st.lists(st.integers(-(10**17), 10**17), unique=True, max_size=4) | st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=9).map(lambda t: "j" + t),
    unique=True,
    max_size=4,
)


@given(st.data())
def test_what_yaml_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    jobs: list[Job] = [
        {
            "id": name,
            "submissionTime": data.draw(TIMES),
            "startTime": (start := data.draw(TIMES)),
            "endTime": start + timedelta(seconds=data.draw(st.integers(0, 10**6))),
            "readBytes": data.draw(SIZES),
            "writtenBytes": data.draw(SIZES),
            "note": data.draw(st.none() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)),
        }
        for name in data.draw(IDS)
    ]
    path = tmp_path_factory.mktemp("drawn") / "IOJobs.yml"
    quoted = data.draw(st.booleans())
    shown = [{k: str(v) if quoted and isinstance(v, datetime) else v for k, v in one.items()} for one in jobs]
    flow = data.draw(st.sampled_from([None, True, False]))
    path.write_text(yaml.safe_dump({"jobs": shown}, default_flow_style=flow, allow_unicode=True), encoding="utf-8")
    columns = read(path)
    kept = [one for one in jobs if one["readBytes"] or one["writtenBytes"]]
    assert columns.ids.tolist() == [one["id"] for one in kept]
    assert columns.submitted.tolist() == [one["submissionTime"].replace(tzinfo=UTC).timestamp() for one in kept]
    assert columns.start.tolist() == [one["startTime"].replace(tzinfo=UTC).timestamp() for one in kept]
    assert columns.duration.tolist() == [(one["endTime"] - one["startTime"]).total_seconds() for one in kept]
    assert columns.bytes.tolist() == [max(one["readBytes"], one["writtenBytes"]) for one in kept]
    assert columns.volume.tolist() == [float(one["readBytes"]) + float(one["writtenBytes"]) for one in kept]


@pytest.mark.parametrize(
    ("key", "value", "line", "reason"),
    [
        ("readBytes", "-1", 13, "readBytes must be from 0 to 1,000,000,000,000,000,000 bytes, not '-1'"),
        ("readBytes", "1.5", 13, "readBytes must be a whole number of bytes, not '1.5'"),
        ("readBytes", ".nan", 13, "readBytes must be a whole number of bytes, not '.nan'"),
        ("readBytes", "2000000000000000000", 13, "readBytes must be from 0 to 1,000,000,000,000,000,000 bytes"),
        ("readBytes", "much", 13, "readBytes must be a whole number of bytes, not 'much'"),
        ("readBytes", "[1]", 10, "readBytes is missing"),
        ("readBytes", None, 10, "readBytes is missing"),
        ("readBytes", "", 10, "readBytes is missing"),
        ("readBytes", "~", 10, "readBytes is missing"),
        ("writtenBytes", None, 10, "writtenBytes is missing"),
        ("startTime", None, 10, "startTime is missing"),
        ("startTime", "soon", 14, "startTime must be a time like '2020-01-31 23:59:59', not 'soon'"),
        ("startTime", "2020-02-30 00:00:00", 14, "startTime must be a time like"),
        ("startTime", "2020-01-02 02:26:19", 10, "endTime is before startTime"),
        ("endTime", "1577931378", 11, "endTime must be a time like"),
        ("submissionTime", "''", 15, "submissionTime must be a time like"),
        ("id", None, 10, "id is missing"),
        ("id", "''", 12, "id must have from 1 to 200 characters, not 0"),
        ("id", "x" * 300, 12, "id must have from 1 to 200 characters, not 300"),
        ("id", "1", 10, "id '1' already belongs to the job on line 2"),
        ("id", "'1'", 10, "id '1' already belongs to the job on line 2"),
        ("id", "*nothing", 12, "id refers to the unknown anchor 'nothing'"),
        ("id", "7: 8", 12, "is not YAML: mapping values are not allowed in this context"),
        ("? [a]", "b", 18, "a key must be text"),
    ],
)
def test_a_bad_job_is_named_by_file_and_line(
    tmp_path: Path, key: str, value: str | None, line: int, reason: str
) -> None:
    where, because = refused(written(tmp_path, job(id="1"), job(**{key: value})))
    assert where == f":{line}"
    assert because.startswith(reason)


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("jobs: 3\n", ":1", "jobs must be a list"),
        ("a: 1\njobs:\n  b: 2\n", ":3", "jobs must be a list"),
        ("a: 1\n", "", "has no list 'jobs'"),
        ("- a\n- b\n", ":1", "must be a table with the list 'jobs'"),
        ("just words", ":1", "must be a table with the list 'jobs'"),
        ("jobs:\n- 7\n", ":2", "must be a job: a table of keys and values"),
        ("jobs:\n- [7]\n", ":2", "must be a job: a table of keys and values"),
        ("jobs: [\n", ":2", "is not YAML: did not find expected node content"),
        ("jobs: []\n--- {}\n", ":2", "starts a second YAML document; the file must have only one"),
        (f"jobs: []\nmore: {'[' * 300_000}", ":2", "is nested too deeply"),
        (f"jobs:\n{job()}more: [\n", ":11", "is not YAML: did not find expected node content"),
        ("jobs: []\n", "", "has no requests"),
        ("jobs:\n", "", "has no requests"),
        ("", "", "has no requests"),
        ("# nothing\n", "", "has no requests"),
        (f"jobs:\n{job(readBytes='0', writtenBytes='0')}", "", "has no requests (left out: 1 job without bytes)"),
    ],
)
def test_a_file_without_jobs_is_refused(tmp_path: Path, text: str, where: str, reason: str) -> None:
    path = tmp_path / "IOJobs.yml"
    path.write_text(text, encoding="utf-8")
    found = refused(path)
    assert found[0] == where
    assert found[1].startswith(reason)


@pytest.mark.skipif(not TRACE.exists(), reason="the trace is not on this machine")
def test_the_synthetic_year_has_the_figures_of_thetas() -> None:
    requests = read_requests([TRACE])
    assert requests.origin == "24,001 requests from iojobs-24k.yml.gz"
    assert requests.bytes.sum() // 10**9 == 1_607_838
    assert requests.start.min() == START
    assert (requests.start + requests.duration).max() == 1609446938
    assert len(set(requests.ids.tolist())) == 24_001
