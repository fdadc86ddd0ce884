"""Reads jobs for schedulers: CSV, Batsim's JSON, SWF, Slurm's accounting, or the history."""

from dataclasses import dataclass
from pathlib import Path

from forebay.history.jobs import batsim, csv_table, slurm, swf
from forebay.history.text_files import open_bytes
from forebay.model.errors import BadInput
from forebay.model.jobs import Jobs
from forebay.model.system import MOST_BYTES
from forebay.model.units import plural

HISTORY = "history"
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What some formats leave open.

    SWF has processors instead of nodes and no burst buffer: `volume` is None for drawn sizes of at most `space` bytes
    a job (see `drawn_space`), or a text for `swf.volume_per_processor`. Batsim counts operations; `flops` is how many a
    node does in a second.
    """

    cores: int = 1
    volume: str | None = None
    space: int = MOST_BYTES
    flops: float = 1e9
    seed: int = 0


def read_jobs(source: str, options: ReadOptions | None = None) -> Jobs:
    """Read the jobs of a file, in order of submission; its content decides the format. `history[:DB]` is the history.

    Rows that are not valid are left out and listed in `rejected`. A file without a valid job is an error.
    """
    options = options or ReadOptions()
    kind, _, database = source.partition(":")
    if kind == HISTORY and not Path(source).exists():
        from forebay.history.jobs.past_jobs import jobs_of_history  # SQLAlchemy is slow to import

        jobs = jobs_of_history(database or None)
    else:
        path = Path(source)
        match find_format(path):
            case "batsim":
                jobs = batsim.read(path, flops=options.flops)
            case "sacct":
                jobs = slurm.read(path)
            case "swf":
                jobs = swf.read(
                    path, cores=options.cores, volume=options.volume, space=options.space, seed=options.seed
                )
            case _:
                jobs = csv_table.read(path)
    if not len(jobs):
        first = jobs.rejected[0] if jobs.rejected else None
        place = f"line {first.line}: " if first and first.line else ""
        why = f"{plural(len(jobs.rejected), 'row')} rejected; first: {place}{first.reason}" if first else "it is empty"
        raise BadInput(source, f"has no valid job ({why})")
    return jobs


def find_format(path: Path) -> str:
    """Return `batsim`, `sacct`, `swf` or `csv`, by the first lines of the file."""
    with open_bytes(path) as file:
        head = file.read(_HEAD).decode("utf-8-sig", errors="replace")
    if head.lstrip().startswith("{"):
        return "batsim"
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    first = lines[0] if lines else ""
    if "|" in first:
        return "sacct"
    fields = next((line for line in lines if not line.startswith(";")), "").split()
    is_swf = first.startswith(";") or (len(fields) > 1 and not any("," in field or field.isalpha() for field in fields))
    return "swf" if is_swf else "csv"
