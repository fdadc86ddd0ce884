"""What a log says, against what `darshan job_stats` says of it."""

import gzip
import math
import struct
import subprocess
import sys
from array import array
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
from darshan.cli.job_stats import process_logfile
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.darshan import log as log_module
from forebay.history.darshan.ingest_worker import read_one
from forebay.history.darshan.log_format import Component, FileLayout, UnreadableLog
from forebay.history.darshan.ost_usage import OstUsage
from forebay.history.darshan.process_logs import merge_processes
from forebay.history.darshan.summary import program_name, read_log
from forebay.history.run_fields import ORDERS
from forebay.history.scanned_log import pack_summary, unpack_summary
from support.darshan_logs import LUSTRE, POSIX, Parts, all_logs, wheel_log
from support.darshan_runs import Handle, record, write_log, write_processes

LOGS = all_logs()
NAMES = ("total_bytes", "time_by_slowest", "perf_by_slowest", "total_files", "partial_flag")


def same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.name[:45])
@pytest.mark.filterwarnings("ignore")
def test_each_module_agrees_with_job_stats(path: Path) -> None:
    row = read_log(path).row
    ours = {m["module"]: m for m in row["module_rows"]}
    for module in ("POSIX", "MPI-IO", "STDIO"):
        theirs = process_logfile(str(path), module, None, None)
        assert theirs.empty == (module not in ours)
        if not theirs.empty:
            told = theirs.iloc[0]
            assert {n: same(ours[module][n], told[n]) for n in NAMES} == dict.fromkeys(NAMES, True)
            for name in ("job_id", "uid", "nprocs", "run_time"):
                assert row[name] == told[name]
            assert (int(row["start_time"]), int(row["end_time"])) == (told["start_time"], told["end_time"])


def test_a_file_of_posix_and_of_stdio_is_one_file(tmp_path: Path) -> None:
    handles = {(file, rank): Handle() for file, rank in ((5, 0), (5, 1), (6, 0))}
    for handle in handles.values():
        handle.open()
        handle.write(0, 100)
    streams = [record("STDIO", file, 0, {"OPENS": 1, "WRITES": 1, "BYTES_WRITTEN": 10}) for file in (6, 7)]
    row = read_log(write_log(tmp_path / "a.darshan", 3, handles, streams=streams)).row
    assert (row["total_files"], row["shared_files"]) == (3, 1)
    assert {m["module"]: m["total_files"] for m in row["module_rows"]} == {"POSIX": 2, "STDIO": 2}


def test_a_file_with_a_layout_for_each_process_is_one_file_on_its_osts() -> None:
    stripes = [FileLayout(5, (Component(1 << 20, 0, -1, 4),), array("q", [1, 2, 3, 4]), "")] * 9
    alone = [FileLayout(6, (Component(1 << 20, 0, -1, 1),), array("q", [4]), "")] * 9
    usage = OstUsage(stripes + alone)
    usage.add(np.array([5, 6], np.uint64), np.array([8 << 20, 4 << 20]), np.array([1.0, 1.0]), np.array([8 << 20] * 2))
    columns = usage.columns()
    assert (columns["ost"], columns["files"]) == ([1, 2, 3, 4], [1, 1, 1, 2])
    assert (columns["alone_files"], columns["total_bytes"]) == ([0, 0, 0, 1], [2 << 20] * 3 + [6 << 20])
    assert usage.list_files() == {"files": [[5], [5], [5], [5, 6]], "alone_files": [[], [], [], [6]]}
    assert usage.list_files(most=4) is None


def test_a_file_of_several_processes_without_mpi_counts_once(tmp_path: Path) -> None:
    parts = [(log.row, log.files) for log in map(read_log, write_processes(tmp_path, 3))]
    run = merge_processes(parts)
    assert (run["total_files"], run["shared_files"], run["module_rows"][0]["total_files"]) == (4, 1, 4)
    assert dict(zip(run["osts"]["ost"], run["osts"]["files"], strict=True)) == {1: 1, 2: 1, 3: 2}
    assert run["osts"]["alone_files"] == [1, 1, 2]
    kept = [unpack_summary(pack_summary(*part)) for part in parts]
    assert merge_processes(kept) == run
    for row, _ in parts:
        del row["file_ids"]  # as an older version read it
    assert merge_processes(parts)["osts"]["files"] == [1, 1, 4]


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.name[:45])
def test_posix_and_stdio_add_up_and_mpiio_is_not_counted_over_posix(path: Path) -> None:
    row = read_log(path).row
    modules = {m["module"]: m for m in row["module_rows"]}
    counted = [m for n, m in modules.items() if n in ("POSIX", "STDIO", "DFS")]
    if "POSIX" in row["modules"].split(",") or "MPI-IO" not in modules:
        assert row["total_bytes"] == sum(m["total_bytes"] for m in counted) == row["bytes_read"] + row["bytes_written"]
        assert same(row["time_by_slowest"], sum(m["time_by_slowest"] for m in counted))
    if row["time_by_slowest"] > 0:
        assert same(row["perf_by_slowest"], row["total_bytes"] / row["time_by_slowest"])
    assert 0 <= row["io_procs"] <= row["nprocs"]
    for part in row["request_rows"]:
        kinds = [part[kind] for kind in ORDERS if part[kind] is not None]
        assert 0 <= min(kinds, default=0) <= sum(kinds) <= part["requests"]
        assert max(part["shared_bytes"], part["request_bytes"]) <= part["total_bytes"] <= row["total_bytes"]
    assert row["io_less_1k"] + row["io_1k_to_100k"] <= row["read_requests"] + row["write_requests"]
    used = zip(row["osts"]["filesystem"], row["osts"]["files"], strict=True)
    assert sum(mount == row["filesystem"] and files > 0 for mount, files in used) == (row["stripe_count"] or 0)


def test_without_posix_mpiio_counts(tmp_path: Path) -> None:
    log = Parts(wheel_log("ior_hdf5_example.darshan"))
    row = read_log(log.without_module(POSIX).write(tmp_path / "x.darshan")).row
    modules = {m["module"]: m for m in row["module_rows"]}
    assert "POSIX" not in modules
    assert row["total_bytes"] == modules["MPI-IO"]["total_bytes"] + modules["STDIO"]["total_bytes"] > 0
    assert row["read_requests"] > 0


def test_a_log_without_posix_has_its_stdio() -> None:
    row = read_log(wheel_log("noposix.darshan")).row
    assert (row["total_bytes"], row["stripe_count"], row["seq_pct"]) == (1841971138, 222, None)


def test_what_table_1_of_the_paper_lists() -> None:
    row = read_log(wheel_log("sample.darshan")).row
    assert row["app"] == "vpicio_uni"
    told = ("nprocs", "run_time", "stripe_count", "stripe_size", "file_stripe_count")
    assert [row[n] for n in told] == [2048, 117.0, 24, 1 << 20, 24]
    assert row["total_bytes"] == 2199023263277


def test_the_sick_ost_of_the_sample_stands_out() -> None:
    osts = read_log(wheel_log("sample-badost.darshan")).row["osts"]
    *others, worst = sorted(zip(osts["slowness"], osts["ost"], osts["files"], osts["alone_files"], strict=True))
    assert worst[1:] == (14, 85, 85)
    assert worst[0] > 40
    assert max(others)[0] < 1.3


def test_a_shared_file_is_told_from_a_file_per_process() -> None:
    shared, apart = (read_log(wheel_log(f"sample{n}.darshan")).row for n in ("", "-goodost"))
    assert shared["shared_bytes"] > 0.99 * shared["total_bytes"]
    assert apart["shared_bytes"] == 0
    assert apart["total_files"] >= apart["nprocs"]


def test_the_heat_maps_tell_which_processes_did_io_to_a_file_of_all() -> None:
    shared = [p for p in LOGS if p.name == "mpi-io-test-x86_64-3.4.7.darshan"]
    if not shared:
        pytest.skip("needs the logs of the shared data folder")
    assert read_log(shared[0]).row["io_procs"] == 4


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.name[:45])
def test_chunks_and_accumulators_change_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_log(path).row
    monkeypatch.setattr(log_module, "CHUNK", 16)
    monkeypatch.setattr(log_module, "AT_ONCE", 64)
    monkeypatch.setattr(log_module, "SMALL", 0)
    pieces = read_log(path).row
    for name in ("total_bytes", "read_requests", "write_sizes", "osts", "io_procs", "stripe_size"):
        assert pieces[name] == whole[name]
    assert same(pieces["time_by_slowest"], whole["time_by_slowest"])
    assert pieces["total_files"] == whole["total_files"]  # also of files that come to several accumulators


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    log = Parts(wheel_log("sample-badost.darshan"))
    records = log.module(POSIX)[: 664 * 2048]
    log.with_module(POSIX, repeat(records, 60)).write(tmp_path / "big.darshan")
    peaks = [_peak(path) for path in (wheel_log("sample-badost.darshan"), tmp_path / "big.darshan")]
    assert peaks[1] < peaks[0] + 40e6  # 81 MB of records more
    assert peaks[1] < 500e6


def _peak(path: Path) -> float:
    """Bytes of memory at most, of a process of its own that reads the log."""
    code = (
        "import sys; from pathlib import Path; from forebay.history.darshan.summary import read_log\n"
        "read_log(Path(sys.argv[1]))\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    command = [sys.executable, "-c", code, str(path)]
    return 1024 * float(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


def test_a_progressive_layout_spreads_bytes_by_the_part_of_the_file_they_lie_in() -> None:
    mib = 1 << 20
    parts = (Component(mib, 0, 4 * mib, 1), Component(mib, 4 * mib, 20 * mib, 2), Component(mib, 20 * mib, -1, 4))
    layout = FileLayout(7, parts, array("q", [3, 5, 9, -1, -1, -1, -1]), "fast")
    targets = OstUsage([layout])
    targets.add(np.array([7], dtype=np.uint64), np.array([9 * mib]), np.array([9.0]), np.array([9 * mib]))
    found = targets.columns()
    assert found["ost"] == [3, 5, 9]
    assert found["total_bytes"] == [4 * mib, 3 * mib, 2 * mib]
    assert found["io_time"] == [4.0, 3.0, 2.0]
    assert found["alone_files"] == [0, 0, 0]
    assert targets.main_layout() == (mib, 2, 5, "fast", "")
    assert targets.most_components == 3
    assert targets.main_components() == [
        {"stripe_size": mib, "stripe_count": 1, "begin": 0, "end": 4 * mib},
        {"stripe_size": mib, "stripe_count": 2, "begin": 4 * mib, "end": 20 * mib},
    ]


def refusal(path: Path) -> str:
    with pytest.raises(UnreadableLog) as caught:
        read_log(path)
    assert "\n" not in str(caught.value)
    return caught.value.reason


def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    path, log = tmp_path / "x.darshan", wheel_log("sample.darshan")
    path.write_bytes(b"")
    assert refusal(path) == "is empty (0 bytes)"
    path.write_text("hello, this is not a Darshan log at all")
    assert refusal(path) == "is not a Darshan log"
    path.write_bytes(gzip.compress(log.read_bytes()))
    assert "gzip" in refusal(path)
    Parts(log).with_version("4.00").write(path)
    assert refusal(path) == "has log format 4.00; the newest readable one is 3.41"
    Parts(log).with_version("2.06").write(path)
    assert "the oldest readable one is 3.00" in refusal(path)
    assert "no such file" in refusal(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["sample.darshan", "sample-dxt-simple.darshan", "noposix.darshan"])
def test_wherever_a_log_is_cut_it_is_said_to_be_truncated(name: str, tmp_path: Path) -> None:
    whole, path = wheel_log(name).read_bytes(), tmp_path / "cut.darshan"
    for length in (1, 7, 12, 100, 359, 361, 700, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert refusal(path).startswith("is truncated") or length < 2


@given(data=st.data())
def test_a_damaged_log_is_refused_or_read_but_never_worse(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = bytearray(wheel_log("sample-dxt-simple.darshan").read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=8)):
        whole[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "x.darshan"
    path.write_bytes(whole)
    found = read_one(str(path))
    assert (found.row is None) <= bool(found.reason)


@pytest.mark.parametrize(
    "job",
    [
        *({"nprocs": n} for n in (0, -1, (1 << 24) + 1, 1 << 40, 1 << 62)),
        *({"start": s} for s in (-5, 1 << 40, 1 << 62)),
        {"end": 1 << 62},
    ],
)
def test_a_job_that_can_not_have_been_is_damage_and_takes_no_memory(tmp_path: Path, job: dict[str, int]) -> None:
    path = Parts(wheel_log("sample.darshan")).with_job(**job).write(tmp_path / "x.darshan")
    assert refusal(path) == "is damaged: its job section has impossible values"


@pytest.mark.parametrize("end", [0, 1_000_000_000])
def test_a_job_without_an_end_took_no_time(tmp_path: Path, end: int) -> None:
    log = Parts(wheel_log("sample.darshan")).with_job(start=1_700_000_000, end=end)
    row = read_log(log.write(tmp_path / "x.darshan")).row
    assert (row["start_time"], row["end_time"], row["run_time"]) == (1_700_000_000, 1_700_000_000, 0)


@pytest.mark.parametrize("rank", [2048, 1 << 40, -2])
def test_records_of_processes_that_are_not_there_never_reach_the_library(tmp_path: Path, rank: int) -> None:
    log = Parts(wheel_log("sample.darshan"))
    records = np.frombuffer(log.module(POSIX), dtype="u1").copy()
    records[8:16] = np.frombuffer(np.int64(rank).tobytes(), dtype="u1")
    path = log.with_module(POSIX, [records.tobytes()]).write(tmp_path / "x.darshan")
    assert refusal(path) == "is damaged: its POSIX records have ranks outside its 2048 processes"


def layout_of(path: Path, place: int, value: int, out: Path) -> Path:
    """The log with another number in the first record of LUSTRE: file, rank, OSTs, MDTs, offset, size, width, OSTs."""
    log = Parts(path)
    records = bytearray(log.module(LUSTRE))
    struct.pack_into("<q", records, 8 * place, value)
    return log.with_module(LUSTRE, [bytes(records)]).write(out)


@pytest.mark.parametrize(("place", "value"), [(5, -(1 << 62)), (7, 1 << 16), (7, 1 << 62), (7, -2)])
def test_a_layout_that_can_not_be_is_damage(tmp_path: Path, place: int, value: int) -> None:
    path = layout_of(wheel_log("ior_hdf5_example.darshan"), place, value, tmp_path / "x.darshan")
    assert refusal(path) == "is damaged: a file has an impossible layout"


def test_a_layout_without_targets_is_not_one(tmp_path: Path) -> None:
    row = read_log(
        Parts(wheel_log("ior_hdf5_example.darshan")).without_module(LUSTRE).write(tmp_path / "x.darshan")
    ).row
    assert [row[n] for n in ("stripe_count", "stripe_size", "file_stripe_count")] == [None, None, None]
    assert row["osts"]["ost"] == []


@pytest.mark.parametrize(
    ("exe", "name"),
    [("/opt/bin/vpic.x deck", "vpic.x"), ("./a.out", "a.out"), ("python3 -c 'x'", "python3"), ("", ""), ("  ", "")],
)
def test_the_program_is_the_last_part_of_the_first_word(exe: str, name: str) -> None:
    assert program_name(exe) == name


def test_the_user_is_told_by_the_logs_name_or_by_its_folders(tmp_path: Path) -> None:
    log = Parts(wheel_log("ior_hdf5_example.darshan"))
    named = log.write(tmp_path / "jo_e_ior_id32324925_7-7-1-2_3.darshan")
    assert read_log(named).row["user"] == "jo_e"
    folder = tmp_path / "ada" / "ior" / "32324925" / "nid001"
    folder.mkdir(parents=True)
    assert read_log(log.write(folder / "x.darshan")).row["user"] == "ada"
    assert read_log(log.write(tmp_path / "y.darshan")).row["user"] is None
