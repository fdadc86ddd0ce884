"""Calibrations in a file: `forebay calibrate` writes it, and whatever predicts with the model reads it.

A file of its own, because users of `forebay diagnose` on a login node read no history, and because a program that
rewrites `forebay.toml` would lose its comments.
"""

import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from forebay.history.regular_files import check_regular
from forebay.model.errors import BadInput, name_errors, why
from forebay.profile.calibration.check import Check
from forebay.profile.calibration.filesystem_costs import FileSystem, Pair, Parameters, Waiting
from forebay.profile.calibration.prediction import OPERATIONS

T = TypeVar("T")

_SITE = Path("/etc/forebay/calibration.toml")
_SPEEDS = ("bandwidth", "total", "call", "latency")
_SHARED = ("lock", "name")
_WAITING = tuple(field.name for field in fields(Waiting))


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """What a calibration was checked with: see `check.Score`."""

    fitted: int
    checked: int
    median: float
    p90: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Parameters, where they come from, and how far they were off. `filesystem` is a mount point, or "" for any;
    `made` is in seconds since 1970. Without `knows_requests`,
    the costs of a request are defaults, because the runs do not show them. `accuracy` is that of reads and of writes;
    None where it was not checked."""

    filesystem: str
    made: float
    source: str
    parameters: Parameters
    knows_requests: bool
    accuracy: tuple[Accuracy | None, Accuracy | None]


def make_calibration(check: Check, filesystem: str, made: float, source: str) -> Calibration:
    """What to keep of a check; `source` names the runs."""
    reads, writes = (
        None if score is None else Accuracy(**{f.name: getattr(score, f.name) for f in fields(Accuracy)})
        for score in check.scores
    )
    return Calibration(
        filesystem=filesystem,
        made=made,
        source=source,
        parameters=check.parameters,
        knows_requests=bool(check.earlier["requests"].any()),
        accuracy=(reads, writes),
    )


def default_path() -> Path:
    """Where `forebay calibrate` writes: $FOREBAY_CALIBRATION, or beside the history."""
    named = os.environ.get("FOREBAY_CALIBRATION")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return Path(named) if named else data / "forebay" / "calibration.toml"


def read_calibrations(path: Path | None = None) -> list[Calibration]:
    """The calibrations in a file. Without a path, in the default one or the site's; none if there is no such file."""
    if path is None:
        path = next((p for p in (default_path(), _SITE) if p.exists()), None)
        if path is None:
            return []
    try:
        check_regular(path, pipes=True)
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        tables = document.get("calibration", [])
        if not isinstance(tables, list) or document.keys() - {"calibration"}:
            raise ValueError("must hold only [[calibration]] tables; write it with `forebay calibrate`")
        return [_read_one(table) for table in tables]
    except OSError as error:
        raise BadInput(str(path), why(error)) from None
    except ValueError as error:
        raise BadInput(str(path), f"is not a calibration: {error}") from None


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Put a calibration into a file, in place of the one for the same file system."""
    others = read_calibrations(path) if path.exists() else []
    kept = [other for other in others if other.filesystem != calibration.filesystem]
    partial = path.with_name(f"{path.name}.partial")
    with name_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text("\n".join(_lines([*kept, calibration])) + "\n", encoding="utf-8")
        partial.replace(path)


def choose_calibration(
    calibrations: Sequence[Calibration], mounts: Iterable[str], names: Sequence[str]
) -> Calibration | None:
    """The calibration of the file system that holds the first of the files; else the one for any file system."""
    by_mount = {calibration.filesystem: calibration for calibration in calibrations}
    points = sorted({*mounts, *by_mount} - {""}, key=len, reverse=True)
    for name in names[:1]:
        mount = next((point for point in points if name.startswith(f"{point.rstrip('/')}/")), "")
        if mount in by_mount:
            return by_mount[mount]
    return by_mount.get("")


def _lines(calibrations: Iterable[Calibration]) -> Iterator[str]:
    yield "# Written by `forebay calibrate`: how fast the file system is, fitted to measured runs."
    yield "# Bytes per second and seconds; see docs/findings.md."
    for calibration in calibrations:
        fs, waiting = calibration.parameters.fs, calibration.parameters.waiting
        yield "\n[[calibration]]"
        yield f'filesystem = "{_escape(calibration.filesystem)}"'
        yield f"made = {datetime.fromtimestamp(calibration.made, UTC):%Y-%m-%dT%H:%M:%SZ}"
        yield f'source = "{_escape(calibration.source)}"'
        yield f"knows_requests = {str(calibration.knows_requests).lower()}"
        yield from (f"{name} = {getattr(fs, name):.4g}" for name in _SHARED)
        for side, operation in enumerate(OPERATIONS):
            yield f"[calibration.{operation}]"
            yield from (f"{name} = {getattr(fs, name)[side]:.4g}" for name in _SPEEDS)
            yield f"waiting = {{ {', '.join(f'{n} = {getattr(waiting, n)[side]:.4g}' for n in _WAITING)} }}"
            accuracy = calibration.accuracy[side]
            if accuracy is not None:
                checked = ", ".join(f"{name} = {value:.4g}" for name, value in asdict(accuracy).items())
                yield f"accuracy = {{ {checked} }}"


def _escape(text: str) -> str:
    plain = "".join(c if c.isprintable() else "?" for c in text.encode("utf-8", "replace").decode())
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _read_one(table: Any) -> Calibration:
    if not isinstance(table, dict):
        raise ValueError("[[calibration]] must be a table")
    sides = [_get(table, operation, dict) for operation in OPERATIONS]
    waits = [_get(side, "waiting", dict) for side in sides]

    def pair(tables: Sequence[Mapping[str, Any]], name: str, above: float = -math.inf) -> Pair:
        read, written = (_number(side, name, above) for side in tables)
        return read, written

    fs = FileSystem(
        call=pair(sides, "call", above=0.0),
        latency=pair(sides, "latency", above=0.0),
        lock=_number(table, "lock", above=0.0),
        name=_number(table, "name", above=0.0),
        bandwidth=pair(sides, "bandwidth", above=0.0),
        total=pair(sides, "total", above=0.0),
    )
    waiting = Waiting(**{name: pair(waits, name) for name in _WAITING})
    made = _get(table, "made", datetime)
    return Calibration(
        filesystem=_get(table, "filesystem", str),
        made=(made if made.tzinfo else made.replace(tzinfo=UTC)).timestamp(),
        source=_get(table, "source", str),
        parameters=Parameters(fs=fs, waiting=waiting),
        knows_requests=_get(table, "knows_requests", bool),
        accuracy=(_read_accuracy(sides[0]), _read_accuracy(sides[1])),
    )


def _read_accuracy(side: Mapping[str, Any]) -> Accuracy | None:
    if "accuracy" not in side:
        return None
    table = _get(side, "accuracy", dict)
    counts = {name: int(_number(table, name)) for name in ("fitted", "checked")}
    return Accuracy(**counts, median=_number(table, "median"), p90=_number(table, "p90"))


def _get(table: Mapping[str, Any], key: str, kind: type[T]) -> T:
    value = table.get(key)
    if not isinstance(value, kind):
        raise ValueError(f"{key} is missing or not a {'table' if kind is dict else kind.__name__}")
    return value


def _number(table: Mapping[str, Any], key: str, above: float = -math.inf) -> float:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} is missing or not a number")
    if value <= above:
        raise ValueError(f"{key} must be above {above:g}")
    return float(value)
