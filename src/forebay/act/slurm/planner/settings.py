"""The settings of `forebay schedule`, in TOML; examples/schedule.toml explains them."""

from pathlib import Path
from typing import Annotated, Literal

from forebay.act.forward.net.address import parse_address
from forebay.decide.registry import check_policy
from forebay.history import toml
from forebay.model.errors import BadInput
from forebay.model.units import format_duration

_DAY = 86_400.0
Names = Annotated[list[str], toml.Field(max_length=10_000)]


class Plan(toml.Table):
    mode: Literal["shadow", "steer"] = "shadow"
    """`shadow`: plan and record, but change nothing in Slurm."""
    policy: str = "sjf-bb"
    """The scheduling policy; `forebay policies` lists them."""
    seed: int = toml.Field(default=1, ge=0)
    """The seed of policies that draw random numbers."""
    interval: Annotated[toml.Seconds, toml.up_to(3600.0)] = 10.0
    """The time between two plans."""
    depth: int = toml.Field(default=1000, ge=1, le=20_000)
    """The number of waiting jobs that are planned: those that Slurm would start first."""
    longest_wait: Annotated[toml.Seconds, toml.up_to(366 * _DAY)] = _DAY
    """A job that has waited this long goes before all others, in order of submission."""
    unit: Literal["nodes", "cpus"] = "nodes"
    """What jobs take of the machine: whole nodes, or processors of nodes that they share."""
    pool: str = ""
    """The burst-buffer pool of Slurm. [default: the largest]"""
    folder: Annotated[Path, toml.RelativePath] = Path("/var/lib/forebay-schedule")
    """The folder of the plan, of the record, and of what was changed in Slurm."""
    metrics: str = ""
    """HOST:PORT for Prometheus."""


class Steering(toml.Table):
    ahead: Annotated[toml.Seconds, toml.up_to(7 * _DAY)] = 600.0
    """How long before its start a job may take its burst buffer, to stage data in."""
    lease: Annotated[toml.Seconds, toml.up_to(3600.0)] = 300.0
    """For how long a job is kept back; renewed while the plan wants it."""
    most: int = toml.Field(default=200, ge=0, le=20_000)
    """The most jobs that are kept back at once, unless one has waited for `longest_wait`; 0: none, only priorities."""
    strict: bool = False
    """Also keep back jobs without burst buffer that would take the nodes of one that waits for space."""


class SlurmAccess(toml.Table):
    conf: Annotated[Path | None, toml.RelativePath] = None
    """slurm.conf. [default: where Slurm's commands find it]"""
    timeout: Annotated[toml.Seconds, toml.up_to(600.0)] = 30.0
    """The time limit of each of Slurm's commands."""


class Excluded(toml.Table):
    """Jobs that are neither planned nor changed."""

    partitions: Names = toml.Field(default_factory=list)
    """Partitions. Nodes that only excluded partitions use do not count."""
    users: Names = toml.Field(default_factory=list)
    """Users, by name."""
    accounts: Names = toml.Field(default_factory=list)
    """Accounts."""
    qos: Names = toml.Field(default_factory=list)
    """Qualities of service."""


class ScheduleSettings(toml.Table):
    """The whole file. Durations are in seconds."""

    schedule: Plan = Plan()
    """What is planned, how often, and with which policy."""
    steering: Steering = Steering()
    """How far the planner may interfere."""
    slurm: SlurmAccess = SlurmAccess()
    """How Slurm's commands are run."""
    exclude: Excluded = Excluded()
    """Jobs that are neither planned nor changed."""


def read_schedule_settings(path: Path) -> ScheduleSettings:
    """Read the settings. An error names the key. Paths are relative to the file."""
    settings = toml.validate(path, toml.load_toml(path), ScheduleSettings)
    plan, steering = settings.schedule, settings.steering
    check_policy(f"{path}: schedule.policy", "schedule", plan.policy)
    if steering.lease < 3 * plan.interval:
        least = format_duration(3 * plan.interval)
        raise BadInput(f"{path}: steering.lease", f"must be at least 3 times schedule.interval, {least}")
    if plan.metrics and parse_address(plan.metrics, f"{path}: schedule.metrics").path:
        raise BadInput(f"{path}: schedule.metrics", f"must be HOST:PORT, not {plan.metrics!r}")
    conf = settings.slurm.conf
    if conf is not None and not conf.is_file():
        raise BadInput(f"{path}: slurm.conf", f"{conf} does not exist; name Slurm's slurm.conf")
    return settings
