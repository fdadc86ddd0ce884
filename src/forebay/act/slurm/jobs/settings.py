"""The settings of prolog and epilog, in TOML; examples/slurm.toml explains them."""

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from forebay.act.filesystems.settings import MOST_TARGETS, Settings, read_settings
from forebay.history import toml
from forebay.history.run_fields import MOST_STRIPES
from forebay.history.store import resolve_database
from forebay.model.errors import BadInput
from forebay.model.grant import VOLUMES_FOLDER

_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._@:+=,-]*")
"""Neither a shell nor Slurm's TaskProlog treats any character of this path specially."""


def _path_pattern(*names: str) -> toml.AfterValidator:
    """Check for an absolute path with these names in braces."""

    def check(pattern: str) -> str:
        bare = pattern
        for name in names:
            bare = bare.replace(f"{{{name}}}", "")
        if "{" in bare or "}" in bare:
            allowed = f" except {', '.join(f'{{{name}}}' for name in names)}" if names else ""
            raise ValueError(f"must contain no braces{allowed}")
        if not _PLAIN_PATH.fullmatch(bare) or ".." in pattern.split("/"):
            raise ValueError(f"must be an absolute path with only letters, digits and ._@:+=,- not {pattern!r}")
        return pattern

    return toml.AfterValidator(check)


def _check_job_folder(pattern: str) -> str:
    # A layout belongs to a folder: jobs that share a folder would get the layout of the last one.
    if "{job}" not in pattern:
        raise ValueError("must contain {job}: each job needs its own folder")
    return pattern


class General(toml.Table):
    db: str | None = ""
    """The history: a path, or postgresql://… for many nodes. [default: $FOREBAY_DB]"""
    folder: Annotated[Path, toml.RelativePath] = Path("/run/forebay/jobs")
    """The folder for each job's environment, which TaskProlog reads; nodes must share it with PrologSlurmctld."""
    mode: Literal["enforce", "shadow"] = "enforce"
    """`shadow`: decide and record, but change nothing and set no variables for jobs."""
    limit: Annotated[toml.Seconds, toml.up_to(300.0)] = 10.0
    """The maximum time that a job waits for the prolog."""
    lease: Annotated[toml.Seconds, toml.up_to(366 * 86_400.0)] = 86_400.0
    """How long a job without a known time limit keeps its targets."""
    ask: bool = True
    """Ask `scontrol` for what the environment lacks: tasks, time limit and command."""


class Scratch(toml.Table):
    folder: Annotated[str, _path_pattern("user", "job"), toml.AfterValidator(_check_job_folder)]
    """The job's folder, with {user} and {job} in its path. The prolog creates missing folders for the user."""
    filesystem: Annotated[Path, toml.RelativePath]
    """The settings file of its file system; relative to this file."""
    policy: str = "forebay"
    """The striping policy; `forebay policies` lists them."""
    make: bool = True
    """Create the folder. `false`: it exists before the prolog runs."""

    @cached_property
    def settings(self) -> Settings:
        """The file system of the folder."""
        return read_settings(self.filesystem)


class Targets(toml.Table):
    name: Annotated[str, toml.check_pattern(r"[A-Za-z0-9_.-]{0,100}", "only letters, digits, '_', '.' and '-'")] = ""
    """The name of the targets. Without `name` and `count`, the targets are those of the file system."""
    count: int | None = toml.Field(default=None, ge=1, le=MOST_TARGETS)
    """The number of targets, which are numbered from 0."""
    allocate: str = "forebay"
    """The allocation policy; `forebay policies` lists them."""
    unknown: int = toml.Field(default=1, ge=1, le=MOST_STRIPES)
    """The number of targets for an application without known runs."""
    curves: Annotated[Path | None, toml.RelativePath] = None
    """A CSV file with application, n and bandwidth. [default: bandwidth by OSTs, from the history]"""


class Space(toml.Table):
    service: str
    """The control service: unix:PATH or https://HOST:PORT."""
    token: Annotated[Path | None, toml.RelativePath] = None
    """A file with an administrator's token, mode 0600; not needed with MUNGE, or for root on the socket."""
    authority: Annotated[Path | None, toml.RelativePath] = None
    """A PEM file of the authority that signed the service's certificate, if the system does not trust it."""
    folder: Annotated[str, _path_pattern()] = VOLUMES_FOLDER
    """The folder below which volumes are mounted."""


class Darshan(toml.Table):
    folder: Annotated[str, _path_pattern("user", "job", "year", "month", "day")]
    """The folder of logs, with {year}, {month}, {day}, {user} and {job} in its path; no leading zeros."""
    days: int = toml.Field(default=31, ge=1, le=366)
    """The number of days, up to today, whose logs the epilog searches."""
    limit: Annotated[toml.Seconds, toml.up_to(3600.0)] = 60.0
    """The maximum time that Slurm waits for the epilog."""


class JobSettings(toml.Table):
    """The whole file. Durations are in seconds."""

    jobs: General = General()
    """Settings for prolog and epilog."""
    scratch: Scratch | None = None
    """A folder for each job, with the layout that the history advises for its application."""
    targets: Targets | None = None
    """Targets that the running jobs share."""
    space: Space | None = None
    """The job's space: the prolog mounts exposed volumes on its first node, and a shared file system on all."""
    darshan: Darshan | None = None
    """The job's Darshan logs, which the epilog ingests into the history."""

    @property
    def epilog_limit(self) -> float:
        """The time limit of an epilog, in seconds."""
        return max(self.jobs.limit, self.darshan.limit) if self.darshan else self.jobs.limit


def read_job_settings(path: Path) -> JobSettings:
    """Read the settings. An error names the key. Paths are relative to the file, except patterns.

    `check_policies` checks the policies separately, as loading them takes most of a second.
    """
    settings = toml.validate(path, toml.load_toml(path), JobSettings)
    settings.jobs.db = resolve_database(settings.jobs.db or "", path, "jobs.db")
    if settings.scratch is not None:
        assert settings.scratch.settings  # reads that file, so that its errors appear now
    if (targets := settings.targets) is not None:
        if targets.count is None and settings.scratch is None:
            raise BadInput(f"{path}: targets.count", "is missing: give the number of targets, or add a [scratch] table")
        if (targets.count is None) != (not targets.name):
            missing = "name" if targets.count else "count"
            raise BadInput(f"{path}: targets.{missing}", "is missing: name and count go together")
    if settings.space is not None:
        from forebay.act.control.client import parse_service  # slow to import, and few files need it

        parse_service(settings.space.service, f"{path}: space.service")
    return settings
