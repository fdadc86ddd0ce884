"""What a job finds in its environment, and the file from which its tasks read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forebay.act.files import write_file
from forebay.act.filesystems.settings import Settings
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import JobSettings
from forebay.history.store import Connection
from forebay.history.store.jobs import applied_layout, last_app, list_targets
from forebay.model.errors import BadInput, why
from forebay.model.layout import Layout

NAMES = ("FOREBAY_APP", "FOREBAY_SCRATCH", "FOREBAY_STRIPE_COUNT", "FOREBAY_STRIPE_SIZE", "FOREBAY_STRIPE_OFFSET",
         "FOREBAY_OSTS", "FOREBAY_TARGETS")  # fmt: skip
"""The variables about a job's files; FOREBAY_TARGETS are the OSTs unless other targets are shared among jobs."""
_SPACE_NAMES = ("FOREBAY_PATH", "FOREBAY_PATHS")
"""The variables about exposed space. (The hooks of a burst buffer set the same ones.)"""
_PLAIN = re.compile(r"[A-Za-z0-9/._@:+=,-]+")


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What was done for a job: its environment, fields for the log, and the problems on the way."""

    app: str
    environment: Mapping[str, str] = field(default_factory=dict)
    log_fields: Mapping[str, str] = field(default_factory=dict)
    troubles: tuple[str, ...] = ()


def export_lines(environment: Mapping[str, str]) -> list[str]:
    """Lines for a shell, and for Slurm's TaskProlog, which knows no quotes.

    >>> export_lines({"FOREBAY_TARGETS": "0,1"})
    ['export FOREBAY_TARGETS=0,1']
    """
    return [f"export {name}={value}" for name, value in environment.items()]


def select_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables in the order of their names, without empty ones and those that would need quotes."""
    variables = {"FOREBAY_TARGETS": variables.get("FOREBAY_OSTS", ""), **variables}
    return {name: variables[name] for name in (*NAMES, *_SPACE_NAMES) if _PLAIN.fullmatch(variables.get(name, ""))}


def layout_variables(layout: Layout, osts: tuple[int, ...]) -> dict[str, str]:
    """
    >>> layout_variables(Layout(count=2, start=3), (3, 4))["FOREBAY_OSTS"]
    '3,4'
    """
    return {
        "FOREBAY_STRIPE_COUNT": str(layout.count),
        "FOREBAY_STRIPE_SIZE": str(layout.size),
        "FOREBAY_STRIPE_OFFSET": str(layout.start),
        "FOREBAY_OSTS": format_targets(osts),
    }


def format_targets(targets: tuple[int, ...]) -> str:
    return ",".join(map(str, sorted(targets)))


def read_variables(connection: Connection, settings: JobSettings, job: Job, now: float) -> dict[str, str]:
    """The variables of a job that another node has prepared, from the store."""
    variables = {"FOREBAY_APP": last_app(connection, job.job)}
    if settings.scratch is not None and (row := applied_layout(connection, job.job)):
        layout = Layout(count=row["stripe_count"], size=row["stripe_size"], start=row["stripe_offset"])
        osts = list_targets(connection, lease_name(settings.scratch.settings), job.job, now)
        variables |= {"FOREBAY_SCRATCH": row["applied_to"], **layout_variables(layout, osts)}
    if settings.targets is not None and settings.targets.count is not None:
        variables["FOREBAY_TARGETS"] = format_targets(list_targets(connection, settings.targets.name, job.job, now))
    return select_variables(variables)


def lease_name(settings: Settings) -> str:
    """The name under which leases on the file system's targets are kept, the same as in `forebay advise`."""
    return settings.name or str(settings.mount or "default")


def environment_file(settings: JobSettings, job: Job) -> Path:
    """The file from which the job's tasks read their environment."""
    return settings.jobs.folder / f"{job.job}.env"


def write_environment(settings: JobSettings, job: Job, environment: Mapping[str, str]) -> None:
    """Write the file, readable by everybody, whole or not at all."""
    path = environment_file(settings, job)
    try:
        path.parent.mkdir(0o755, parents=True, exist_ok=True)
        write_file(path, "".join(f"{line}\n" for line in export_lines(environment)))
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
