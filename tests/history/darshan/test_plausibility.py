"""Numbers that can't be true."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.darshan.log import _record, counter_columns
from forebay.history.darshan.log_format import UnreadableLog
from forebay.history.darshan.plausibility import find_impossible
from forebay.history.darshan.summary import read_log
from forebay.history.run_fields import LARGEST
from support.darshan_logs import MPIIO, POSIX, STDIO, Parts, all_logs, wheel_log

NOT_NUMBERS = [math.nan, math.inf, -math.inf, -1, -0.5, LARGEST + 1, 2**63, 1e300]


def row() -> dict[str, Any]:
    return read_log(wheel_log("sample-badost.darshan")).row


def test_every_real_log_is_plausible() -> None:
    assert [path.name for path in all_logs() if find_impossible(read_log(path).row)] == []


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_a_number_that_can_not_be_is_found_wherever_it_stands(value: float) -> None:
    found = row() | {"total_bytes": value}
    assert find_impossible(found) == f"total_bytes is {value}"
    found = row()
    found["module_rows"][-1]["time_by_slowest"] = value
    assert find_impossible(found) == f"time_by_slowest is {value}"
    found = row()
    found["osts"]["io_time"][-1] = value
    assert find_impossible(found) == f"io_time is {value}"


@given(job_id=st.integers(-(2**63), 2**63 - 1), uid=st.integers(-(2**63), 2**63 - 1))
def test_names_may_be_any_number(job_id: int, uid: int) -> None:
    assert find_impossible({"job_id": job_id, "uid": uid, "stripe_offset": -1, "module_rows": [], "osts": {}}) is None


NUMBERS = {POSIX: "POSIX", MPIIO: "MPI-IO", STDIO: "STDIO"}


@pytest.mark.parametrize(
    ("module", "counter", "value", "reason"),
    [
        (POSIX, "SEQ_WRITES", 256 * 17, r"4,352 sequential writes among [\d,]+"),
        (POSIX, "CONSEC_READS", 10**6, r"1,000,000 consecutive reads among [\d,]+"),
        (POSIX, "FILE_NOT_ALIGNED", 10**6, r"1,000,000 unaligned requests among [\d,]+"),
        (POSIX, "STRIDE3_COUNT", 10**6, r"1,000,\d+ requests with a known stride among [\d,]+"),
        (POSIX, "SIZE_READ_100_1K", 10**6, r"1,000,\d+ reads of a known size among [\d,]+"),
        (MPIIO, "SIZE_WRITE_AGG_1M_4M", 10**6, r"1,000,\d+ writes of a known size among [\d,]+"),
        (POSIX, "F_SLOWEST_RANK_TIME", 184.0, r"184 s of I/O by one process in a run of \d+ s"),
        (STDIO, "F_WRITE_TIME", 184.0, r"184 s of I/O by one process in a run of \d+ s"),
        (MPIIO, "F_READ_TIME", 4 * 184.0, r"184 s of I/O by one process in a run of \d+ s"),
    ],
)
def test_a_record_that_can_not_be_true_is_found(
    tmp_path: Path, module: int, counter: str, value: float, reason: str
) -> None:
    name, log = NUMBERS[module], Parts(wheel_log("ior_hdf5_example.darshan"))
    records = np.frombuffer(log.module(module), dtype=_record(name)).copy()
    records["fcounters" if counter.startswith("F_") else "counters"][0, counter_columns(name)[counter]] = value
    path = log.with_module(module, [records.tobytes()]).write(tmp_path / "x.darshan")
    with pytest.raises(UnreadableLog, match=f"is implausible: a {name} record shows {reason}"):
        read_log(path)


def test_a_process_with_threads_may_spend_more_on_all_its_files_than_the_run_took() -> None:
    row = read_log(wheel_log("dxt.darshan")).row
    assert row["time_by_slowest"] > 7 * row["run_time"]


def test_a_log_without_an_end_has_no_time_to_compare_with(tmp_path: Path) -> None:
    path = Parts(wheel_log("sample.darshan")).with_job(end=0).write(tmp_path / "x.darshan")
    assert read_log(path).row["time_by_slowest"] > 0


@pytest.mark.parametrize("path", all_logs(), ids=lambda p: p.name[:45])
def test_shares_are_between_0_and_100(path: Path) -> None:
    row = read_log(path).row
    assert row["seq_pct"] is None or 0 <= row["seq_pct"] <= 100
    assert max(row[n] for n in ("consec_requests", "strided_requests", "unaligned_requests")) <= row["pattern_requests"]
