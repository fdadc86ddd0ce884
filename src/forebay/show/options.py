"""Options that several commands share, declared and checked once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput, name_errors

if TYPE_CHECKING:
    from forebay.decide.policy import Kind


DEFAULT_ALLOCATE = "forebay"
DEFAULT_PLACE = "greedy-non-clairvoyant"
UNKNOWN = "unknown"
"""The name of a file system with an unknown mount point."""

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of tables.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]


def check_file(option: str, path: Path, starts: bytes = b"") -> None:
    """Refuse a path that is not writable as a file, before any work is done.

    An existing file is overwritten only if it is empty or begins with `starts`, as the earlier output does.
    """
    if path.is_dir():
        raise BadInput(option, f"{path} is a folder; give the path of a file")
    if not path.absolute().parent.is_dir():
        raise BadInput(option, f"the folder {path.parent} does not exist; create it first")
    if path.is_file():
        with name_errors(path), path.open("rb") as file:
            begin = file.read(len(starts))
        if begin and begin.lower() != starts.lower():
            raise BadInput(option, f"{path} holds something else and is not overwritten; give another name")


def check_plot(plot: Path | None) -> Path | None:
    """Refuse a path that is not writable as a figure, before any work is done."""
    if plot is None:
        return None
    check_file("--plot", plot, b"%PDF" if plot.suffix.lower() == ".pdf" else b"\x89PNG")
    if plot.suffix.lower() not in (".png", ".pdf"):
        problem = f"cannot draw {plot.suffix} files" if plot.suffix else f"{plot} has no suffix"
        raise BadInput("--plot", f"{problem}; use a name that ends in .png or .pdf, such as {plot.stem or 'plot'}.png")
    return plot


def _check_workers(text: str | None) -> str | None:
    """Check the option at once: some commands compute for long before they need workers."""
    if text is not None:
        from forebay.work import parse_workers

        parse_workers(text)
    return text


Plot = Annotated[
    Path | None, typer.Option("--plot", help="Also draw a figure into this PNG or PDF file.", callback=check_plot)
]
Allocate = Annotated[
    str | None,
    typer.Option(help="Comma-separated allocation policies, or 'all'; NAME:option=value sets an option."),
]
Place = Annotated[str | None, typer.Option(help="Comma-separated placement policies, or 'all'.")]
Database = Annotated[
    str | None,
    typer.Option(
        help="The history: sqlite:///PATH, a path, or postgresql://… [default: $FOREBAY_DB or ~/.local/share/forebay]",
        show_default=False,
    ),
]
ServiceDatabase = Annotated[
    str | None,
    typer.Option(
        help="The service's database: sqlite:///PATH, a path, or postgresql://… [default: $FOREBAY_DB or "
        "~/.local/share/forebay]",
        show_default=False,
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        metavar="N|dask://HOST:PORT|slurm:N",
        help="Workers: N processes, a Dask cluster, or N Slurm jobs [default: a process per core].",
        callback=_check_workers,
        show_default=False,
    ),
]
_DATE = re.compile(r"\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d(-?\d)?")
_OPTIONS = {
    "allocate": "--allocate",
    "place": "--place",
    "order": "--scheduler",
    "tune": "--tuner",
    "schedule": "--schedule",
}


def policy_list(kind: Kind, text: str | None, *, also: Sequence[str] = ()) -> list[str]:
    """The named policies; 'all' or None means all of the kind except `optimal`, which must be named.

    `also` are names that are accepted although they are not policies.
    """
    from forebay.decide.registry import find, policies

    every = [name for name in policies(kind) if name != "optimal"]  # it is slow except on small cases
    if text is None:
        return every
    named = (name.strip() for name in text.split(",") if name.strip())
    names = list(dict.fromkeys(n for name in named for n in (every if name == "all" else [name])))
    if not names:
        raise BadInput(_OPTIONS.get(kind, "--policy"), f"names no {'scheduler' if kind == 'order' else 'policy'}")
    for name in names:
        if name not in also:
            find(kind, name)
    return names


def parse_quantity(
    option: str,
    text: str,
    parse: Callable[[str], float],
    holds: Callable[[float], bool] = lambda value: value >= 0,
    rule: str = "must not be negative",
) -> float:
    """The value of an option that has a unit, such as `500GB` or `2h`; `rule` says what `holds` checks."""
    try:
        value = parse(text)
    except ValueError as error:
        raise BadInput(option, str(error)) from None
    if not holds(value):
        raise BadInput(option, f"{rule}, not {text!r}")
    return value


def load_range(text: str) -> tuple[list[float], float]:
    """Parse '0.2:1.2:0.1' into the loads 0.2, 0.3, ... 1.2 and the step; a single load has a step of 0.1."""
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        parts = []
    if len(parts) == 1:
        parts = [parts[0], parts[0], 0.1]
    positive = all(math.isfinite(part) and part > 0 for part in parts)
    if len(parts) != 3 or not positive or parts[0] > parts[1]:
        raise BadInput("--loads", f"must be LOW:HIGH:STEP like 0.2:1.2:0.1, all positive, not {text!r}")
    low, high, step = parts
    steps = (high - low) / step + 1e-9
    if steps > 1000:
        raise BadInput("--loads", f"{text!r} makes {steps:.3g} loads; use a larger STEP to make at most 1000")
    return [round(low + i * step, 9) for i in range(int(steps) + 1)], step


def find_filesystem(name: str | None, known: Sequence[str]) -> str | None:
    """The mount point that an option names, in the form of the history."""
    if name is None:
        return None
    wanted = "" if name == UNKNOWN else name.rstrip("/") or "/"
    if wanted not in known:
        there = ", ".join(mount or UNKNOWN for mount in known)
        hint = f"the history knows {there}" if there else "no run in the history was on Lustre"
        raise BadInput("--filesystem", f"no run was on {name}; {hint}")
    return wanted


def parse_period(since: str | None, until: str | None) -> tuple[float | None, float | None]:
    """Two local dates, or dates and times, as seconds since 1970; a date in `until` includes that day."""
    low, high = _seconds("--since", since), _seconds("--until", until, end=True)
    if low is not None and high is not None and low >= high:
        raise BadInput("--until", f"{until} is not after {since}")
    return low, high


def _seconds(option: str, text: str | None, *, end: bool = False) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if end and _DATE.fullmatch(text):
            moment += timedelta(days=1)
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        raise BadInput(option, f"must be a date like 2026-01-31 or 2026-01-31T12:00, not {text!r}") from None
