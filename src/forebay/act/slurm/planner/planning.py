"""Plans the waiting jobs of a cluster with a scheduling policy."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from forebay.act.slurm.output import OVER
from forebay.act.slurm.planner.cluster import LEAVING, RUNNING, Cluster, Nodes, Pool, SlurmJob
from forebay.act.slurm.planner.explanations import explain
from forebay.act.slurm.planner.plan import (
    Because,
    Machine,
    Plan,
    PlannedJob,
    RunningJob,
    amount_of,
    is_own_begin,
    space_of,
)
from forebay.act.slurm.planner.settings import Excluded, ScheduleSettings
from forebay.decide.policy import Policy
from forebay.decide.registry import find
from forebay.decide.schedule.estimates import find_early, lay_out
from forebay.decide.schedule.memory import Memory, new_memory, with_room
from forebay.decide.schedule.policies import OTHER, choose, number
from forebay.decide.schedule.profile import Profile, new_profile
from forebay.decide.schedule.runtimes import learn_runtime, new_past, predict_runtimes
from forebay.decide.schedule.view import KNOWN_JOB, MACHINE, View, new_starts
from forebay.model.errors import BadInput
from forebay.model.jobs import Jobs
from forebay.model.kernels import Array
from forebay.model.units import format_size

_OPEN = frozenset({"", "None", "Priority", "Resources", "BurstBufferResources", "BurstBufferStageIn"})
"""Slurm's reasons of jobs that wait for nodes or space, and for nothing else."""
_TEARDOWN = 5.0  # seconds that a job which has ended may still hold nodes or space


class Planner:
    """Plans with one policy, which keeps its memory from plan to plan, and learns how long jobs run."""

    def __init__(self, settings: ScheduleSettings, policy: Policy, ended: Jobs | None = None) -> None:
        """`ended` are jobs of the past, in any order."""
        self._settings, self._policy = settings, policy
        self._past, self._names, self._learned = new_past(), _Names(), set[str]()
        if ended is not None:
            self._learn_past(ended)
        self._capacity = 0
        self._memory: Memory | None = None
        self._profile: Profile

    def plan(self, cluster: Cluster, kept: Mapping[str, float]) -> Plan:
        """Plan the cluster. `kept` has the jobs that the planner keeps back, by number, and until when."""
        machine = describe_machine(cluster, self._settings)
        running = list_running(cluster, machine, self._settings)
        ended = tuple(list_ended(cluster, machine, self._settings))
        self._learn_ended(ended)
        waiting, others = sort_waiting(cluster, machine, self._settings, kept)
        waiting, deep = choose_depth(waiting, cluster.at, self._settings, kept)
        planned = self._plan_jobs(cluster, machine, waiting, running)
        return Plan(
            at=cluster.at, machine=machine, planned=tuple(planned), others=tuple(others), running=tuple(running),
            deep=tuple(deep), ended=ended,
        )  # fmt: skip

    def _plan_jobs(
        self, cluster: Cluster, machine: Machine, waiting: Sequence[SlurmJob], running: list[RunningJob]
    ) -> list[PlannedJob]:
        """Plan the waiting jobs. If the policy wants to know when `running` ones will end, they get that end."""
        if not waiting:
            return []
        view = make_view(cluster, machine, waiting, running, self._names)
        if self._policy.foresees:
            predict_runtimes(self._past, view.jobs, view.queue, view.running, cluster.at)
            ends = view.jobs["expected_end"][len(waiting) :].tolist()
            running[:] = [replace(holder, expected_end=end) for holder, end in zip(running, ends, strict=True)]
        rows, times = self._decide(view, len(waiting))
        late = cluster.at - self._settings.schedule.longest_wait
        overdue = [row for row, job in enumerate(waiting) if job.submit <= late]
        if overdue:  # everything else follows them, each at its earliest time
            rows = np.array([*overdue, *(row for row in rows if row not in set(overdue))], np.int64)
            times = np.full(len(rows), math.nan)
        lay_out(view, self._profile, rows, times)
        early = np.zeros(len(rows), np.bool_)
        find_early(view, self._profile, rows, times, early, self._settings.steering.ahead)
        order = np.argsort(times, kind="stable")
        jobs = [(waiting[rows[k]], float(times[k]), bool(early[k])) for k in order]
        return explain(cluster, machine, jobs, running, late, foresees=self._policy.foresees)

    def _learn_past(self, jobs: Jobs) -> None:
        """Learn from the jobs of an earlier planner's record, in order of their ends."""
        record = np.zeros(1, KNOWN_JOB)
        for row in np.argsort(jobs.rows["submit"] + jobs.rows["runtime"], kind="stable"):
            job = jobs.rows[row]
            user = jobs.users[job["user"]] if job["user"] >= 0 else ""
            record["user"], record["application"] = self._names.number("user", user), -1
            record["nodes"], record["walltime"] = job["nodes"], job["walltime"]
            learn_runtime(self._past, record, 0, job["runtime"])
            self._learned.add(jobs.ids[row])

    def _learn_ended(self, ended: Iterable[RunningJob]) -> None:
        """Learn from the jobs that have ended since the last plan; Slurm lists them for a while."""
        record = np.zeros(1, KNOWN_JOB)
        for holder in sorted(ended, key=lambda holder: holder.end_by):
            if holder.job.number not in self._learned:
                _describe(record[0], holder.job, self._names, holder.amount, holder.space)
                learn_runtime(self._past, record, 0, holder.end_by - holder.start)
        self._learned = {holder.job.number for holder in ended}

    def _decide(self, view: View, count: int) -> tuple[Array, Array]:
        """Return all waiting rows in the order of the policy, and their starts, nan where it names none."""
        if len(view.jobs) > self._capacity:
            self._capacity = 2 * len(view.jobs) + 64
            if self._memory is None:
                seed = self._settings.schedule.seed
                self._memory = new_memory(self._policy, seed=seed, capacity=self._capacity)
            else:  # what the policy remembers stays
                self._memory = with_room(self._memory, self._policy, self._capacity)
            self._profile = new_profile(6 * self._capacity + 8)
        starts = new_starts(self._capacity)
        kernel = number(self._policy)
        if kernel == OTHER:
            self._policy.decide(view, self._memory, starts)
        else:
            choose(kernel, view, self._memory, starts)
        last = starts.count[0]
        named: dict[int, float] = dict(zip(starts.rows[:last].tolist(), starts.times[:last].tolist(), strict=True))
        rest = [row for row in range(count) if row not in named]
        rows = sorted(named, key=named.__getitem__) + rest
        return np.array(rows, np.int64), np.array([named.get(row, math.nan) for row in rows])


def compile_kernels() -> None:
    """Compile what a plan needs, before jobs wait for it."""
    settings = ScheduleSettings()
    job = SlurmJob(
        number="1", name="1", state="PENDING", reason="", partition="", user="", account="", qos="", submit=0.0,
        start=0.0, end=0.0, eligible=0.0, priority=1, nice=0, nodes=1, cpus=1, limit=60.0, space=1.0, pool="",
        buffer="", is_part=False,
    )  # fmt: skip
    nodes, pool = Nodes(count=1, idle=1, cpus=1, idle_cpus=1), Pool(total=1, free=1)
    cluster = Cluster(at=1.0, jobs=(job,), nodes=nodes, pools={"": pool}, buffers={})
    Planner(settings, find("schedule", "forebay")).plan(cluster, {})  # which compiles all policies and predictions


def describe_machine(cluster: Cluster, settings: ScheduleSettings) -> Machine:
    """Return the nodes and the pool of burst buffers that the settings name; BadInput if Slurm has no such pool."""
    if (wanted := settings.schedule.pool) and wanted not in cluster.pools:
        known = ", ".join(sorted(cluster.pools)) or "none"
        raise BadInput("schedule.pool", f"Slurm has no burst-buffer pool {wanted!r}; its pools are: {known}")
    unit, nodes = settings.schedule.unit, cluster.nodes
    name = settings.schedule.pool or max(cluster.pools, key=lambda pool: cluster.pools[pool].total, default="")
    pool = cluster.pools.get(name, Pool(total=0, free=0))
    return Machine(
        unit=unit,
        nodes=nodes.count if unit == "nodes" else nodes.cpus,
        free_nodes=nodes.idle if unit == "nodes" else nodes.idle_cpus,
        pool=name if name in cluster.pools else "",
        space=pool.total,
        free_space=pool.free,
    )


def is_excluded(job: SlurmJob, excluded: Excluded) -> bool:
    return (
        any(partition in excluded.partitions for partition in job.partition.split(","))
        or job.user in excluded.users
        or job.account in excluded.accounts
        or job.qos in excluded.qos
    )


def list_running(cluster: Cluster, machine: Machine, settings: ScheduleSettings) -> list[RunningJob]:
    """List the jobs that hold nodes or space and do not wait, those that end first in front."""
    now, hidden = cluster.at, settings.exclude.partitions
    holders = []
    for job in cluster.jobs:
        space = cluster.buffers.get(job.number, 0)
        runs = job.state in RUNNING or job.state in LEAVING
        if job.is_waiting or not (runs or space) or job.partition in hidden:
            continue
        start = job.start if job.start <= now else now
        soon = now + _TEARDOWN
        holds_nodes = runs and job.state != "STAGE_OUT"
        end_by = soon if job.state not in RUNNING else max(start + job.limit, soon)
        holders.append(
            RunningJob(
                job=job,
                amount=amount_of(job, machine) if holds_nodes else 0,
                space=space,
                start=start,
                end_by=end_by,
                expected_end=end_by,
            )
        )
    return sorted(holders, key=lambda holder: holder.end_by)


def list_ended(cluster: Cluster, machine: Machine, settings: ScheduleSettings) -> Iterator[RunningJob]:
    """Yield the jobs that have run, and what they held."""
    for job in cluster.jobs:
        if job.state in OVER and job.start <= job.end <= cluster.at and not is_excluded(job, settings.exclude):
            space = 0 if math.isnan(job.space) else space_of(job, machine, {})
            yield RunningJob(
                job=job,
                amount=amount_of(job, machine),
                space=space,
                start=job.start,
                end_by=job.end,
                expected_end=job.end,
            )


def sort_waiting(
    cluster: Cluster, machine: Machine, settings: ScheduleSettings, kept: Mapping[str, float]
) -> tuple[list[SlurmJob], list[PlannedJob]]:
    """Return the waiting jobs that can be planned, in order of submission, and the others with the reason."""
    waiting: list[SlurmJob] = []
    others: list[PlannedJob] = []
    for job in cluster.jobs:
        if not job.is_waiting:
            continue
        if refusal := _find_refusal(job, cluster, machine, settings, kept):
            others.append(_other(job, machine, *refusal))
        else:
            waiting.append(job)
    return sorted(waiting, key=lambda job: (job.submit, int(job.number))), others


def _other(job: SlurmJob, machine: Machine, because: Because, sentence: str) -> PlannedJob:
    space = 0 if math.isnan(job.space) else round(job.space)
    return PlannedJob(
        job=job, amount=amount_of(job, machine), space=space, start=math.nan, because=because, sentence=sentence
    )


def _find_refusal(
    job: SlurmJob, cluster: Cluster, machine: Machine, settings: ScheduleSettings, kept: Mapping[str, float]
) -> tuple[Because, str] | None:
    """Return why the job cannot be planned, or None."""
    if is_excluded(job, settings.exclude):
        return Because.EXCLUDED, "The settings exclude its partition, user, account or QOS; Slurm alone decides."
    if job.priority == 0:
        return Because.HELD, f"It is held ({job.reason}); its owner or an administrator releases it."
    is_ours = job.reason == "BeginTime" and is_own_begin(job, kept.get(job.number, 0.0))
    if job.reason not in _OPEN and not is_ours:
        return Because.SLURM, f"Slurm lets it wait: {job.reason}."
    if job.is_part:
        return Because.SLURM, "It is part of a heterogeneous job; Slurm alone decides."
    if math.isnan(job.space) and job.number not in cluster.buffers:
        return Because.UNCLEAR, "The size of its burst buffer cannot be read; Slurm alone decides."
    amount, space = amount_of(job, machine), space_of(job, machine, cluster.buffers)
    if amount > machine.nodes:
        return Because.TOO_LARGE, f"It needs {amount} {machine.unit}; Slurm can use {machine.nodes}."
    if space > machine.space:
        whole = f"all of pool {machine.pool} is {format_size(machine.space)}"
        return Because.TOO_LARGE, f"It needs {format_size(space)}; {whole}."
    return None


def choose_depth(
    waiting: Sequence[SlurmJob], now: float, settings: ScheduleSettings, kept: Collection[str]
) -> tuple[list[SlurmJob], list[SlurmJob]]:
    """Return the jobs to plan and those beyond the depth: first overdue jobs by submission, then by Slurm's priority.

    A job that the planner keeps back goes before those of higher priority, so that it is let go in time.
    """
    depth = settings.schedule.depth
    if len(waiting) <= depth:
        return list(waiting), []
    late = now - settings.schedule.longest_wait
    overdue, others = [job for job in waiting if job.submit <= late], [job for job in waiting if job.submit > late]
    ranked = [*overdue, *sorted(others, key=lambda job: (job.number not in kept, -job.priority))]
    chosen = {job.number for job in ranked[:depth]}
    return [job for job in waiting if job.number in chosen], [job for job in waiting if job.number not in chosen]


def make_view(
    cluster: Cluster,
    machine: Machine,
    waiting: Sequence[SlurmJob],
    running: Sequence[RunningJob],
    names: "_Names",
) -> View:
    """Return what a policy sees. Waiting jobs are the first rows, in order of submission."""
    now = cluster.at
    jobs = np.zeros(len(waiting) + len(running), KNOWN_JOB)
    for row, job in enumerate(waiting):
        held = job.number in cluster.buffers
        record = jobs[row]
        _describe(record, job, names, amount_of(job, machine), space_of(job, machine, cluster.buffers))
        record["held"], record["predicted"] = held, record["walltime"]
    for row, holder in enumerate(running, len(waiting)):
        record = jobs[row]
        _describe(record, holder.job, names, holder.amount, holder.space)
        record["start"], record["end_by"] = holder.start, holder.end_by
        record["predicted"] = holder.expected_end - holder.start
        record["expected_end"], record["space_until"] = holder.expected_end, holder.end_by
    busy = int(jobs["nodes"][len(waiting) :].sum())
    overview = np.zeros(1, MACHINE)
    overview[0]["now"], overview[0]["nodes"], overview[0]["bytes"] = now, machine.free_nodes + busy, machine.space
    overview[0]["free_nodes"], overview[0]["free_bytes"] = machine.free_nodes, machine.free_space
    overview[0]["holding"], overview[0]["wants_plan"] = int(jobs["held"].sum()), True
    queue = np.arange(len(waiting))
    by_walltime = queue[np.argsort(jobs["walltime"][: len(waiting)], kind="stable")]
    return View(overview, jobs, queue, by_walltime, np.arange(len(waiting), len(jobs)))


class _Names:
    """Numbers for names, in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, kind: str, name: str) -> int:
        return self._numbers.setdefault((kind, name), len(self._numbers)) if name else -1


def _describe(record: np.void, job: SlurmJob, names: _Names, amount: int, space: int) -> None:
    record["id"], record["submit"], record["nodes"] = int(job.number), job.submit, amount
    record["walltime"], record["bytes"] = max(job.limit, 1.0), space
    record["user"], record["project"] = names.number("user", job.user), names.number("project", job.account)
    record["tier"] = record["application"] = -1
