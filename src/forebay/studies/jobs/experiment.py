"""Every scheduling policy on every file of jobs, on one machine and on changed ones."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forebay.decide.registry import find
from forebay.kernel_cache import sources_digest
from forebay.model.errors import BadInput
from forebay.model.jobs import Jobs, reject_oversized
from forebay.show.output import whole_file
from forebay.show.report import Report
from forebay.show.rows import Rows
from forebay.simulate.jobs.run import JobMachine, simulate_jobs
from forebay.studies.jobs.measures import bounded_slowdowns, measure_run, size_masks, waits
from forebay.studies.jobs.results import FATE, RUN, SIZE, JobsResults
from forebay.studies.jobs.variations import BASE, Variation
from forebay.studies.study import Store, Study, digest, policy_digests


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsStudy(Study[JobsResults]):
    """The runs of a study: each file under each policy, as it is and in each variation."""

    workloads: tuple[Jobs, ...]
    nodes: int
    space: int
    schedules: Sequence[str]
    variations: tuple[Variation, ...]
    seed: int
    window: tuple[float, float] | None = None
    starts: Path | None = None
    name = "jobs"
    noun = "run"

    def settings(self) -> dict[str, object]:
        return {
            "version of Forebay": sources_digest(),
            "policies": policy_digests((("schedule", self.schedules),)),
            "jobs": [digest(jobs.rows.tobytes()) for jobs in self.workloads],
            **self.fields("nodes", "space", "schedules", "seed"),
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
                if not len(self._varied(jobs, variation)):
                    because = "" if variation is BASE else f" with {variation.key}"
                    raise BadInput(jobs.file or jobs.name, f"has no job that fits on the machine{because}")

    def _varied(self, jobs: Jobs, variation: Variation) -> Jobs:
        return reject_oversized(variation.change_jobs(jobs), self.nodes, variation.scale_space(self.space))

    def run_piece(self, key: str) -> Rows:
        """Run one file under one policy: FATE rows."""
        jobs, variation, schedule = self.pieces()[key]
        machine = JobMachine(nodes=self.nodes, space=variation.scale_space(self.space))
        run = simulate_jobs(self._varied(jobs, variation), machine, find("schedule", schedule), seed=self.seed)
        fates = np.zeros(run.starts.size, dtype=FATE)
        fates["start"] = fates["held_from"] = run.starts
        fates["end"] = fates["held_until"] = run.ends
        fates["killed"] = run.killed
        return fates

    def collect(self, pieces: Store) -> JobsResults:
        runs, sizes, every = [], [], {}
        for key, (jobs, variation, schedule) in self.pieces().items():
            fates = pieces.get(key)
            own, space = self._varied(jobs, variation), variation.scale_space(self.space)
            measured = measure_run(own, fates, self.nodes, space)
            about = (jobs.name, schedule, variation.sweep, variation.value)
            runs.append((*about, *(measured[name] for name in (RUN.names or ())[len(about) :])))
            if variation is BASE:
                every[jobs.name, schedule] = fates
                sizes += _measure_sizes(own, fates, schedule, self.nodes)
        return JobsResults(
            settings=self.settings(),
            nodes=self.nodes,
            space=self.space,
            mode="allocation",
            workloads=[self._varied(jobs, BASE) for jobs in self.workloads],
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


def write_starts(results: JobsResults, path: Path) -> None:
    """Write a line for each job of each run on the study's own machine; disks are numbers separated by spaces."""
    with whole_file(path) as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("job", "start", "end", "disks", "schedule", "jobs"))
        for jobs in results.workloads:
            for schedule in results.schedules:
                fates = results.fates[jobs.name, schedule]
                times = zip(jobs.ids, fates["start"].tolist(), fates["end"].tolist(), strict=True)
                lines.writerows((job, f"{s:.15g}", f"{e:.15g}", "", schedule, jobs.name) for job, s, e in times)
