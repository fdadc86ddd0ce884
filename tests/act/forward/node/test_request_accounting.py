from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.forward.node.job_accounting import JobProcess, begin_request, end_request
from forebay.act.forward.node.request_accounting import count_answer, count_arrival
from forebay.model.layout import Layout
from forebay.profile.request_watch import end_period, finish, new_watch, observe

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 10), st.integers(0, 1), st.integers(0, 1 << 40), st.integers(0, 1 << 20), st.integers(0, 1)
    ),
    max_size=30,
)


@given(EVENTS)
def test_both_kernels_count_as_the_ones_for_jobs_and_for_periods_do(events: list[tuple[int, ...]]) -> None:
    together, apart = Accounts(), Accounts()
    open_requests: list[tuple[int, int]] = []
    now = 0
    for passed, file, offset, size, write in events:
        now += passed
        uses, times, row = apart.process.uses, apart.process.times, apart.process.rows[file]
        observe(apart.watch, now, file, offset, size, write)
        begin_request(uses, times, now, row, offset, size, write)
        uses, times = together.process.uses, together.process.times
        count_arrival(together.watch, uses, times, now, file, row, offset, size, write)
        open_requests.append((now, write))
        if offset % 2:
            began, was_write = open_requests.pop(0)
            finish(apart.watch, now)
            end_request(apart.process.times, now, began, was_write)
            count_answer(together.watch, together.process.times, now, began, was_write)
    assert together.all() == apart.all()


class Accounts:
    """Those of a node with two files, and of its only process."""

    def __init__(self) -> None:
        self.watch = new_watch(2)
        self.process = JobProcess(part=None)  # type: ignore[arg-type]
        for number in (1, 0):
            self.process.add_file(number, 10 + number, Layout(count=1))

    def all(self) -> tuple[Any, ...]:
        process = self.process
        return np.array(self.watch).tolist(), process.uses.tolist(), process.times.tolist(), end_period(self.watch, 999)
