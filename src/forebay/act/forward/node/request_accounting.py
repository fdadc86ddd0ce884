"""What an I/O node counts of each read and write: for its job, and for the period that the council observes.

Each is one kernel, since every request calls both.
"""

from forebay.act.forward.node.job_accounting import begin_request, end_request
from forebay.model.kernels import Array, hot_kernel
from forebay.profile.request_watch import finish, observe


@hot_kernel
def count_arrival(
    watch: Array, uses: Array, times: Array, now: int, file: int, row: int, offset: int, size: int, write: int
) -> None:
    """Count a request that arrives `now`: `watch` is the node's, `uses` and `times` are those of the client's process.

    `file` is the file's number at the node, and `row` its row in `uses`.
    """
    observe(watch, now, file, offset, size, write)
    begin_request(uses, times, now, row, offset, size, write)


@hot_kernel
def count_answer(watch: Array, times: Array, now: int, began: int, write: int) -> None:
    """Count the answer to a request that arrived at `began`."""
    finish(watch, now)
    end_request(times, now, began, write)
