"""Reads measured bandwidth curves: FORGE results, or a plain CSV file."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from forebay.history.text_files import read_csv
from forebay.model.curve import Curve
from forebay.model.errors import BadInput
from forebay.model.units import plural

_PLAIN = ("application", "n", "bandwidth")
# The columns that identify a FORGE scenario; the number of forwarders is its n.
_FORGE_KEY = ("processes", "clients", "layout", "spatiality", "request", "odirect")
_FORGE = ("forwarders", *_FORGE_KEY, "bandwidth")
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves by application, and a phrase for reports that says where they come from."""

    by_name: dict[str, Curve]
    origin: str


@dataclass(frozen=True, slots=True)
class _Row:
    """The cells of a line by column, and its place in the file."""

    where: str
    cells: dict[str, str]

    def number(self, column: str, is_good: Callable[[float], bool], rule: str) -> float:
        text = self.cells[column]
        try:
            value = float(text)
        except ValueError:
            raise BadInput(self.where, f"{column} must be a number, not {text!r}") from None
        if not (math.isfinite(value) and is_good(value)):
            raise BadInput(self.where, f"{column} must be {rule}, not {text}")
        return value

    def whole(self, column: str, least: int = 0) -> int:
        return int(self.number(column, lambda n: n == int(n) and n >= least, f"a whole number from {least}"))

    def bandwidth(self) -> float:
        return self.number("bandwidth", lambda bandwidth: bandwidth > 0, "positive and finite")


def read_curves(path: Path) -> Curves:
    """Read the curve of every application or FORGE scenario from a CSV file, as medians over repetitions.

    The header tells the two apart: `application,n,bandwidth` (bytes per second), or FORGE's columns separated by
    semicolons (MiB per second). Runs without forwarding (0 forwarders) are left out.
    """
    with closing(read_csv(path)) as lines:
        _, columns = next(lines)
        if len(set(columns)) < len(columns):
            raise BadInput(f"{path}:1", "names a column twice")
        if set(_PLAIN) <= set(columns):
            kind, parse = "measured", _plain_point
        elif set(_FORGE) <= set(columns):
            kind, parse = "measured (FORGE)", _forge_point
        else:
            raise BadInput(f"{path}:1", f"needs the columns {','.join(_PLAIN)}, or those of a FORGE result")
        measured: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for number, cells in lines:
            if point := parse(_Row(f"{path}:{number}", dict(zip(columns, cells, strict=True)))):
                name, n, bandwidth = point
                measured[name][n].append(bandwidth)
    if not measured:
        raise BadInput(str(path), "has a header but no measurements")
    by_name = {}
    for name, points in measured.items():
        try:
            by_name[name] = Curve.of({n: statistics.median(values) for n, values in points.items()})
        except ValueError as error:
            raise BadInput(f"{path}: {name}", str(error)) from None
    return Curves(by_name, f"{plural(len(by_name), f'{kind} curve')} from {path.name}")


def _plain_point(row: _Row) -> tuple[str, int, float] | None:
    return row.cells["application"].strip(), row.whole("n", least=1), row.bandwidth()


def _forge_point(row: _Row) -> tuple[str, int, float] | None:
    """A point named like `1536p/32c/shared/strided/4096KiB/direct`; None without forwarding."""
    forwarders = row.whole("forwarders")
    if not forwarders:
        return None
    processes, clients, layout, spatiality, request, odirect = map(row.whole, _FORGE_KEY)
    kinds = (
        "shared" if layout else "per-process",
        "strided" if spatiality else "contiguous",
        f"{request}KiB",
        "direct" if odirect else "buffered",
    )
    return "/".join((f"{processes}p", f"{clients}c", *kinds)), forwarders, row.bandwidth() * _MIB
