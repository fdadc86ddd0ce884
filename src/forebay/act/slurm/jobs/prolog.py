"""The prolog: the first of a job's nodes decides what the job gets, and each node writes its environment."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from forebay.act.files import write_file
from forebay.act.filesystems.settings import Settings
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.settings import JobSettings
from forebay.history.store import Connection, Store, running_jobs
from forebay.model.errors import UserError, name_errors
from forebay.model.grant import SHARED
from forebay.model.layout import Layout

NAMES = ("FOREBAY_APP", "FOREBAY_SCRATCH", "FOREBAY_STRIPE_COUNT", "FOREBAY_STRIPE_SIZE", "FOREBAY_STRIPE_OFFSET",
         "FOREBAY_OSTS", "FOREBAY_TARGETS")  # fmt: skip
"""The variables about a job's files. FOREBAY_TARGETS are the OSTs, unless jobs share other targets."""
_SPACE_NAMES = ("FOREBAY_PATH", "FOREBAY_PATHS")
"""The variables about exposed space. The hooks of burst buffers set them, too."""
_PLAIN = re.compile(r"[A-Za-z0-9/._@:+=,-]+")
_SLACK = 600.0  # seconds that a job keeps its targets beyond its time limit, for a late epilog
_POLL = 0.1
_PATIENCE = 2.0  # seconds to wait for a service that does not answer, while the job waits


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The result of a prolog: the job's environment, fields for the log, and problems."""

    app: str
    environment: Mapping[str, str] = field(default_factory=dict)
    log_fields: Mapping[str, str] = field(default_factory=dict)
    troubles: tuple[str, ...] = ()


def export_lines(environment: Mapping[str, str]) -> list[str]:
    """Format the variables for a shell and for Slurm's TaskProlog, which does not parse quotes.

    >>> export_lines({"FOREBAY_TARGETS": "0,1"})
    ['export FOREBAY_TARGETS=0,1']
    """
    return [f"export {name}={value}" for name, value in environment.items()]


def select_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Select the variables in the order of NAMES, without empty values and values that need quotes."""
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
    """Read the variables of a job that another node has prepared from the store."""
    variables = {"FOREBAY_APP": running_jobs.last_app(connection, job.job)}
    if settings.scratch is not None and (row := running_jobs.applied_layout(connection, job.job)):
        layout = Layout(count=row["stripe_count"], size=row["stripe_size"], start=row["stripe_offset"])
        osts = running_jobs.list_targets(connection, lease_name(settings.scratch.settings), job.job, now)
        variables |= {"FOREBAY_SCRATCH": row["applied_to"], **layout_variables(layout, osts)}
    if settings.targets is not None and settings.targets.count is not None:
        targets = running_jobs.list_targets(connection, settings.targets.name, job.job, now)
        variables["FOREBAY_TARGETS"] = format_targets(targets)
    return select_variables(variables)


def lease_name(settings: Settings) -> str:
    """Return the name under which leases on the targets are kept, the same as in `forebay advise`."""
    return settings.name or str(settings.mount or "default")


def environment_file(settings: JobSettings, job: Job) -> Path:
    """Return the file from which the job's tasks read their environment."""
    return settings.jobs.folder / f"{job.job}.env"


def run_prolog(
    store: Store,
    settings: JobSettings,
    job: Job,
    look_up: Callable[[Job], Job],
    *,
    now: float,
    chance: float,
    pause: Callable[[float], None] = time.sleep,
) -> Preparation:
    """Prepare a job. Only its first node decides; each node writes the environment for its tasks.

    `look_up` adds what Slurm knows about the job; only the node that decides calls it. In shadow mode, the node decides
    and records, but does not lease, set or write anything.
    """

    def decide(full: Job) -> Preparation:
        # Policies take most of a second to load, and the other nodes do not need them.
        from forebay.act.slurm.jobs.decision import prepare_job

        return prepare_job(store, settings, full, now=now, until=_lease_end(settings, full, now), chance=chance)

    if settings.jobs.mode == "shadow":
        return decide(look_up(job))
    with store.open_writer() as connection:
        is_first = running_jobs.begin_job(connection, job.job, until=now + settings.jobs.lease, now=now)
    if is_first:
        full = look_up(job)
        # The other nodes wait until this one has succeeded or failed.
        try:
            preparation = decide(full)
        except BaseException:
            with store.open_writer() as connection:
                running_jobs.forget_job(connection, job.job)
            raise
        finally:
            with store.open_writer() as connection:
                running_jobs.mark_decided(connection, job.job, until=_lease_end(settings, full, now), now=now)
    else:
        preparation = _await_decision(store, settings, job, now, pause)
    preparation = _add_space(preparation, settings, job)
    path = environment_file(settings, job)
    with name_errors(path):
        path.parent.mkdir(0o755, parents=True, exist_ok=True)
        write_file(path, "".join(f"{line}\n" for line in export_lines(preparation.environment)))
    return preparation


def _add_space(preparation: Preparation, settings: JobSettings, job: Job) -> Preparation:
    """Mount the job's space on this node. Every node mounts a shared file system, only the first one a volume."""
    if settings.space is None:
        return preparation
    from forebay.act.control.client import Client, parse_service
    from forebay.act.volumes.attach import Attachments, attach_grant, list_job_grants
    from forebay.act.volumes.shared_mount import mount_grant

    space, paths, troubles = settings.space, list[str](), list[str]()
    node, service = Attachments(folder=Path(space.folder)), parse_service(space.service, "space.service")
    try:
        with Client(service, token=space.token, authority=space.authority, patience=_PATIENCE) as client:
            for grant in list_job_grants(client, job.user, job.job):
                try:
                    if grant["type"] == SHARED:
                        paths.append(str(mount_grant(client, grant, job=job.job)))
                    else:
                        paths += [str(volume.path) for volume in attach_grant(client, node, grant, job=job.job)]
                except UserError as error:
                    troubles.append(str(error))
    except UserError as error:
        troubles.append(str(error))
    variables = {"FOREBAY_PATH": paths[0], "FOREBAY_PATHS": ":".join(paths)} if paths else {}
    return replace(
        preparation,
        environment={**preparation.environment, **variables},
        log_fields={**preparation.log_fields, **({"space": variables["FOREBAY_PATHS"]} if variables else {})},
        troubles=(*preparation.troubles, *troubles),
    )


def _lease_end(settings: JobSettings, job: Job, now: float) -> float:
    return now + (job.seconds + _SLACK if job.seconds else settings.jobs.lease)


def _await_decision(
    store: Store, settings: JobSettings, job: Job, now: float, pause: Callable[[float], None]
) -> Preparation:
    """Wait for the decision of the first node, until the prolog's time limit."""
    while True:
        with store.open_reader() as connection:
            if running_jobs.is_decided(connection, job.job, now):
                environment = read_variables(connection, settings, job, now)
                app = environment.get("FOREBAY_APP", "")
                return Preparation(app=app, environment=environment, log_fields={"decided": "already"})
        pause(_POLL)
