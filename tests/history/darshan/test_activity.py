"""What a log's heat maps and traces of requests say about the times of a run."""

import math
import struct
from pathlib import Path

import numpy as np
import pytest

from forebay.history.darshan.activity import COLUMNS, ROWS, Activity, read_activity
from forebay.history.darshan.log import open_log
from support.darshan_logs import Parts, wheel_log

DXT_POSIX, HEATMAP = 10, 15  # in format 3.41
POSIX_HEAT, MPIIO_HEAT = 1, 3668870418325792824
_LOG = "pq_app_readAB_writeC_id71326_7-31-5658-2037904274838284930_55623.darshan"


def heat(rank: int, width: float, writes: list[int], reads: list[int], kind: int = POSIX_HEAT) -> bytes:
    head = struct.pack("<QqdqQQ", kind, rank, width, len(writes), 0, 0)
    return head + struct.pack(f"<{len(writes) + len(reads)}q", *writes, *reads)


def trace(rank: int, writes: list[tuple[int, float, float]], reads: list[tuple[int, float, float]]) -> bytes:
    """Requests as bytes, begin and end."""
    head = struct.pack("<Qqq64s2q", 1, rank, 0, b"node%d" % (rank // 2), len(writes), len(reads))
    return head + b"".join(struct.pack("<2q2d", 0, *request) for request in writes + reads)


def read(path: Path) -> Activity | None:
    with open_log(path) as log:
        return read_activity(log.sections, log.modules()[0], log.job())


def log_of(path: Path, module: int, records: list[bytes], nprocs: int = 4, run_time: int = 10) -> Path:
    parts = Parts(wheel_log(_LOG)).widened().with_job(nprocs=nprocs)
    parts = parts.with_job(start=1_600_000_000).with_job(end=1_600_000_000 + run_time)
    return parts.with_module(module, records).with_module_version(module, 1).write(path)


def test_bins_of_heat_maps_become_equal_parts_of_the_run(tmp_path: Path) -> None:
    records = [heat(0, 1.0, [0, 1200] + 8 * [0], 10 * [0]), heat(3, 1.0, 10 * [0], 9 * [0] + [600])]
    activity = read(log_of(tmp_path / "heat.darshan", HEATMAP, records))
    assert activity is not None and (activity.module, activity.resolution, activity.nodes) == ("HEATMAP", 1.0, None)
    reads, writes = activity.moved
    second = COLUMNS // 10
    assert writes[0, second : 2 * second] == pytest.approx(1200 / second) and writes.sum() == pytest.approx(1200)
    assert reads[3, -second:] == pytest.approx(600 / second) and reads.sum() == pytest.approx(600)
    assert activity.by_process.tolist() == [[0, 0, 0, 600], [1200, 0, 0, 0]]


def test_calls_of_mpi_io_do_not_count_beside_requests(tmp_path: Path) -> None:
    calls = heat(1, 1.0, [50], [0], MPIIO_HEAT)
    both = read(log_of(tmp_path / "both.darshan", HEATMAP, [heat(0, 1.0, [7], [0]), calls]))
    alone = read(log_of(tmp_path / "alone.darshan", HEATMAP, [calls]))
    assert both is not None and both.by_process[1].tolist() == [7, 0, 0, 0]
    assert alone is not None and alone.by_process[1].tolist() == [0, 50, 0, 0]


def test_many_processes_share_rows(tmp_path: Path) -> None:
    records = [heat(rank, 1.0, [1], [0]) for rank in range(1000)]
    activity = read(log_of(tmp_path / "many.darshan", HEATMAP, records, nprocs=1000))
    assert activity is not None and activity.moved.shape == (2, ROWS, COLUMNS)
    per_row = activity.moved[1].sum(axis=1)
    assert per_row.min() >= 1000 // ROWS and per_row.max() <= 1000 // ROWS + 1
    assert activity.by_process[1].tolist() == [1] * 1000


def test_traced_requests_are_spread_over_their_time(tmp_path: Path) -> None:
    records = [trace(1, [(1000, 0.0, 10.0)], [(10, 5.01, 5.02)]), trace(2, [(500, 9.0, 10.0)], [])]
    activity = read(log_of(tmp_path / "trace.darshan", DXT_POSIX, records))
    assert activity is not None and (activity.module, activity.nodes) == ("DXT_POSIX", 2)
    assert activity.moved[1, 1] == pytest.approx(1000 / COLUMNS)
    assert activity.moved[0, 1, COLUMNS // 2] == 10
    assert activity.by_process.tolist() == [[0, 10, 0, 0], [0, 1000, 500, 0]]


def test_impossible_times_and_sizes_keep_the_sums(tmp_path: Path) -> None:
    odd = [(100, 8.0, 2.0), (10, math.nan, math.inf), (1, -5.0, 400.0), (-7, 1.0, 2.0)]
    activity = read(log_of(tmp_path / "odd.darshan", DXT_POSIX, [trace(0, odd, [])]))
    assert activity is not None and np.isfinite(activity.moved).all()
    assert activity.moved.sum() == pytest.approx(111) and activity.by_process.sum() == 111


@pytest.mark.parametrize(
    ("module", "record"),
    [
        (HEATMAP, struct.pack("<QqdqQQ", 1, 0, 1.0, -1, 0, 0)),
        (HEATMAP, struct.pack("<QqdqQQ", 1, 0, 1.0, 1 << 60, 0, 0)),
        (HEATMAP, heat(99, 1.0, [1], [1])),
        (HEATMAP, heat(0, math.nan, [1], [1])),
        (DXT_POSIX, struct.pack("<Qqq64s2q", 1, 0, 0, b"", -1, 2)),
        (DXT_POSIX, struct.pack("<Qqq64s2q", 1, 0, 0, b"", 1 << 62, 1 << 62)),
        (DXT_POSIX, trace(0, [(1, 0.0, 1.0)], [])[:-5]),
        (DXT_POSIX, trace(-1, [(1, 0.0, 1.0)], [])),
    ],
)
def test_damaged_records_show_nothing(module: int, record: bytes, tmp_path: Path) -> None:
    assert read(log_of(tmp_path / "damaged.darshan", module, [record])) is None


def test_a_real_trace_shows_the_bytes_of_its_counters() -> None:
    activity = read(wheel_log("ior_hdf5_example.darshan"))
    assert activity is not None and activity.by_process.sum(axis=1).tolist() == [4202504, 4195800]


def test_a_log_without_times_shows_nothing() -> None:
    assert read(wheel_log("sample-badost.darshan")) is None
