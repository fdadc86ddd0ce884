"""Which bytes processes access, and the paper's experiments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.errors import UserError
from forebay.model.layout import KIB
from forebay.model.situation import OPERATIONS, PATTERNS
from forebay.simulate.requests.workload import PAPER_WINDOWS, Workload, paper_experiments
from support.fields import replace_field

MADE = st.builds(
    lambda rounds, rest, **w: Workload(total=rounds * w["processes"] * w["request"] + rest, **w),
    rounds=st.integers(1, 5),
    rest=st.integers(0, 3),
    processes=st.integers(1, 9),
    pattern=st.sampled_from(PATTERNS),
    operation=st.sampled_from(OPERATIONS),
    request=st.integers(5, 20),
)


@given(MADE)
def test_every_byte_is_accessed_once(workload: Workload) -> None:
    found: dict[int, list[int]] = {}
    for row in workload.rows():
        for number in range(row["requests"]):
            begin = row["base"] + number * row["step"]
            found.setdefault(int(row["file"]), []).extend(range(begin, begin + row["size"]))
    assert len(found) == workload.files
    for places in found.values():
        assert sorted(places) == list(range(len(places)))
    accessed = sum(map(len, found.values()))
    assert workload.total - workload.processes * workload.request < accessed <= workload.total


def test_strided_processes_take_turns() -> None:
    w = Workload(processes=4, pattern="shared-strided", operation="write", request=10, total=120)
    assert w.rows()["base"].tolist() == [0, 10, 20, 30]
    assert set(w.rows()["step"].tolist()) == {40}
    assert set(w.rows()["write"].tolist()) == {1}


def test_processes_begin_within_the_spread() -> None:
    w = Workload(processes=100, pattern="shared-strided", operation="read", request=10, total=1000, spread=1e-3)
    starts = w.starts(np.random.default_rng(1))
    assert 0 <= starts.min() < starts.max() < 1_000_000


def test_the_paper_has_144_experiments_of_4_gib() -> None:
    every = paper_experiments()
    assert len({e.name for e in every}) == 144
    assert {e.workload.total for e in every} == {4 << 30}
    assert {(e.nodes, e.workload.processes, e.workload.request // KIB) for e in every} == {
        (n, p, r) for n in (1, 2, 4, 8) for p in (128, 256, 512) for r in (32, 256)
    }
    assert [w / 1e6 for w in PAPER_WINDOWS] == [0.125, 0.25, 0.5, 1, 2, 4, 8]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("pattern", "shared-strode", "did you mean 'shared-strided'"),
        ("operation", "append", "no operation 'append'"),
        ("processes", 0, "must be 1 or more, not 0"),
        ("request", -5, "must be 1 or more, not -5"),
        ("total", 10, "at least one request"),
        ("think", -1.0, "must be from 0 to 3600"),
        ("spread", float("nan"), "must be from 0 to 3600"),
    ],
)
def test_what_cannot_be_is_refused(field: str, value: object, says: str) -> None:
    good = Workload(processes=2, pattern="shared-strided", operation="read", request=10, total=100)
    with pytest.raises(UserError, match=says):
        replace_field(good, field, value)
