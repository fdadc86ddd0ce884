"""`forebay study jobs`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.show.options import Seed, check_file, parse_quantity, policy_list
from forebay.studies.command import StudyCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.history.jobs import ReadOptions
    from forebay.model.jobs import Jobs
    from forebay.studies.jobs.experiment import JobsStudy

_POLICIES = (
    "fcfs",
    "filler",
    "easy",
    "fcfs-bb",
    "sjf-bb",
    "conservative-bb",
    "window",
    "plan:alpha=1",
    "plan:alpha=2",
    "slurm",
    "forebay",
)
_MOST_SHOWN = 10  # rejected rows on the screen


def build(
    files: Annotated[list[str] | None, typer.Argument(help="More files of jobs.", metavar="[FILE]...")] = None,
    jobs: Annotated[
        list[str] | None,
        typer.Option(
            help="A file of jobs (a part of its own): CSV, Batsim's JSON or SWF, also .gz; sacct -P; or history[:DB]."
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="Compute nodes of the machine.", min=1, max=10_000_000)] = None,
    space: Annotated[str | None, typer.Option(help="Burst buffer as one pool, with a unit: 480GB.")] = None,
    platform: Annotated[
        str | None, typer.Option(help="Burst buffer as disks, instead of --space: a platform's name, .toml or .yml.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="With --platform: the storage policy. [forebay]")] = None,
    split: Annotated[
        str | None, typer.Option(help="With --platform: the largest part of a job on a disk. [the smallest disk]")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="'allocation', or 'transfers': stage-in before the start, stage-out after the end.")
    ] = "allocation",
    pfs: Annotated[
        str | None, typer.Option(help="For transfers: bandwidth of the parallel file system. [1.25 GB/s]")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help=f"Comma-separated scheduling policies, or 'all'. [{','.join(_POLICIES)}]")
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            help="Also vary space, load, or walltimes (multiples of the run time): space, or with values space=0.5,2."
        ),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="START:LENGTH of the Gantt picture, like 3d:12h. [busiest]")
    ] = None,
    starts: Annotated[
        Path | None, typer.Option(help="Also write job, start, end and disks into this CSV file.")
    ] = None,
    swf_volume: Annotated[
        str | None, typer.Option(help="For SWF: 'drawn', 'memory', or a size per processor. [drawn]")
    ] = None,
    cores: Annotated[int, typer.Option(help="For SWF: processors of a node.", min=1)] = 1,
    seed: Seed = 0,
) -> JobsStudy:
    """When jobs that need nodes and space would start.

    Runs every scheduling policy on logs of jobs (Kopanski and Rzadca 2021).
    """
    from forebay.decide.registry import check_policy
    from forebay.history.jobs import ReadOptions
    from forebay.simulate.storage.scenario import find_platform
    from forebay.studies.jobs.experiment import JobsStudy
    from forebay.studies.jobs.variations import parse_sweeps

    sources = [*(jobs or []), *(files or [])]
    if not sources:
        raise BadInput("--jobs", "is missing; give one or more files of jobs")
    if nodes is None:
        raise BadInput("--nodes", "is missing; give the number of compute nodes, like 96")
    disks = None if platform is None else find_platform(platform, Path(), "--platform")
    if disks is not None and space is not None:
        raise BadInput("--space", "conflicts with --platform, which has its own size; remove one of them")
    size = disks.capacity if disks else _parse_space(space)
    if disks is None and (policy or split):
        raise BadInput("--policy" if policy else "--split", "needs --platform, which has the disks")
    bandwidth = _parse_bandwidth(mode, pfs)
    if starts is not None:
        check_file("--starts", starts, b"job,start,")
    schedules, variations = _choose_schedules(schedule), parse_sweeps(sweep or [])
    frame = _parse_window(window)
    workloads = _read_all(sources, ReadOptions(cores=cores, volume=swf_volume, space=size, seed=seed))
    _report_rejected(workloads, nodes, size)
    return JobsStudy(
        workloads=workloads,
        nodes=nodes,
        space=size,
        schedules=schedules,
        variations=variations,
        seed=seed,
        bandwidth=bandwidth,
        platform=disks,
        storage=check_policy("--policy", "storage", policy or "forebay") if disks else "",
        split=_parse_split(split),
        window=frame,
        starts=starts,
    )


def _choose_schedules(text: str | None) -> list[str]:
    from forebay.decide.registry import policies

    known = policies("schedule")
    if text is None:
        return [spec for spec in _POLICIES if spec.partition(":")[0] in known]
    return policy_list("schedule", text)


def _parse_space(text: str | None) -> int:
    from forebay.model.system import MOST_BYTES
    from forebay.model.units import parse_size, require_unit

    if text is None:
        raise BadInput("--space", "is missing; give the size of the burst buffer, like 480GB")
    rule = f"must be from 1 byte to {MOST_BYTES:,} bytes"
    return int(
        parse_quantity("--space", text, lambda t: parse_size(require_unit(t)), lambda v: 1 <= v <= MOST_BYTES, rule)
    )


def _parse_split(text: str | None) -> int:
    from forebay.model.units import parse_size, require_unit

    if text is None:
        return 0
    return int(
        parse_quantity("--split", text, lambda t: parse_size(require_unit(t)), lambda v: v >= 1, "must be a size")
    )


def _parse_bandwidth(mode: str, pfs: str | None) -> float:
    """Return bytes per second; infinity in mode allocation."""
    from forebay.model.units import parse_bandwidth

    if mode not in ("allocation", "transfers"):
        raise BadInput("--mode", f"must be allocation or transfers, not {mode!r}")
    if mode == "allocation":
        if pfs is not None:
            raise BadInput("--pfs", "needs --mode transfers")
        return math.inf
    rule = "must be above 0 and finite"
    return parse_quantity("--pfs", pfs or "1.25 GB/s", parse_bandwidth, lambda v: 0 < v < math.inf, rule)


def _parse_window(text: str | None) -> tuple[float, float] | None:
    """Return start and end in seconds after the first submission."""
    from forebay.model.units import parse_duration

    if text is None:
        return None
    begin, colon, length = text.partition(":")
    if not colon:
        raise BadInput("--window", f"must be START:LENGTH like 3d:12h, not {text!r}")
    start = parse_quantity("--window", begin, parse_duration)
    return start, start + parse_quantity("--window", length, parse_duration, lambda v: v > 0, "LENGTH must be above 0")


def _read_all(sources: Sequence[str], options: ReadOptions) -> tuple[Jobs, ...]:
    """Read every file once; files with the same name are called by their paths."""
    from dataclasses import replace

    from forebay.history.jobs import read_jobs
    from forebay.show.output import progress

    unique = list(dict.fromkeys(sources))
    workloads = []
    with progress("jobs: reading", len(unique)) as advance:
        for number, source in enumerate(unique):
            advance(number)
            workloads.append(read_jobs(source, options))
    names = [jobs.name for jobs in workloads]
    paths = [
        source.replace("/", "-") if names.count(name) > 1 else name for source, name in zip(unique, names, strict=True)
    ]
    return tuple(replace(jobs, name=name[:80]) for jobs, name in zip(workloads, paths, strict=True))


def _report_rejected(workloads: Sequence[Jobs], nodes: int, space: int) -> None:
    """Print a line for each job that is left out, up to ten, and their number."""
    from forebay.model.jobs import reject_oversized
    from forebay.model.units import plural

    fitting = [reject_oversized(jobs, nodes, space) for jobs in workloads]
    for jobs in fitting:
        if not len(jobs):
            raise BadInput(jobs.file, f"has no job that fits on the machine (first: {jobs.rejected[-1].reason})")
    rejected = [row for jobs in fitting for row in jobs.rejected]
    for row in rejected[:_MOST_SHOWN]:
        typer.echo(f"forebay: {row}; left out", err=True)
    if rejected:
        more = len(rejected) - _MOST_SHOWN
        rest = f", {more:,} of them not shown here; results.json lists all" if more > 0 else ""
        typer.echo(f"forebay: {plural(len(rejected), 'job')} left out{rest}", err=True)
    for jobs in workloads:
        if jobs.left_out:
            typer.echo(f"forebay: {jobs.file}: left out: {jobs.left_out}", err=True)


JOBS = StudyCommand(
    name="jobs",
    build=build,
    example="forebay study jobs --jobs jobs.csv --nodes 96 --space 480GB --schedule sjf-bb,forebay",
)
