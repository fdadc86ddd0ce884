"""Every scheduling policy on every file of jobs, on one machine and on changed ones."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forebay.decide.registry import find
from forebay.kernel_cache import sources_digest
from forebay.model.errors import BadInput
from forebay.model.jobs import Jobs, reject_oversized
from forebay.model.system import Platform
from forebay.show.output import whole_file
from forebay.show.report import Report
from forebay.show.rows import Rows
from forebay.simulate.jobs.run import JobMachine, JobRun, simulate_jobs
from forebay.studies.finished_pieces import Store
from forebay.studies.jobs.measures import bounded_slowdowns, measure_run, size_masks, waits
from forebay.studies.jobs.results import FATE, RUN, SIZE, JobsResults
from forebay.studies.jobs.variations import BASE, Variation
from forebay.studies.study import Study, digest, policy_digests

ALLOCATION, TRANSFERS = "allocation", "transfers"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsStudy(Study[JobsResults]):
    """The runs of a study: each file under each policy, as it is and in each variation."""

    workloads: tuple[Jobs, ...]
    nodes: int
    space: int
    schedules: Sequence[str]
    variations: tuple[Variation, ...]
    seed: int
    bandwidth: float = math.inf
    """Of the parallel file system; finite if jobs stage data in and out."""
    platform: Platform | None = None
    """The disks of the burst buffer, which hold `space` bytes together; without them it is one pool."""
    storage: str = ""
    """The storage policy that chooses disks."""
    split: int = 0
    window: tuple[float, float] | None = None
    starts: Path | None = None
    name = "jobs"
    noun = "run"

    @property
    def mode(self) -> str:
        return TRANSFERS if math.isfinite(self.bandwidth) else ALLOCATION

    def settings(self) -> dict[str, object]:
        storage = [self.storage] if self.storage else []
        return {
            "version of Forebay": sources_digest(),
            "policies": policy_digests((("schedule", self.schedules), ("storage", storage))),
            "jobs": [digest(jobs.rows.tobytes()) for jobs in self.workloads],
            "bandwidth of the file system": self.bandwidth if self.mode == TRANSFERS else None,
            "platform": digest(repr(self.platform)) if self.platform else None,
            **self.fields("nodes", "space", "schedules", "mode", "storage", "split", "seed"),
        }

    def pieces(self) -> dict[str, tuple[Jobs, Variation, str]]:
        """Return, by key, the jobs, the variation and the policy of each run."""
        return {
            f"{number:03}-{jobs.name}/{variation.key}/{schedule}": (jobs, variation, schedule)
            for variation in (BASE, *self.variations)
            for number, jobs in enumerate(self.workloads)
            for schedule in self.schedules
        }

    def keys(self) -> list[str]:
        return list(self.pieces())

    def check(self) -> None:
        for variation in (BASE, *self.variations):
            for jobs in self.workloads:
                if not len(self._fit_jobs(jobs, variation)):
                    because = "" if variation is BASE else f" with {variation.key}"
                    raise BadInput(jobs.file or jobs.name, f"has no job that fits on the machine{because}")

    def _fit_jobs(self, jobs: Jobs, variation: Variation) -> Jobs:
        return reject_oversized(variation.change_jobs(jobs), self.nodes, variation.scale_space(self.space))

    def run_piece(self, key: str) -> Rows:
        """Run one file under one policy: FATE rows."""
        jobs, variation, schedule = self.pieces()[key]
        machine = JobMachine(
            nodes=self.nodes,
            space=variation.scale_space(self.space),
            bandwidth=self.bandwidth,
            platform=variation.scale_platform(self.platform) if self.platform else None,
            storage=find("storage", self.storage) if self.storage else None,
            split=self.split,
        )
        run = simulate_jobs(self._fit_jobs(jobs, variation), machine, find("schedule", schedule), seed=self.seed)
        disks = describe_disks(run)
        fates = np.zeros(run.starts.size, dtype=[*FATE.descr, ("disks", disks.dtype)])
        fates["start"], fates["held_from"] = run.starts, run.held_from
        fates["end"], fates["held_until"] = run.ends, run.held_until
        fates["killed"], fates["disks"] = run.killed, disks
        return fates

    def collect(self, pieces: Store) -> JobsResults:
        runs, sizes, every = [], [], {}
        for key, (jobs, variation, schedule) in self.pieces().items():
            fates = pieces.get(key)
            fitting, space = self._fit_jobs(jobs, variation), variation.scale_space(self.space)
            measured = measure_run(fitting, fates, self.nodes, space)
            about = (jobs.name, schedule, variation.sweep, variation.value)
            runs.append((*about, *(measured[name] for name in (RUN.names or ())[len(about) :])))
            if variation is BASE:
                every[jobs.name, schedule] = fates
                sizes += _measure_sizes(fitting, fates, schedule, self.nodes)
        return JobsResults(
            settings=self.settings(),
            nodes=self.nodes,
            space=self.space,
            mode=self.mode,
            workloads=[self._fit_jobs(jobs, BASE) for jobs in self.workloads],
            runs=np.array(runs, dtype=RUN),
            sizes=np.array(sizes, dtype=SIZE),
            fates=every,
            window=self.window,
        )

    def report(self, results: JobsResults) -> Report:
        if self.starts is not None:
            write_starts(results, self.starts)
        return Study.report(self, results)


def _measure_sizes(jobs: Jobs, fates: Rows, schedule: str, nodes: int) -> list[tuple[object, ...]]:
    waited, slowed = waits(jobs, fates), bounded_slowdowns(jobs, fates)
    return [
        (jobs.name, schedule, size, int(mask.sum()), float(waited[mask].mean()), float(slowed[mask].mean()))
        for size, mask in size_masks(jobs, nodes).items()
        if mask.any()
    ]


def describe_disks(run: JobRun) -> NDArray[np.str_]:
    """The numbers of each job's disks, in order, as text."""
    bounds = zip(run.first_disk[:-1].tolist(), run.first_disk[1:].tolist(), strict=True)
    return np.array([" ".join(map(str, sorted(set(run.disks[low:high].tolist())))) for low, high in bounds])


def write_starts(results: JobsResults, path: Path) -> None:
    """Write a line for each job of each run on the study's own machine; disks are numbers separated by spaces."""
    with whole_file(path) as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("job", "start", "end", "disks", "schedule", "jobs"))
        for jobs in results.workloads:
            for schedule in results.schedules:
                fates = results.fates[jobs.name, schedule]
                columns = (fates[name].tolist() for name in ("start", "end", "disks"))
                rows = zip(jobs.ids, *columns, strict=True)
                lines.writerows((job, f"{s:.15g}", f"{e:.15g}", d, schedule, jobs.name) for job, s, e, d in rows)
