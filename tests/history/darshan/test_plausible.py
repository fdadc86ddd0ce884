"""Numbers that can't be true."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.darshan.plausible import impossible
from forebay.history.darshan.summary import read_log
from forebay.history.limits import LARGEST
from support.darshan_logs import all_logs, wheel_log

NOT_NUMBERS = [math.nan, math.inf, -math.inf, -1, -0.5, LARGEST + 1, 2**63, 1e300]


def row() -> dict[str, Any]:
    return read_log(wheel_log("sample-badost.darshan")).row


def test_every_real_log_is_plausible() -> None:
    assert [path.name for path in all_logs() if impossible(read_log(path).row)] == []


@pytest.mark.parametrize("value", NOT_NUMBERS)
def test_a_number_that_can_not_be_is_found_wherever_it_stands(value: float) -> None:
    found = row() | {"total_bytes": value}
    assert impossible(found) == f"total_bytes of {value}"
    found = row()
    found["module_rows"][-1]["time_by_slowest"] = value
    assert impossible(found) == f"time_by_slowest of {value}"
    found = row()
    found["osts"]["io_time"][-1] = value
    assert impossible(found) == f"io_time of {value}"


@given(job_id=st.integers(-(2**63), 2**63 - 1), uid=st.integers(-(2**63), 2**63 - 1))
def test_names_may_be_any_number(job_id: int, uid: int) -> None:
    assert impossible({"job_id": job_id, "uid": uid, "stripe_offset": -1, "module_rows": [], "osts": {}}) is None
