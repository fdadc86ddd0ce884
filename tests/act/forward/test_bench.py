"""The benchmark's patterns and contents, and its processes on plain files."""

import itertools
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.bench.client_processes import (
    File,
    LayerAccess,
    Measurement,
    ProcessFailed,
    Task,
    WrongBytes,
    run_task,
)
from forebay.act.forward.bench.layer import busy_decisions, read_decisions
from forebay.act.forward.bench.rounds import compare_rounds, order_turns
from forebay.act.forward.bench.workload import PATTERNS, PERIOD, Content, Direction, Pattern, Workload
from forebay.act.forward.clients.channel import identify
from forebay.act.forward.net.address import Address
from forebay.model.errors import BadInput, UnknownName

LONGEST = 4096
CONTENT = Content(seed=7, longest=LONGEST)
workloads = st.builds(
    lambda processes, pattern, request, more: Workload(
        processes=processes, pattern=pattern, request=request, total=processes * request + more
    ),
    st.integers(1, 9),
    st.sampled_from(PATTERNS),
    st.integers(1, 50),
    st.integers(0, 3000),
)


def written(workload: Workload) -> dict[int, list[tuple[int, int]]]:
    """Per file, all requests of all processes, by offset."""
    found: dict[int, list[tuple[int, int]]] = {}
    for process in range(workload.processes):
        for offset in workload.offsets(process):
            found.setdefault(workload.file(process), []).append((offset, workload.request))
    return {file: sorted(requests) for file, requests in found.items()}


@given(workloads)
def test_all_processes_together_write_every_byte_of_every_file_once(workload: Workload) -> None:
    files = written(workload)
    assert sorted(files) == list(range(workload.files))
    for requests in files.values():
        assert requests[0][0] == 0
        assert all(a + length == b for (a, length), (b, _) in itertools.pairwise(requests))
    assert sum(length for requests in files.values() for _, length in requests) == workload.bytes


@given(workloads)
def test_as_many_whole_requests_as_fit_into_the_total(workload: Workload) -> None:
    assert workload.bytes > workload.processes * workload.request * (workload.requests - 1)
    assert all(len(list(workload.offsets(p))) == workload.requests for p in range(workload.processes))


@pytest.mark.parametrize(("mapping", "order"), [("block", "aabb"), ("round-robin", "abab")])
def test_processes_prefer_io_nodes_by_the_mapping(mapping: str, order: str) -> None:
    access = LayerAccess((Address(path="a"), Address(path="b")), b"", who=identify(processes=4), mapping=mapping)
    assert "".join(access.nodes[access.preferred_node(process)].path for process in range(4)) == order


def test_strided_processes_take_turns() -> None:
    workload = Workload(processes=3, pattern="shared-strided", request=10, total=60)
    assert [list(workload.offsets(p)) for p in range(3)] == [[0, 30], [10, 40], [20, 50]]


def test_contiguous_processes_have_a_part_each() -> None:
    workload = Workload(processes=3, pattern="shared-contiguous", request=10, total=60)
    assert [list(workload.offsets(p)) for p in range(3)] == [[0, 10], [20, 30], [40, 50]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"processes": 0}, "--processes: must be between 1 and 1024, not 0"),
        ({"request": 0}, "--request: must be at least one byte"),
        ({"total": 39}, "--total: must be at least 40 bytes, one request per process"),
    ],
)
def test_impossible_workloads_say_what_is_wrong(change: dict[str, int], words: str) -> None:
    values = {"processes": 4, "request": 10, "total": 40} | change
    with pytest.raises(BadInput, match=words):
        Workload(pattern="shared-strided", **values)


def test_an_unknown_pattern_is_told_with_the_nearest() -> None:
    pattern: Pattern = "shared-stride"  # type: ignore[assignment]
    with pytest.raises(UnknownName, match="did you mean 'shared-strided'"):
        Workload(processes=1, pattern=pattern, request=1, total=1)


@given(st.integers(0, 2000), st.integers(0, 10 * PERIOD), st.integers(0, LONGEST), st.data())
def test_a_part_of_a_part_is_the_same_bytes(file: int, offset: int, length: int, data: st.DataObject) -> None:
    whole = bytes(CONTENT.at(file, offset, length))
    skip = data.draw(st.integers(0, length))
    assert len(whole) == length
    assert bytes(CONTENT.at(file, offset + skip, length - skip)) == whole[skip:]


@given(st.integers(0, 2000), st.integers(0, 1 << 40), st.integers(1, LONGEST), st.data())
def test_one_changed_byte_is_found_where_it_is(file: int, offset: int, length: int, data: st.DataObject) -> None:
    found = bytearray(CONTENT.at(file, offset, length))
    assert CONTENT.find_wrong_byte(file, offset, found) is None
    place = data.draw(st.integers(0, length - 1))
    found[place] ^= data.draw(st.integers(1, 255))
    assert CONTENT.find_wrong_byte(file, offset, found) == offset + place


@pytest.mark.parametrize("moved", [1, 8, 4096, 65536, 1 << 20, 4 << 20, 64 << 20])
def test_bytes_of_another_place_are_wrong(moved: int) -> None:
    assert CONTENT.find_wrong_byte(0, 0, CONTENT.at(0, moved, LONGEST)) is not None


def test_bytes_of_another_file_or_seed_are_wrong() -> None:
    other = Content(seed=8, longest=LONGEST)
    assert all(CONTENT.find_wrong_byte(0, 0, CONTENT.at(file, 0, LONGEST)) is not None for file in range(1, 1024))
    assert CONTENT.find_wrong_byte(0, 0, other.at(0, 0, LONGEST)) is not None


class PlainFile:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def preadinto(self, room: memoryview, offset: int) -> int:
        return os.preadv(self._file, [room], offset)

    def pwrite(self, data: memoryview, offset: int) -> int:
        return os.pwrite(self._file, data, offset)

    def fsync(self) -> None:
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


class Plain:
    """Files in a folder; process `dead` ends at its first file."""

    def __init__(self, folder: Path, dead: int = -1) -> None:
        self.folder, self.dead = folder, dead

    def __call__(self, process: int, name: str, *, write: bool) -> File:  # noqa: ARG002
        if process == self.dead:
            os._exit(1)
        return PlainFile(self.folder / name)


def task(pattern: Pattern, *doings: Direction) -> Task:
    workload = Workload(processes=3, pattern=pattern, request=1000, total=15000)
    return Task(workload=workload, doings=doings, name="data", seed=3, sync=True)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_all_processes_wrote_is_read_back_and_counted(pattern: Pattern, tmp_path: Path) -> None:
    run_task(task(pattern, "write"), Plain(tmp_path))
    (read,) = run_task(task(pattern, "read"), Plain(tmp_path))
    assert (read.bytes, read.doing) == (15000, "read")
    assert read.seconds > 0
    assert read.bandwidth == read.bytes / read.seconds
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) == 15000


def test_processes_do_one_thing_after_the_other(tmp_path: Path) -> None:
    found = run_task(task("shared-strided", "write", "read"), Plain(tmp_path))
    assert [measured.doing for measured in found] == ["write", "read"]


def test_a_wrong_byte_is_found_and_told_with_its_place(tmp_path: Path) -> None:
    run_task(task("shared-strided", "write"), Plain(tmp_path))
    data = bytearray((tmp_path / "data.0").read_bytes())
    data[7321] ^= 1
    (tmp_path / "data.0").write_bytes(data)
    with pytest.raises(WrongBytes, match=r"data\.0: the byte at 7321 differs from the one written"):
        run_task(task("shared-strided", "read"), Plain(tmp_path))


def test_a_missing_end_is_found(tmp_path: Path) -> None:
    run_task(task("file-per-process", "write"), Plain(tmp_path))
    os.truncate(tmp_path / "data.2", 4500)
    with pytest.raises(WrongBytes, match=r"data\.2: read 500 bytes at 4000 instead of 1000"):
        run_task(task("file-per-process", "read"), Plain(tmp_path))


def test_a_process_that_dies_ends_the_others(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="a process of the benchmark died"):
        run_task(task("shared-contiguous", "write"), Plain(tmp_path, dead=1))


def test_an_error_of_the_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match=r"process \d: .*No such file"):
        run_task(task("shared-contiguous", "write"), Plain(tmp_path / "missing"))


def measured(doing: Direction, seconds: float) -> Measurement:
    return Measurement(doing=doing, bytes=100, seconds=seconds)


def test_ways_are_compared_within_each_round() -> None:
    """The machine was twice as slow in the second round, which must not change the ratio."""
    rounds = [
        {"a": [measured("write", 1.0), measured("read", 1.0)], "b": [measured("write", 2.0), measured("read", 0.5)]},
        {"a": [measured("write", 2.0), measured("read", 2.0)], "b": [measured("write", 4.0), measured("read", 1.0)]},
    ]
    found = {(way.name, way.doing): way for way in compare_rounds(rounds, "a")}
    assert {key: way.ratio for key, way in found.items()} == {
        ("a", "write"): 1.0,
        ("a", "read"): 1.0,
        ("b", "write"): 0.5,
        ("b", "read"): 2.0,
    }
    assert found["b", "write"].bandwidths == (50.0, 25.0)
    assert found["b", "write"].bandwidth == 37.5


@given(st.integers(1, 5), st.integers(0, 12))
def test_in_turns_everyone_comes_in_each_round_and_begins_as_often_as_others(many: int, rounds: int) -> None:
    names = [str(k) for k in range(many)]
    found = list(order_turns(names, rounds))
    assert all(sorted(one) == names for one in found)
    firsts = [sum(one[0] == name for one in found) for name in names]
    assert len(found) == rounds
    assert max(firsts) - min(firsts) <= 1


def test_decisions_of_a_council_are_read_from_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    rows = [
        {"time": 100.0, "value": 500_000, "because": "first", "bandwidth": 0, "patterns": []},
        {"time": 101.5, "value": None, "because": "nothing", "bandwidth": 5.0, "patterns": ["shared-strided"]},
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"time": 10')
    first, second = read_decisions(log)
    assert (first.seconds, first.window, first.because) == (0.0, 0.0005, "first")
    assert (second.seconds, second.window, second.patterns) == (1.5, None, ("shared-strided",))
    assert busy_decisions([first, second]) == [second]
    assert read_decisions(tmp_path / "nothing") == []
