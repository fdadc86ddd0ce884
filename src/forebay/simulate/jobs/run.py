"""One run: jobs on a machine under a scheduling policy."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.decide.schedule.memory import new_memory, with_room
from forebay.decide.schedule.policies import number
from forebay.decide.schedule.view import View
from forebay.decide.storage.policy_memory import REFUSED
from forebay.model.errors import PolicyError
from forebay.model.jobs import Jobs
from forebay.model.ledger import widen
from forebay.model.system import Platform
from forebay.simulate.jobs import engine
from forebay.simulate.jobs import space as disks
from forebay.simulate.sharing import with_more_seats

INSTANTS_PER_SLICE = 5_000  # Ctrl-C takes effect between slices
FIRST_CAPACITY = 1024
_FAULTS = {
    engine.TOO_LARGE: "starts a job that does not fit on what is free",
    engine.NOT_WAITING: "starts a job that does not wait",
    engine.STUCK: "leaves a job waiting on an idle machine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMachine:
    """Compute nodes, and bytes of burst buffer: in one pool, or on the disks of `platform` as `storage` places them.

    With `bandwidth`, the bytes/s of the parallel file system, jobs stage data in and out; else they only hold space.
    Disks hold a job's bytes in parts of at most `split` bytes, the size of the smallest disk if it is 0.
    """

    nodes: int
    space: int
    bandwidth: float = np.inf
    platform: Platform | None = None
    storage: Policy | None = None
    split: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """What became of each job, in the order of the jobs.

    Job i is on the disks `disks[first_disk[i]:first_disk[i + 1]]`.
    """

    policy: str
    starts: NDArray[np.float64]  # of its nodes
    ends: NDArray[np.float64]
    held_from: NDArray[np.float64]  # when it holds its bytes: from the start of stage-in to the end of stage-out
    held_until: NDArray[np.float64]
    killed: NDArray[np.bool_]  # at its wall time
    disks: NDArray[np.int64]
    first_disk: NDArray[np.int64]
    refused: int  # starts for which the disks had no room in the right places
    passes: int  # calls of the policy


def simulate_jobs(
    jobs: Jobs, machine: JobMachine, policy: Policy, *, seed: int = 0, progress: Callable[[float], None] | None = None
) -> JobRun:
    """Run jobs that fit on the machine (see `reject_oversized`). `progress` gets the number of jobs that arrived."""
    rows = jobs.rows
    if (rows["nodes"] > machine.nodes).any() or (rows["bytes"] > machine.space).any() or (rows["walltime"] <= 0).any():
        raise ValueError("reject jobs that exceed the machine, or that have no wall time, first")
    session = _Session(jobs, machine, policy, seed)
    while session.advance():
        if progress:
            progress(float(session.state.counts[0]["arrived"]))
    fates, counts = session.state.fates, session.state.counts[0]
    first_disk, placed = session.disks_of_jobs()
    return JobRun(
        policy=policy.name,
        starts=fates["start"].copy(),
        ends=fates["end"].copy(),
        held_from=fates["held_from"].copy(),
        held_until=fates["held_until"].copy(),
        killed=rows["runtime"] > rows["walltime"],
        disks=placed,
        first_disk=first_disk,
        refused=int(counts["refused"]),
        passes=int(counts["passes"]),
    )


class _Session:
    """Runs the engine, and gives it more room or an answer when it needs one."""

    def __init__(self, jobs: Jobs, machine: JobMachine, policy: Policy, seed: int) -> None:
        self.state = engine.new_state(jobs.rows, machine.nodes, machine.space, machine.bandwidth)
        storage, platform = machine.storage, machine.platform
        if platform is not None and storage is not None and storage.prepares:
            storage = replace(storage, decide=storage.decide(platform))
        self.space = disks.new_space(platform, storage, len(jobs), split=machine.split, seed=seed)
        self.memory = new_memory(policy, seed=seed, capacity=FIRST_CAPACITY)
        self._jobs, self._policy, self._storage, self._number = jobs, policy, storage, number(policy)

    def advance(self) -> bool:
        """Run for a while. Returns whether anything is left to do."""
        code = engine.run(self.state, self.memory, self.space, self._number, self._policy.foresees, INSTANTS_PER_SLICE)
        counts = self.state.counts[0]
        if code == engine.ASK_SCHEDULE:
            self._ask_policy()
        elif code == engine.MORE_MEMORY:
            needed = int(counts["waiting"] + counts["running"])
            self.memory = with_room(self.memory, self._policy, 2 * needed)
        elif code == engine.MORE_SEATS:
            self.state = self.state._replace(flows=with_more_seats(self.state.flows))
        elif code == disks.MORE_ROOM:
            self.space = self.space._replace(ledger=widen(self.space.ledger))
        elif code == disks.MORE_PARTS:
            self.space = disks.with_more_parts(self.space)
        elif code == disks.ASK_STORAGE:
            self._ask_storage(int(counts["culprit"]))
        elif code == engine.STUCK and counts["retries"] > 0 and self._storage is not None:
            job = self._jobs.ids[int(counts["culprit"])]
            raise PolicyError(f"{self._storage.name}: refuses job {job} even on empty disks; choose a smaller split")
        elif code in _FAULTS:
            job, now = self._jobs.ids[int(counts["culprit"])], float(self.state.machine[0]["now"])
            raise PolicyError(f"{self._policy.name}: {_FAULTS[code]} (job {job} at {now:g} s)")
        return bool(code != engine.FINISHED)

    def _ask_policy(self) -> None:
        """Let a policy of another package decide."""
        state, counts = self.state, self.state.counts[0]
        waiting, running = int(counts["waiting"]), int(counts["running"])
        queue, by_walltime = state.queue[:waiting], state.by_walltime[:waiting]
        view = View(state.machine, state.jobs, queue, by_walltime, state.running[:running])
        self._policy.decide(view, self.memory, state.starts)
        counts["next"] = engine.CARRY_OUT

    def _ask_storage(self, row: int) -> None:
        """Let a storage policy of another package choose a disk."""
        assert self._storage is not None
        at = self.space.holdings[row]
        size, start, end, duration = (at[name].item() for name in ("size", "start", "end", "duration"))
        disk = self._storage.decide(self.space.ledger, size, start, end, duration, self.space.turn)
        count = self.space.ledger.disks.size
        if not isinstance(disk, int | np.integer) or not REFUSED <= disk < count:
            raise PolicyError(f"{self._storage.name}: returns disk {disk!r}; expected 0 to {count - 1}, or {REFUSED}")
        at["answer"], at["answered"] = disk, True

    def disks_of_jobs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first entry of each job, and the disks of all jobs."""
        counts = np.zeros(len(self._jobs), np.int64)
        if not self.space.rules[0]["real"]:
            return np.zeros(len(self._jobs) + 1, np.int64), np.zeros(0, np.int64)
        counts = self.space.holdings["count"]
        firsts = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(self.space.holdings["parts"] - firsts[:-1], counts) + np.arange(firsts[-1])
        return firsts, self.space.parts["disk"][places].astype(np.int64)
