"""Reads what the planner needs to know of Slurm: jobs, nodes and burst-buffer space, with one command each."""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from forebay.act.command import CommandFailed, CommandHangs, Completed, run_unchecked
from forebay.act.slurm.output import YEAR, parse_time_limit
from forebay.model.units import parse_size

_BREAK = "\x1f"  # between fields: no name contains it
_FIELDS = (
    "JobID", "JobArrayID", "State", "Reason", "Partition", "UserName", "Account", "QOS", "SubmitTime", "StartTime",
    "EndTime", "EligibleTime", "PriorityLong", "Nice", "NumNodes", "NumCPUs", "TimeLimit", "BurstBuffer",
    "BurstBufferState", "HetJobID",
)  # fmt: skip
_UNKNOWN = ("", "(null)", "N/A", "NONE", "Unknown")
_UNUSABLE = re.compile(r"DOWN|DRAIN|FAIL|MAINT|REBOOT|POWER|RESERVED|FUTURE|UNKNOWN|NO_RESPOND|\*", re.IGNORECASE)
RUNNING = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED"})
LEAVING = frozenset({"COMPLETING", "STAGE_OUT"})
"""States of jobs that have ended, but still hold nodes or burst-buffer space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job in the output of squeue. Times are seconds since 1970, nan if unknown; sizes are bytes.

    `number` is its id; `name` is how users know it, in an array 12_3. `space` is the size of the burst buffer that it
    asks for in `pool`, nan if its request is not understood.
    """

    number: str
    name: str
    state: str
    reason: str
    partition: str
    user: str
    account: str
    qos: str
    submit: float
    start: float
    end: float
    eligible: float
    priority: int
    nice: int
    nodes: int
    cpus: int
    limit: float
    space: float
    pool: str
    buffer: str
    is_part: bool

    @property
    def is_waiting(self) -> bool:
        return self.state == "PENDING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Burst-buffer space that Slurm counts as one."""

    total: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Nodes that Slurm can use, and their processors."""

    count: int
    idle: int
    cpus: int
    idle_cpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What Slurm knew at the time `at`. `buffers` has the bytes that jobs hold, by job number."""

    at: float
    jobs: tuple[SlurmJob, ...]
    nodes: Nodes
    pools: Mapping[str, Pool]
    buffers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmCommands:
    """Slurm's commands. `conf` is its slurm.conf, None if they find it; `timeout` is in seconds."""

    conf: Path | None
    timeout: float

    def read(self, at: float, excluded_partitions: Collection[str]) -> Cluster:
        """Read the cluster, without nodes that only excluded partitions use."""
        form = ",".join(f"{field}:{_BREAK}" for field in _FIELDS)
        jobs = self._run("squeue", "--noheader", "--all", "--states=all", f"--Format={form}")
        columns = "NodeList:|,PartitionName:|,StateComplete:|,CPUsState:|"
        nodes = self._run("sinfo", "--noheader", "--all", "--Node", f"--Format={columns}")
        pools, buffers = parse_buffers(self._run("scontrol", "show", "burst"))
        return Cluster(
            at=at,
            jobs=tuple(parse_jobs(jobs)),
            nodes=parse_nodes(nodes, excluded_partitions),
            pools=pools,
            buffers=buffers,
        )

    def update(self, lines: Iterable[str]) -> list[str]:
        """Give scontrol these lines, each an `update JobId=…`; return its complaints."""
        text = "".join(f"{line}\n" for line in lines)
        completed = self._run_unchecked("scontrol", text=text) if text else None
        return [] if completed is None else [line for line in completed.err.splitlines() if line.strip()]

    def _run(self, *argv: str) -> str:
        completed = self._run_unchecked(*argv)
        if completed.code:
            raise CommandFailed(f"{argv[0]}: {_find_reason(completed)}")
        return completed.out

    def _run_unchecked(self, *argv: str, text: str = "") -> Completed:
        variables = {"SLURM_TIME_FORMAT": "%s"} | ({"SLURM_CONF": str(self.conf)} if self.conf else {})
        try:
            return run_unchecked(argv, timeout=self.timeout, variables=variables, text=text)
        except CommandHangs as error:  # without the arguments, which are long and the same every time
            raise CommandFailed(f"{argv[0]}: {error.reason}") from None


def _find_reason(completed: Completed) -> str:
    """Return why a command failed: its fatal error, if it names one after lesser ones.

    >>> lines = "squeue: error: fetch_config: DNS SRV lookup\\nsqueue: fatal: Could not establish a configuration"
    >>> _find_reason(Completed(argv=("squeue",), code=1, out="", err=lines))
    'Could not establish a configuration'
    """
    fatal = re.search(r"\bfatal: (.+)", completed.err)
    return fatal[1] if fatal else completed.reason


def parse_jobs(text: str) -> Iterable[SlurmJob]:
    """Parse the output of squeue with these fields; lines that are cut off are left out."""
    width = len(_FIELDS)
    for line in text.split("\n"):
        values = line.split(_BREAK)
        if len(values) >= width:
            yield _parse_job(dict(zip(_FIELDS, values, strict=False)))


def _parse_job(fields: Mapping[str, str]) -> SlurmJob:
    buffer = fields["BurstBuffer"] if fields["BurstBuffer"] not in _UNKNOWN else ""
    space, pool = parse_request(buffer)
    limit = _limit(fields["TimeLimit"])
    return SlurmJob(
        number=fields["JobID"],
        name=fields["JobArrayID"] or fields["JobID"],
        state=fields["State"],
        reason=fields["Reason"],
        partition=fields["Partition"],
        user=fields["UserName"],
        account=_read_name(fields["Account"]),
        qos=_read_name(fields["QOS"]),
        submit=_time(fields["SubmitTime"]),
        start=_time(fields["StartTime"]),
        end=_time(fields["EndTime"]),
        eligible=_time(fields["EligibleTime"]),
        priority=_count(fields["PriorityLong"]),
        nice=_read_number(fields["Nice"]),
        nodes=_count(fields["NumNodes"]),
        cpus=_count(fields["NumCPUs"]),
        limit=limit,
        space=space,
        pool=pool,
        buffer=_read_name(fields["BurstBufferState"]),
        is_part=fields["HetJobID"] not in ("", "0", "N/A", "(null)"),
    )


@lru_cache(10_000)  # a long queue has few different values
def _limit(text: str) -> float:
    limit = parse_time_limit(text)
    return YEAR if limit is None else min(limit, YEAR)


def _read_name(text: str) -> str:
    return "" if text in _UNKNOWN else text


def _time(text: str) -> float:
    return float(text) if text.isdigit() else math.nan


def _read_number(text: str) -> int:
    return int(text) if re.fullmatch(r"-?\d+", text) else 0


@lru_cache(10_000)
def _count(text: str) -> int:
    """
    >>> _count("12"), _count("2-4"), _count("4K"), _count("")
    (12, 2, 4096, 0)
    """
    match = re.match(r"(\d+)([KMG]?)", text)
    return int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2]] if match else 0


@lru_cache(10_000)
def parse_request(text: str) -> tuple[float, str]:
    """Return the bytes and the pool that burst-buffer directives ask for; nan bytes if they are not understood.

    >>> parse_request("#BB_LUA pool=nvme capacity=20GB")
    (20000000000.0, 'nvme')
    >>> parse_request("")
    (0.0, '')
    """
    if not text:
        return 0.0, ""
    sizes, pools = re.findall(r"\bcapacity=(\S+)", text), re.findall(r"\bpool=(\S+)", text)
    try:
        space = sum(map(_size, sizes)) if sizes else math.nan
    except ValueError:
        space = math.nan
    return space, pools[-1] if pools else ""


def _size(text: str) -> float:
    """Slurm's sizes without a B are powers of 1024."""
    bare = re.fullmatch(r"(\d+)([KMGTPkmgtp])i?", text)
    return parse_size(f"{bare[1]}{bare[2]}iB" if bare else text)


def parse_nodes(text: str, excluded_partitions: Collection[str]) -> Nodes:
    """Count the usable nodes in `sinfo --Node`, which has a line for each node and partition.

    >>> parse_nodes("n0|main|idle|0/2/0/2|\\nn0|all|idle|0/2/0/2|\\nn1|main|drained*|0/0/2/2|\\n", ["all"])
    Nodes(count=1, idle=1, cpus=2, idle_cpus=2)
    """
    nodes: dict[str, tuple[str, list[int]]] = {}
    for line in text.splitlines():
        name, partition, state, cpus = (line.split("|") + [""] * 4)[:4]
        if partition not in excluded_partitions and not _UNUSABLE.search(state):
            nodes[name] = state, [int(number) for number in re.findall(r"\d+", cpus)]
    counted = [(state, cpus) for state, cpus in nodes.values() if len(cpus) == 4]
    return Nodes(
        count=len(counted),
        idle=sum(cpus[0] == 0 and "COMPLETING" not in state.upper() for state, cpus in counted),
        cpus=sum(cpus[3] for _, cpus in counted),
        idle_cpus=sum(cpus[1] for _, cpus in counted),
    )


def parse_buffers(text: str) -> tuple[dict[str, Pool], dict[str, int]]:
    """Parse `scontrol show burst` into pools by name, and bytes by job number."""
    pools: dict[str, Pool] = {}
    for name, total, free in re.findall(r"PoolName\[\d+\]=(\S+).*?TotalSpace=(\S+) FreeSpace=(\S+)", text):
        whole = round(_size(total))
        pools[name] = Pool(total=whole, free=min(max(round(_size(free)), 0), whole))
    buffers: dict[str, int] = {}
    for job, size in re.findall(r"\bJobID=(\d+)\b.*?\bSize=(\S+)", text):
        buffers[job] = buffers.get(job, 0) + round(_size(size))
    return pools, buffers
