"""Measured bandwidth curves from files: FORGE results, or a plain CSV."""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forebay.model.curve import Curve
from forebay.model.errors import BadInput, why
from forebay.model.units import plural

_PLAIN = ("application", "n", "bandwidth")
# What identifies a FORGE scenario; the number of forwarders is its n.
_FORGE_KEY = ("processes", "clients", "layout", "spatiality", "request", "odirect")
_FORGE = ("forwarders", *_FORGE_KEY, "bandwidth")
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves by application, and a phrase for reports that says where they come from."""

    by_name: dict[str, Curve]
    origin: str


def read_curves(path: Path) -> Curves:
    """The curve of every application or FORGE scenario in a CSV file, medians over repetitions.

    The header shows which: `application,n,bandwidth` (bytes per second), or FORGE's columns separated by semicolons
    (MiB per second). Runs without forwarding (0 forwarders) are left out.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = list(csv.reader(text.splitlines(), delimiter=";" if ";" in text.split("\n", 1)[0] else ","))
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    except UnicodeDecodeError:
        raise BadInput(str(path), "is not UTF-8 text") from None
    except csv.Error as error:
        raise BadInput(str(path), f"is not CSV: {error}") from None
    columns = [name.strip().lower() for name in lines[0]] if lines else []
    if len(set(columns)) < len(columns):
        raise BadInput(f"{path}:1", "has the same column twice")
    if set(_PLAIN) <= set(columns):
        kind, points = "measured", _plain(path, lines, columns)
    elif set(_FORGE) <= set(columns):
        kind, points = "measured (FORGE)", _forge(path, lines, columns)
    else:
        raise BadInput(f"{path}:1", f"needs the columns {','.join(_PLAIN)}, or those of a FORGE result")
    by_name = {name: _curve(path, name, measured) for name, measured in _group(points).items()}
    if not by_name:
        raise BadInput(str(path), "holds no measurement")
    return Curves(by_name, f"{plural(len(by_name), f'{kind} curve')} from {path.name}")


def _plain(path: Path, lines: list[list[str]], columns: list[str]) -> Iterator[tuple[str, int, float]]:
    for where, row in _rows(path, lines, columns):
        n = _whole(where, "n", row["n"], least=1)
        yield row["application"].strip(), n, _bandwidth(where, row["bandwidth"])


def _forge(path: Path, lines: list[list[str]], columns: list[str]) -> Iterator[tuple[str, int, float]]:
    for where, row in _rows(path, lines, columns):
        n = _whole(where, "forwarders", row["forwarders"], least=0)
        if n > 0:
            yield _forge_name(where, row), n, _bandwidth(where, row["bandwidth"]) * _MIB


def _forge_name(where: str, row: dict[str, str]) -> str:
    """Like `1536p/32c/shared/strided/4096KiB/direct`."""
    values = {key: _whole(where, key, row[key], least=0) for key in _FORGE_KEY}
    return "/".join(
        (
            f"{values['processes']}p",
            f"{values['clients']}c",
            "shared" if values["layout"] else "per-process",
            "strided" if values["spatiality"] else "contiguous",
            f"{values['request']}KiB",
            "direct" if values["odirect"] else "buffered",
        )
    )


def _rows(path: Path, lines: list[list[str]], columns: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for number, cells in enumerate(lines[1:], start=2):
        if not cells:
            continue
        if len(cells) != len(columns):
            raise BadInput(f"{path}:{number}", f"has {len(cells)} values for {len(columns)} columns")
        yield f"{path}:{number}", dict(zip(columns, cells, strict=True))


def _bandwidth(where: str, text: str) -> float:
    value = _number(where, "bandwidth", text)
    if not (math.isfinite(value) and value > 0):
        raise BadInput(where, f"bandwidth must be positive and finite, not {text}")
    return value


def _whole(where: str, key: str, text: str, *, least: int) -> int:
    value = _number(where, key, text)
    if not (math.isfinite(value) and value == int(value) and value >= least):
        raise BadInput(where, f"{key} must be a whole number from {least}, not {text}")
    return int(value)


def _number(where: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise BadInput(where, f"{key} must be a number, not {text!r}") from None


def _group(points: Iterator[tuple[str, int, float]]) -> dict[str, dict[int, list[float]]]:
    grouped: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, n, bandwidth in points:
        grouped[name][n].append(bandwidth)
    return grouped


def _curve(path: Path, name: str, measured: dict[int, list[float]]) -> Curve:
    try:
        return Curve.of({n: statistics.median(values) for n, values in measured.items()})
    except ValueError as error:
        raise BadInput(f"{path}: {name}", str(error)) from None
