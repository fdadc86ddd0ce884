"""The results: a row for every run, and what became of every job."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forebay.model.arrays import Floats
from forebay.model.jobs import Jobs
from forebay.show.rows import Record, Rows, distinct_values, read_columns, select
from forebay.studies.jobs.measures import bounded_slowdowns, waits

_COLUMNS = read_columns(__file__)
RUN, SIZE, FATE = (np.dtype(_COLUMNS[kind]) for kind in ("run", "size", "fate"))
REFERENCE, PLAN, FOREBAY = "sjf-bb", "plan:alpha=1", "forebay"
EASY, FCFS_BB = "easy", "fcfs-bb"
METRICS = ("mean_wait", "mean_bounded_slowdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsResults:
    """All runs (RUN) and sizes of jobs (SIZE), and the fates (FATE) of the jobs of each file under each policy."""

    settings: Mapping[str, object]
    nodes: int
    space: int
    mode: str
    workloads: Sequence[Jobs]
    runs: Rows
    sizes: Rows
    fates: Mapping[tuple[str, str], Rows]
    window: tuple[float, float] | None = None

    @property
    def schedules(self) -> list[str]:
        return distinct_values(self.runs, "schedule")

    @property
    def base(self) -> Rows:
        """The runs on the study's own machine with the jobs as they are."""
        return select(self.runs, sweep="")

    @property
    def reference(self) -> str:
        """The policy to which others are compared."""
        return REFERENCE if REFERENCE in self.schedules else self.schedules[0]

    def choose(self, most: int) -> list[str]:
        """A few policies for figures that have no room for all: the reference first."""
        liked = (self.reference, FOREBAY, PLAN, "slurm", FCFS_BB, EASY)
        return list(dict.fromkeys([*(name for name in liked if name in self.schedules), *self.schedules]))[:most]

    def pool(self, schedule: str) -> tuple[Floats, Floats]:
        """Waits and bounded slowdowns of the jobs of all files under a policy."""
        pairs = [
            (waits(jobs, fates), bounded_slowdowns(jobs, fates))
            for jobs in self.workloads
            for fates in [self.fates[jobs.name, schedule]]
        ]
        waited, slowed = zip(*pairs, strict=True)
        return np.concatenate(waited), np.concatenate(slowed)


def ratios(runs: Rows, schedule: str, reference: str, metric: str) -> Floats:
    """A metric of a policy over that of the reference, for each file that both ran, in order of the files."""
    ours, theirs = ({r["jobs"]: float(r[metric]) for r in select(runs, schedule=s)} for s in (schedule, reference))
    shared = [name for name in ours if name in theirs]
    return np.array([_ratio(ours[name], theirs[name]) for name in shared])


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else (1.0 if ours == theirs else np.inf)


def normalise(results: JobsResults) -> Iterator[Record]:
    """Yield, for each policy, the mean over the files of its metrics, each divided by the reference's."""
    for schedule in results.schedules:
        record: Record = {"schedule": schedule, "reference": results.reference}
        for metric in (*METRICS, "p95_wait", "max_wait"):
            values = ratios(results.base, schedule, results.reference, metric)
            record[metric] = float(values.mean())
            record[f"worst_{metric}"] = float(values.max())
        yield record


def sweep_records(results: JobsResults) -> Iterator[Record]:
    """Yield, for each changed machine or order of jobs and each policy, the means over the files."""
    for sweep, value in distinct_values(results.runs, "sweep", "value"):
        if not sweep:
            continue
        runs = select(results.runs, sweep=sweep, value=value)
        for schedule in results.schedules:
            chosen = select(runs, schedule=schedule)
            record: Record = {"sweep": sweep, "value": value, "schedule": schedule}
            for metric in METRICS:
                record[metric] = float(chosen[metric].mean())
                record[f"{metric}_ratio"] = float(ratios(runs, schedule, results.reference, metric).mean())
            yield record
