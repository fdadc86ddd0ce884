"""What is to be done before and after jobs, as an administrator says it in TOML; examples/slurm.toml explains it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forebay.act.filesystems.settings import MOST_TARGETS, Settings, read_settings
from forebay.act.volumes.attach.attachments import FOLDER
from forebay.history.run_fields import MOST_STRIPES
from forebay.history.store import resolve_database
from forebay.history.toml import Field, Seconds, Table, load_toml, validate
from forebay.model.errors import BadInput
from forebay.model.units import format_duration

if TYPE_CHECKING:
    from forebay.act.control.client import Address

Mode = Literal["enforce", "shadow"]
LONGEST_LIMIT = 300.0
_PLACEHOLDERS = {"scratch": ("user", "job"), "darshan": ("user", "job", "year", "month", "day")}
_PATTERN = re.compile(r"/[A-Za-z0-9/._@:+=,-]*")
"""Neither a shell nor Slurm's reader of TaskProlog sees anything else in such a path than its letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """The folder that a job's files go to, such as /scratch/{user}/{job}, and how its layout is decided."""

    folder: str
    settings: Settings
    policy: str
    make: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The targets that are shared out among running jobs.

    `count` is None for those of the file system: then it is the largest stripe count that is decided. `unknown` is
    what an application gets whose curve nobody knows; `curves` is a CSV file with curves that the history can't tell.
    """

    name: str
    count: int | None
    allocate: str
    unknown: int
    curves: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Where grants that are exposed are asked for and mounted, on the nodes of a job."""

    service: Address
    token: Path | None
    authority: Path | None
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsFile:
    """`folder` keeps what is told to each job; durations are in seconds.

    `limit` is how long a job waits for us at the most, `lease` how long targets are kept for a job of which no
    time limit is known. `darshan` is where logs of a day are; `days` how many of them are looked at.
    """

    db: str | None
    folder: Path
    mode: Mode
    limit: float
    lease: float
    ask: bool
    scratch: Scratch | None
    targets: Targets | None
    space: Space | None
    darshan: str | None
    days: int
    ingest_limit: float


class _Jobs(Table):
    db: str = ""
    """The history: a path, or postgresql://… for many nodes. [default: $FOREBAY_DB]"""
    folder: str = "/run/forebay/jobs"
    """Keeps what each job is told, for TaskProlog; shared with the nodes if the controller runs the prolog."""
    mode: Mode = "enforce"
    """`shadow`: decide and remember, touch nothing, tell nothing."""
    limit: Seconds = 10.0
    """The longest that a job waits for us."""
    lease: Seconds = 86_400.0
    """How long targets are kept for a job of which no time limit is known."""
    ask: bool = True
    """Ask `scontrol` for what Slurm's environment lacks (tasks, time limit, command)."""


class _Scratch(Table):
    folder: str
    """The job's folder, with {user} and {job} in it; what is missing of it is made, and is the user's."""
    filesystem: str
    """The file that describes the file system it is on; relative to this file."""
    policy: str = "forebay"
    """The striping policy; `forebay policies` lists them."""
    make: bool = True
    """Make the folder; false: somebody else does, before."""


class _Targets(Table):
    name: str = ""
    """What the targets are; with `count`, targets of their own. Without both, those of the file system."""
    count: int | None = Field(default=None, ge=1, le=MOST_TARGETS)
    """How many there are, numbered from 0."""
    allocate: str = "forebay"
    """The allocation policy; `forebay policies` lists them."""
    unknown: int = Field(default=1, ge=1, le=MOST_STRIPES)
    """How many an application gets that no run tells anything of."""
    curves: str = ""
    """A CSV file with application, n and bandwidth. [default: bandwidth by OSTs, from the history]"""


class _Space(Table):
    service: str
    """The control service: unix:PATH, or https://HOST:PORT."""
    token: str = ""
    """The file with an administrator's token, mode 0600; not needed with MUNGE, or by root on the socket."""
    authority: str = ""
    """Who signed the service's certificate, if the system does not know."""
    folder: str = str(FOLDER)
    """Where volumes are mounted."""


class _Darshan(Table):
    folder: str
    """Where logs are, with {year}, {month}, {day}, {user} and {job} in it; no leading zeros."""
    days: int = Field(default=31, ge=1, le=366)
    """Of a longer job, only the last days are looked through."""
    limit: Seconds = 60.0
    """Slurm waits no longer than this for the epilog."""


class _File(Table):
    jobs: _Jobs = _Jobs()
    """What holds for all that is done."""
    scratch: _Scratch | None = None
    """A folder for each job, with the layout that the history advises for its application."""
    targets: _Targets | None = None
    """Targets that are shared out among the running jobs."""
    space: _Space | None = None
    """Exposed space that the job's user asked for, mounted on the job's node."""
    darshan: _Darshan | None = None
    """Darshan's logs of the job, read into the history when it is over."""


def read_jobs_file(path: Path) -> JobsFile:
    """What the file says; an error tells under which key. Paths are relative to the file, but for patterns.

    Whether its policies are there is for `check_policies` to tell: to load them takes most of a second.
    """
    file, base = validate(path, load_toml(path), _File), path.absolute().parent
    jobs, darshan = file.jobs, file.darshan
    _check_duration(f"{path}: jobs.limit", jobs.limit, LONGEST_LIMIT)
    _check_duration(f"{path}: jobs.lease", jobs.lease, 366 * 86_400.0)
    if darshan is not None:
        _check_duration(f"{path}: darshan.limit", darshan.limit, 3600.0)
        _check_pattern(f"{path}: darshan.folder", darshan.folder, _PLACEHOLDERS["darshan"])
    return JobsFile(
        db=resolve_database(jobs.db, path, "jobs.db"),
        folder=base / jobs.folder,
        mode=jobs.mode,
        limit=jobs.limit,
        lease=jobs.lease,
        ask=jobs.ask,
        scratch=None if file.scratch is None else _scratch(path, base, file.scratch),
        targets=None if file.targets is None else _targets(path, base, file.targets, file.scratch is not None),
        space=None if file.space is None else _space(path, base, file.space),
        darshan=None if darshan is None else darshan.folder,
        days=1 if darshan is None else darshan.days,
        ingest_limit=jobs.limit if darshan is None else max(darshan.limit, jobs.limit),
    )


def _scratch(path: Path, base: Path, table: _Scratch) -> Scratch:
    _check_pattern(f"{path}: scratch.folder", table.folder, _PLACEHOLDERS["scratch"])
    if "{job}" not in table.folder:
        # A layout belongs to a folder: in one that several jobs share, each would get the last one's.
        raise BadInput(f"{path}: scratch.folder", "must have {job} in it: each job's files need a folder of their own")
    return Scratch(
        folder=table.folder,
        settings=read_settings(base / table.filesystem),
        policy=table.policy,
        make=table.make,
    )


def _targets(path: Path, base: Path, table: _Targets, has_scratch: bool) -> Targets:
    if table.count is None and not has_scratch:
        raise BadInput(f"{path}: targets.count", "is missing: how many targets there are; or add a [scratch] table")
    if (table.count is None) != (not table.name):
        raise BadInput(f"{path}: targets.{'name' if table.count else 'count'}", "goes with the other: name and count")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{0,100}", table.name):
        raise BadInput(f"{path}: targets.name", f"only letters, digits, '_', '.' and '-', not {table.name!r}")
    return Targets(
        name=table.name,
        count=table.count,
        allocate=table.allocate,
        unknown=table.unknown if table.count is None else min(table.unknown, table.count),
        curves=base / table.curves if table.curves else None,
    )


def _space(path: Path, base: Path, table: _Space) -> Space:
    from forebay.act.control.client import parse_service  # which takes a while to load, and few files need it

    _check_pattern(f"{path}: space.folder", table.folder, ())
    return Space(
        service=parse_service(table.service, f"{path}: space.service"),
        token=base / table.token if table.token else None,
        authority=base / table.authority if table.authority else None,
        folder=Path(table.folder),
    )


def _check_pattern(where: str, pattern: str, names: tuple[str, ...]) -> None:
    bare = pattern
    for name in names:
        bare = bare.replace(f"{{{name}}}", "")
    if "{" in bare or "}" in bare:
        allowed = ", ".join(f"{{{name}}}" for name in names) or "nothing in braces"
        raise BadInput(where, f"can have {allowed} in it, and no other braces")
    if not _PATTERN.fullmatch(bare) or ".." in pattern.split("/"):
        raise BadInput(where, f"must be a whole path of letters, digits and ._@:+=,- not {pattern!r}")


def _check_duration(where: str, seconds: float, most: float) -> None:
    if not 0 < seconds <= most:
        raise BadInput(
            where, f"must be longer than 0 s and at most {format_duration(most)}, not {format_duration(seconds)}"
        )
