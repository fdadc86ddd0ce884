"""Jobs of a batch system: nodes, times, and the space that each needs in a burst buffer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forebay.model.kernels import Array
from forebay.model.units import format_size, plural

JOB = np.dtype(
    [
        ("submit", "f8"),  # s
        ("nodes", "i8"),
        ("walltime", "f8"),  # s, asked for
        ("runtime", "f8"),  # s, true; a job ends at the smaller of run time and wall time
        ("bytes", "i8"),  # of burst buffer, on all nodes together
        ("bytes_in", "i8"),  # staged in before the start
        ("bytes_out", "i8"),  # staged out after the end
        ("user", "i4"),  # like the next three an index into the names; -1 if unknown
        ("project", "i4"),
        ("tier", "i4"),
        ("application", "i4"),
    ]
)
"""A job. Rows are in order of submission; of equal times, in order of the file."""


class BadRow(NamedTuple):
    """A job that was left out: its file, its line (0 if unknown), and the reason.

    >>> str(BadRow("jobs.csv", 7, "nodes must be at least 1, not '0'"))
    "jobs.csv:7: nodes must be at least 1, not '0'"
    """

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Jobs of one file, and the rows of it that were rejected.

    `name` is what results call the file. `lines` holds the line of each job, or 0. `left_out` is a phrase for the jobs
    that never ran.
    """

    rows: Array
    ids: Sequence[str]
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    rejected: tuple[BadRow, ...] = ()
    left_out: str = ""
    name: str = ""
    file: str = ""
    lines: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, chosen: NDArray[np.bool_]) -> "Jobs":
        """Return the chosen jobs, in order."""
        return replace(
            self,
            rows=self.rows[chosen],
            ids=[self.ids[i] for i in np.flatnonzero(chosen).tolist()],
            lines=None if self.lines is None else self.lines[chosen],
        )


def reject_oversized(jobs: Jobs, nodes: int, space: int) -> Jobs:
    """Reject the jobs that can never start on a machine of this size, as Slurm does."""
    large, wide = jobs.rows["bytes"] > space, jobs.rows["nodes"] > nodes
    if not (large | wide).any():
        return jobs
    rejected = []
    for i in np.flatnonzero(large | wide).tolist():
        job = jobs.rows[i]
        if wide[i]:
            reason = f"needs {plural(int(job['nodes']), 'node')}, but the machine has {nodes:,}"
        else:
            reason = f"needs {format_size(job['bytes'])}, but the burst buffer has {format_size(space)}"
        line = 0 if jobs.lines is None else int(jobs.lines[i])
        rejected.append(BadRow(jobs.file, line, f"job {jobs.ids[i]} {reason}"))
    return replace(jobs.select(~(large | wide)), rejected=(*jobs.rejected, *rejected))
