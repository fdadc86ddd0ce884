"""Many independent pieces of work, done by processes here, by a Dask cluster, or by jobs of Slurm."""

from forebay.work.crew import Died, Work
from forebay.work.each import Workers, each, is_local
from forebay.work.workers import Dask, Gone, Processes, Slurm, SlurmOptions, workers_of

__all__ = [
    "Dask",
    "Died",
    "Gone",
    "Processes",
    "Slurm",
    "SlurmOptions",
    "Work",
    "Workers",
    "each",
    "is_local",
    "workers_of",
]
