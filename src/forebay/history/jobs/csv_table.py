"""Reads jobs from CSV with a header; docs/jobs.md lists the columns."""

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from forebay.history.jobs.job_list import NAMES, JobList, Row
from forebay.history.text_files import read_csv
from forebay.history.traces.columns import quote
from forebay.model.errors import BadInput, nearest_name
from forebay.model.jobs import Jobs
from forebay.model.units import parse_size, require_unit

_NEEDED = ("job", "submit", "nodes", "walltime", "runtime")
_SPACE = ("bytes", "bytes_per_node", "space", "space_per_node")
_STAGED = ("bytes_in", "bytes_out")
COLUMNS = (*_NEEDED, *_SPACE, *_STAGED, *NAMES)
"""Times are seconds. `bytes` are bare numbers or have a unit; `space` needs one."""


def read(path: Path) -> Jobs:
    """Read jobs; a row with a wrong value is rejected, a wrong header is an error."""
    jobs = JobList(str(path))
    with closing(read_csv(path, ragged=True)) as lines:
        header = next(lines, (1, [""]))[1]
        _check_header(path, header)
        for number, cells in lines:
            try:
                if len(cells) != len(header):
                    raise ValueError(f"has {len(cells)} values for {len(header)} columns")
                row = _parse(dict(zip(header, (cell.strip() for cell in cells), strict=True)))
            except ValueError as error:
                jobs.reject(number, str(error))
            else:
                jobs.add(number, row)
    return jobs.make_jobs()


def _check_header(path: Path, header: list[str]) -> None:
    where = f"{path}:1"
    if not any(header):
        raise BadInput(str(path), f"is empty; expected a header like {','.join((*_NEEDED, _SPACE[1]))}")
    for name in header:
        if name not in COLUMNS:
            near = nearest_name(name, COLUMNS)
            hint = f"did you mean {near!r}?" if near else f"columns are {', '.join(COLUMNS)}"
            raise BadInput(where, f"unknown column {quote(name)}; {hint}")
        if header.count(name) > 1:
            raise BadInput(where, f"has the column {name!r} twice; remove one")
    missing = [name for name in _NEEDED if name not in header]
    if missing:
        raise BadInput(where, f"needs the column {missing[0]!r}; the header must have {', '.join(_NEEDED)}")
    if sum(name in header for name in _SPACE) != 1:
        raise BadInput(where, f"needs one column for the burst buffer: {', '.join(_SPACE[:-1])} or {_SPACE[-1]}")


def _parse(cells: Mapping[str, str]) -> Row:
    nodes = int(_number(cells, "nodes", "a whole number", float.is_integer))
    [space] = [name for name in _SPACE if name in cells]
    size = _convert(cells, space, lambda text: parse_size(require_unit(text) if space.startswith("space") else text))
    staged = {name: int(_convert(cells, name, parse_size)) if cells.get(name) else None for name in _STAGED}
    return Row(
        id=_read_cell(cells, "job"),
        submit=_number(cells, "submit"),
        nodes=nodes,
        walltime=_number(cells, "walltime"),
        runtime=_number(cells, "runtime"),
        bytes=int(size) * (nodes if space.endswith("_per_node") else 1),
        names={name: cells[name] for name in NAMES if cells.get(name)},
        **staged,
    )


def _read_cell(cells: Mapping[str, str], name: str) -> str:
    if not cells[name]:
        raise ValueError(f"{name} is missing")
    return cells[name]


def _convert(cells: Mapping[str, str], name: str, parse: Callable[[str], float]) -> float:
    text = _read_cell(cells, name)
    try:
        value = parse(text)
    except ValueError as error:
        raise ValueError(f"{name}: {str(error).replace(repr(text), quote(text))}") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {quote(text)}")
    return value


def _number(
    cells: Mapping[str, str],
    name: str,
    rule: str = "a number of seconds",
    holds: Callable[[float], bool] = math.isfinite,
) -> float:
    text = _read_cell(cells, name)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not holds(value):
        raise ValueError(f"{name} must be {rule}, not {quote(text)}")
    return value
