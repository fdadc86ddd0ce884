"""One run: jobs on a machine under a scheduling policy."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.decide.schedule.memory import Memory, new_memory
from forebay.decide.schedule.policies import OTHER, number
from forebay.model.errors import PolicyError
from forebay.model.jobs import Jobs
from forebay.simulate.jobs import engine

INSTANTS_PER_SLICE = 5_000  # Ctrl-C takes effect between slices
_FAULTS = {
    engine.TOO_LARGE: "starts a job that does not fit on what is free",
    engine.NOT_WAITING: "starts a job that does not wait",
    engine.STUCK: "leaves a job waiting on an idle machine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMachine:
    """Compute nodes, and bytes of burst buffer in one pool."""

    nodes: int
    space: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """What became of each job, in the order of the jobs."""

    policy: str
    starts: NDArray[np.float64]  # of its nodes
    ends: NDArray[np.float64]
    killed: NDArray[np.bool_]  # at its wall time
    passes: int  # calls of the policy


def simulate_jobs(
    jobs: Jobs, machine: JobMachine, policy: Policy, *, seed: int = 0, progress: Callable[[float], None] | None = None
) -> JobRun:
    """Run jobs that fit on the machine (see `reject_oversized`). `progress` gets the number of jobs that arrived."""
    rows = jobs.rows
    if (rows["nodes"] > machine.nodes).any() or (rows["bytes"] > machine.space).any() or (rows["walltime"] <= 0).any():
        raise ValueError("reject jobs that exceed the machine, or that have no wall time, first")
    state = engine.new_state(rows, machine.nodes, machine.space)
    memory = new_memory(policy, seed=seed, capacity=len(jobs) + 1)
    which = number(policy)
    while True:
        if which == OTHER:
            code = _ask_policy(state, policy, memory)
        else:
            code = engine.run(state, memory, which, INSTANTS_PER_SLICE)
        if code == engine.FINISHED:
            break
        if code != engine.MORE:
            culprit, now = int(state.counts[0]["culprit"]), float(state.machine[0]["now"])
            raise PolicyError(f"{policy.name}: {_FAULTS[code]} (job {jobs.ids[culprit]} at {now:g} s)")
        if progress:
            progress(float(state.counts[0]["arrived"]))
    return JobRun(
        policy=policy.name,
        starts=state.fates["start"].copy(),
        ends=state.fates["end"].copy(),
        killed=rows["runtime"] > rows["walltime"],
        passes=int(state.counts[0]["passes"]),
    )


def _ask_policy(state: engine.State, policy: Policy, memory: Memory) -> int:
    """Process one instant with a policy of another package."""
    code = engine.advance(state)
    if code != engine.MORE:
        return code
    policy.decide(engine.view_of(state), memory, state.starts)
    return engine.carry_out(state)
