"""What a job is told by its environment, and the file in which its tasks find it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay.act.filesystems.settings import Settings
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import JobsFile
from forebay.history.store import Connection
from forebay.history.store.running_jobs import applied_layout, last_app, list_targets
from forebay.model.errors import BadInput, why
from forebay.model.layout import Layout

NAMES = (
    "FOREBAY_APP",
    "FOREBAY_SCRATCH",
    "FOREBAY_STRIPE_COUNT",
    "FOREBAY_STRIPE_SIZE",
    "FOREBAY_STRIPE_OFFSET",
    "FOREBAY_OSTS",
    "FOREBAY_TARGETS",
)
"""What a job is told of its files; FOREBAY_TARGETS are the OSTs where no other targets are shared out."""
SPACE = ("FOREBAY_PATH", "FOREBAY_PATHS")
"""What a job is told of its space on other nodes. (A burst buffer's is told by itself, under the same names.)"""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a job is told by its environment; words for a log, and what went wrong on the way."""

    app: str
    environment: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Any] = field(default_factory=dict)
    troubles: tuple[str, ...] = ()


def lines(environment: Mapping[str, str]) -> list[str]:
    """For a shell, and for Slurm's TaskProlog, which knows no quotes.

    >>> lines({"FOREBAY_TARGETS": "0,1"})
    ['export FOREBAY_TARGETS=0,1']
    """
    return [f"export {name}={value}" for name, value in environment.items()]


def chosen(told: Mapping[str, str]) -> dict[str, str]:
    """In the order of the names, without what is empty or would need quotes."""
    all_of_it = {"FOREBAY_TARGETS": told.get("FOREBAY_OSTS", ""), **told}
    return {name: all_of_it[name] for name in (*NAMES, *SPACE) if _plain(all_of_it.get(name, ""))}


def _plain(value: str) -> bool:
    return bool(value) and value.isascii() and all(c.isalnum() or c in "/._@:+=,-" for c in value)


def layout_words(layout: Layout, osts: tuple[int, ...]) -> dict[str, str]:
    """
    >>> layout_words(Layout(count=2, start=3), (3, 4))["FOREBAY_OSTS"]
    '3,4'
    """
    return {
        "FOREBAY_STRIPE_COUNT": str(layout.count),
        "FOREBAY_STRIPE_SIZE": str(layout.size),
        "FOREBAY_STRIPE_OFFSET": str(layout.start),
        "FOREBAY_OSTS": numbers(osts),
    }


def numbers(targets: tuple[int, ...]) -> str:
    return ",".join(map(str, sorted(targets)))


def told_before(connection: Connection, rules: JobsFile, job: Job, now: float) -> dict[str, str]:
    """What the store knows of a job for which all is decided."""
    found: dict[str, str] = {"FOREBAY_APP": last_app(connection, job.job)}
    if rules.scratch is not None and (row := applied_layout(connection, job.job)):
        layout = Layout(count=row["stripe_count"], size=row["stripe_size"], start=row["stripe_offset"])
        osts = list_targets(connection, system_of(rules.scratch.settings), job.job, now)
        found |= {"FOREBAY_SCRATCH": row["applied_to"], **layout_words(layout, osts)}
    if rules.targets is not None and rules.targets.count is not None:
        found["FOREBAY_TARGETS"] = numbers(list_targets(connection, rules.targets.name, job.job, now))
    return chosen(found)


def system_of(settings: Settings) -> str:
    """The file system's name in leases, as `forebay advise` has it."""
    return settings.name or str(settings.mount or "default")


def word_file(rules: JobsFile, job: Job) -> Path:
    """Where the job's tasks find what they are told."""
    return rules.folder / f"{job.job}.env"


def leave_word(rules: JobsFile, job: Job, environment: Mapping[str, str]) -> None:
    """In a file that everybody can read, whole or not at all."""
    path = word_file(rules, job)
    part = path.with_name(f".{job.job}.{os.getpid()}")
    try:
        rules.folder.mkdir(0o755, parents=True, exist_ok=True)
        part.write_text("".join(f"{line}\n" for line in lines(environment)))
        part.chmod(0o644)
        part.rename(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise BadInput(str(path), why(error)) from None
