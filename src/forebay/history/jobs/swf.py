"""Reads jobs from logs in the Standard Workload Format, with drawn or stated burst-buffer sizes."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forebay.history.jobs.drawn_space import draw_bytes_per_node
from forebay.history.jobs.job_list import LONGEST, MOST_NODES, short_name
from forebay.history.traces.columns import describe_left_out
from forebay.history.traces.swf import KILOBYTE, PARTIAL, UNKNOWN, Block, read_blocks, volume_per_processor
from forebay.model.arrays import Floats, Ints
from forebay.model.jobs import JOB, BadRow, Jobs
from forebay.model.system import MOST_BYTES

_USED = {
    "job number": 0, "submit time": 1, "run time": 3, "processors": 4, "used memory": 6, "requested processors": 7,
    "requested time": 8, "requested memory": 9, "status": 10, "user": 11, "group": 12, "application": 13,
}  # fmt: skip
_NAMES = {"user": "user", "project": "group", "application": "application"}
DRAWN = "drawn"
_WHOLE_NUMBERS = ("processors", "used memory", "requested memory", *_NAMES.values())
_WHOLE = 1e14  # the largest of ids and kilobytes, which are whole numbers


def read(path: Path, *, cores: int, volume: str | None, space: int, seed: int) -> Jobs:
    """Read jobs of `cores` processors a node. Requested values count; where they are unknown, used ones do.

    `volume` is None or `drawn`, or a text for `volume_per_processor`. Jobs that never ran and lines about parts of
    jobs are only counted: logs have thousands of them.
    """
    drawn = volume in (None, DRAWN)
    per_processor = None if drawn else volume_per_processor(volume)
    pieces, numbers = [np.empty((0, len(_USED)))], [np.empty(0, dtype=np.int64)]
    rejected: list[BadRow] = []
    left_out: Counter[tuple[str, str]] = Counter()

    def reject(line: int, reason: str) -> None:
        rejected.append(BadRow(str(path), line, reason))

    with closing(read_blocks(path, _USED, reject)) as blocks:
        for block in blocks:
            partial, idle = np.isin(block.column("status"), PARTIAL), np.isin(block.column("run time"), (0, UNKNOWN))
            valid = _check(block, ~partial & ~idle, rejected)
            left_out["line", "about a part of a job"] += int(partial.sum())
            left_out["job", "without run time"] += int((idle & ~partial).sum())
            pieces.append(block.table[valid])
            numbers.append(block.line_numbers()[valid])
    table = Block(path, 1, [], np.concatenate(pieces), tuple(_USED))
    first = _first_of_each(table.column("job number"))
    lines = np.concatenate(numbers)
    for i in np.flatnonzero(~first).tolist():
        reason = f"job {table.column('job number')[i]:.0f} appears twice; job ids must be unique"
        rejected.append(BadRow(str(path), int(lines[i]), reason))
    table, lines = Block(path, 1, [], table.table[first], tuple(_USED)), lines[first]
    rows = _make_rows(table, cores)
    names = {column: _number_names(table.column(field), rows[column]) for column, field in _NAMES.items()}
    if drawn:
        sizes = np.minimum(draw_bytes_per_node(rows["walltime"], seed), space // rows["nodes"]) * rows["nodes"]
    else:
        sizes = _stated_sizes(table, per_processor)
    rows["bytes"] = rows["bytes_in"] = rows["bytes_out"] = np.minimum(sizes, MOST_BYTES)
    order = np.argsort(rows["submit"], kind="stable")
    return Jobs(
        rows=rows[order],
        ids=tuple(str(number) for number in table.column("job number")[order].astype(np.int64).tolist()),
        users=names["user"],
        projects=names["project"],
        applications=names["application"],
        rejected=tuple(rejected),
        left_out=describe_left_out(left_out),
        name=short_name(str(path)),
        file=str(path),
        lines=lines[order],
    )


def _choose(block: Block, first: str, second: str) -> Floats:
    chosen: Floats = np.where(block.column(first) > 0, block.column(first), block.column(second))
    return chosen


def _check(block: Block, ran: NDArray[np.bool_], rejected: list[BadRow]) -> NDArray[np.bool_]:
    """Which of the jobs that ran are valid; the others are rejected."""
    values: Sequence[tuple[str, Floats, float, float]] = (
        ("job number", block.column("job number"), 0, _WHOLE),
        ("submit time", block.column("submit time"), 0, LONGEST),
        ("processors", _choose(block, "requested processors", "processors"), 1, MOST_NODES),
        ("run time", block.column("run time"), 0, LONGEST),
        ("requested time", _choose(block, "requested time", "run time"), 0, LONGEST),
        *((name, block.column(name), -_WHOLE, _WHOLE) for name in _WHOLE_NUMBERS),
    )
    valid = ran.copy()
    lines = block.line_numbers()
    for name, column, least, most in values:
        wrong = valid & ~((column >= least) & (column <= most) & ((np.rint(column) == column) | (most != _WHOLE)))
        for i in np.flatnonzero(wrong).tolist():
            kind = "a whole number " if most == _WHOLE else ""
            reason = f"{name} must be {kind}from {least:,.15g} to {most:,.15g}, not {column[i]:.15g}"
            rejected.append(BadRow(str(block.path), int(lines[i]), reason))
        valid &= ~wrong
    return valid


def _first_of_each(numbers: Floats) -> NDArray[np.bool_]:
    first = np.zeros(numbers.size, dtype=bool)
    first[np.unique(numbers, return_index=True)[1]] = True
    return first


def _make_rows(table: Block, cores: int) -> NDArray[np.void]:
    rows = np.zeros(len(table.table), dtype=JOB)
    rows["submit"] = table.column("submit time")
    rows["nodes"] = np.ceil(_choose(table, "requested processors", "processors") / cores)
    rows["walltime"] = _choose(table, "requested time", "run time")
    rows["runtime"] = table.column("run time")
    rows["tier"] = -1
    return rows


def _number_names(values: Floats, column: NDArray[np.int32]) -> tuple[str, ...]:
    """Write the index of each name into the column, and return the names."""
    names, index = np.unique(values, return_inverse=True)
    known = names >= 0
    column[:] = np.where(known, np.cumsum(known) - 1, -1)[index] if names.size else -1
    return tuple(f"{name:.0f}" for name in names[known].tolist())


def _stated_sizes(table: Block, per_processor: float | None) -> Ints:
    used = table.column("used memory")
    memory = np.where(used == UNKNOWN, table.column("requested memory"), used) * KILOBYTE
    per_job = np.maximum(memory, 0) if per_processor is None else np.full_like(memory, per_processor)
    sizes: Ints = np.minimum(per_job * table.column("processors").clip(1), MOST_BYTES).astype(np.int64)
    return sizes
