"""A plan for Slurm's waiting jobs: which start when, and why others wait."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from forebay.act.slurm.planner.cluster import SlurmJob

_LATE = 60.0  # seconds between a decision and the begin time that Slurm computes from it


class Because(StrEnum):
    """Why a job has its place in the plan. Programs read the code, people the sentence beside it."""

    STARTS = "starts"
    STAGES = "stages"
    NODES = "nodes"
    SPACE = "space"
    BOTH = "nodes-and-space"
    BEHIND = "behind"
    SLURM = "slurm"
    HELD = "held"
    EXCLUDED = "excluded"
    TOO_LARGE = "too-large"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A waiting job. `start` is when the plan starts it, inf if that is unknown, nan if it is not planned.

    `may_stage` is whether it may take its burst buffer already; `holds` is whether it has done so.
    """

    job: SlurmJob
    amount: int
    space: int
    start: float
    because: Because
    sentence: str
    holds: bool = False
    may_stage: bool = False
    is_overdue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that holds nodes or space until `end_by` at the latest, and until `expected_end` by prediction."""

    job: SlurmJob
    amount: int
    space: int
    start: float
    end_by: float
    expected_end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What jobs share: nodes (or processors) and bytes of burst buffer, all and free."""

    unit: str
    nodes: int
    free_nodes: int
    pool: str
    space: int
    free_space: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`planned` jobs are in the order in which they go, `deep` ones are behind; `others` wait for something else.

    `ended` are jobs that Slurm has not yet forgotten.
    """

    at: float
    machine: Machine
    planned: tuple[PlannedJob, ...]
    others: tuple[PlannedJob, ...]
    running: tuple[RunningJob, ...]
    deep: tuple[SlurmJob, ...] = ()
    ended: tuple[RunningJob, ...] = ()

    @property
    def waiting_jobs(self) -> Iterator[SlurmJob]:
        return chain((each.job for each in (*self.planned, *self.others)), self.deep)


def amount_of(job: SlurmJob, machine: Machine) -> int:
    return max(job.nodes if machine.unit == "nodes" else job.cpus, 1)


def space_of(job: SlurmJob, machine: Machine, buffers: Mapping[str, int]) -> int:
    """Return the bytes that the job holds or needs of the planner's pool."""
    if job.number in buffers:
        return buffers[job.number]
    return round(job.space) if machine.pool and (not job.pool or job.pool == machine.pool) else 0


def is_own_begin(job: SlurmJob, kept: float) -> bool:
    """Whether the job's begin time may be the planner's, which keeps the job back until `kept`; else a user set it."""
    return job.eligible <= kept + _LATE
