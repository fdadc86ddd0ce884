"""Many independent pieces of work, done by processes here, by a Dask cluster, or by jobs of Slurm."""

from forebay.work.pieces import Workers, is_local, run_pieces
from forebay.work.workers import Dask, Died, Gone, Processes, Slurm, SlurmOptions, Work, parse_workers

__all__ = [
    "Dask",
    "Died",
    "Gone",
    "Processes",
    "Slurm",
    "SlurmOptions",
    "Work",
    "Workers",
    "is_local",
    "parse_workers",
    "run_pieces",
]
