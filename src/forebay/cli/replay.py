"""`forebay replay`: what another policy would have granted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.model.errors import BadInput
from forebay.model.units import format_duration, format_size, plural
from forebay.show.options import Json
from forebay.show.output import print_json, print_table, progress

if TYPE_CHECKING:
    from forebay.decide.grants.events import Event
    from forebay.simulate.storage.journal_replay import Comparison, Decided, Row

commands = typer.Typer()
_SHOWN = 20


@commands.command(epilog="Example: forebay replay history.db --policy worst-fit")
def replay(
    journal: Annotated[
        str, typer.Argument(help="A database (a path, sqlite:///PATH, postgresql://…), or a file of --export.")
    ],
    policy: Annotated[
        str | None, typer.Option(help="The other policy [default: the same, which shows chance].")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="All requests that would have fared otherwise.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write the journal to this file, one event a line.")] = None,
    json: Json = False,
) -> None:
    """Decide a journal's requests again under another policy.

    The result stands side by side with what the service decided.
    """
    from forebay.decide.registry import find
    from forebay.simulate.storage.journal_replay import replay_journal

    name = None if policy is None else find("storage", policy).name
    events = read_journal(journal)
    if export is not None:
        _write(events, export)
    with progress("replay", 1.0) as told:
        found = replay_journal(events, name, progress=told)
    if json:
        print_json(_document(found))
    else:
        _print(found, None if all else _SHOWN)


def read_journal(journal: str) -> list[Event]:
    """The events of a database, or of a file with one a line."""
    from forebay.decide.grants.codec import from_line

    path = Path(journal)
    if "://" not in journal and path.is_file() and not _is_sqlite(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [from_line(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    from forebay.history.store import open_store
    from forebay.history.store.journal import read_after

    with open_store(journal, create=False) as store, store.reading() as connection:
        events = [from_line(e.line, f"{store.where}: number {e.number}") for e in read_after(connection, 0)]
    if not events:
        raise BadInput(journal, "there is no journal in it; `forebay serve` writes one")
    return events


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def _write(events: list[Event], path: Path) -> None:
    from forebay.decide.grants.codec import to_line

    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.writelines(f"{to_line(event)}\n" for event in events)
    partial.replace(path)
    typer.echo(f"written: {path}", err=True)


def _document(found: Comparison) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "then": asdict(found.then),
        "now": asdict(found.now),
        "requests": len(found.rows),
        "changed": [_row(row) for row in found.changed],
    }


def _row(row: Row) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "grant": row.ask.grant,
        "job": row.ask.job,
        "uid": row.ask.uid,
        "size": row.ask.size,
        "asked": row.asked,
        "then": asdict(row.then),
        "now": asdict(row.now),
    }


def _print(found: Comparison, most: int | None) -> None:

    sides = (("then", found.then), ("now", found.now))
    rows = [
        (when, s.policy, s.granted, s.refused, s.waiting, format_size(s.bytes), f"{s.waited:.1f}") for when, s in sides
    ]
    print_table(
        plural(len(found.rows), "request"),
        ("", "policy", "granted", "refused", "waiting", "volume", "mean wait (s)"),
        rows,
    )
    if found.changed:
        shown = found.changed[:most]
        title = f"{len(found.changed)} would have fared otherwise" + (
            f", the first {len(shown)}" if len(shown) < len(found.changed) else ""
        )
        cells = [
            (r.ask.grant[:12], r.ask.job or "-", format_size(r.ask.size), _say(r.then), _say(r.now)) for r in shown
        ]
        print_table(title, ("grant", "job", "size", "then", "now"), cells)


def _say(decided: Decided) -> str:
    if decided.verdict != "granted":
        return f"{decided.verdict}: {decided.because}" if decided.because else decided.verdict
    where = ", ".join(decided.disks[:3]) + (f" and {len(decided.disks) - 3} more" if len(decided.disks) > 3 else "")
    return f"{where}, after {format_duration(round(decided.waited))}" if decided.waited >= 1 else where
