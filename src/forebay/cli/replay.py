"""`forebay replay`: shows what another policy would have granted, or when it would have started jobs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.model.errors import BadInput
from forebay.model.units import format_duration, format_size, plural
from forebay.show.options import Json, check_file
from forebay.show.output import print_json, print_table, progress, whole_file

if TYPE_CHECKING:
    from forebay.decide.grants.events import Event
    from forebay.simulate.storage.journal_replay import Comparison, Decided

commands = typer.Typer()


@commands.command(epilog="Example: forebay replay service.db --policy worst-fit")
def replay(
    journal: Annotated[
        str,
        typer.Argument(
            help="A database (a path, sqlite:///PATH, postgresql://…), a file that --export wrote, or the record.jsonl "
            "of `forebay schedule`."
        ),
    ],
    policy: Annotated[str | None, typer.Option(help="The other policy [default: the same, to show chance].")] = None,
    all: Annotated[bool, typer.Option("--all", help="List all requests with another outcome.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write the journal to this file, one event a line.")] = None,
    json: Json = False,
) -> None:
    """Decide a journal's requests again under another policy.

    Compares the result with the decisions of the service, or, for the record of `forebay schedule`, with Slurm's.
    """
    from forebay.history.jobs.planner_record import is_record

    if "://" not in journal and Path(journal).is_file() and is_record(Path(journal)):
        _replay_schedule(Path(journal), policy, json=json)
        return
    from forebay.decide.grants.codec import to_line
    from forebay.decide.registry import find
    from forebay.simulate.storage.journal_replay import replay_journal

    if export is not None:
        check_file("--export", export, b"{")
    name = None if policy is None else find("storage", policy).name
    events = read_journal(journal)
    if export is not None:
        with whole_file(export) as file:
            file.writelines(f"{to_line(event)}\n" for event in events)
        typer.echo(f"written: {export}", err=True)
    with progress("replay", 1.0) as report:
        comparison = replay_journal(events, name, progress=report)
    if not json:
        _print(comparison, None if all else 20)
        return
    changed = [
        {
            **{field: getattr(row.ask, field) for field in ("grant", "job", "uid", "size")},
            "asked": row.asked,
            "then": asdict(row.then),
            "now": asdict(row.now),
        }
        for row in comparison.changed_rows
    ]
    sides = {"then": asdict(comparison.then), "now": asdict(comparison.now)}
    print_json({**sides, "requests": len(comparison.rows), "changed": changed})


def read_journal(journal: str) -> list[Event]:
    """Read the events of a database, or of a file with one event per line."""
    from forebay.decide.grants.codec import from_line
    from forebay.history.store.database import is_sqlite_file, open_store
    from forebay.history.store.journal import read_after

    path = Path(journal)
    if "://" not in journal and path.is_file() and not is_sqlite_file(path):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [from_line(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    file = Path(journal.removeprefix("sqlite:///"))
    if "://" not in str(file) and not file.exists():
        raise BadInput(
            str(file),
            "no such file; replay needs the database of a service (`forebay serve`), a file that --export wrote, or "
            "the record.jsonl of `forebay schedule`",
        )
    with open_store(journal, create=False) as store, store.open_reader() as connection:
        events = [from_line(e.line, f"{store.where}: number {e.number}") for e in read_after(connection, 0)]
    if not events:
        raise BadInput(journal, "contains no journal; name the database of a service (`forebay serve`)")
    return events


def _print(comparison: Comparison, most: int | None) -> None:
    rows = [
        (when, s.policy, s.granted, s.refused, s.waiting, format_size(s.bytes), f"{s.waited:.1f}")
        for when, s in (("then", comparison.then), ("now", comparison.now))
    ]
    heads = ("", "policy", "granted", "refused", "waiting", "volume", "mean wait (s)")
    print_table(plural(len(comparison.rows), "request"), heads, rows)
    if comparison.changed_rows:
        shown = comparison.changed_rows[:most]
        first = f", the first {len(shown)}" if len(shown) < len(comparison.changed_rows) else ""
        cells = [
            (r.ask.grant[:12], r.ask.job or "-", format_size(r.ask.size), _describe(r.then), _describe(r.now))
            for r in shown
        ]
        title = f"{len(comparison.changed_rows)} with another outcome{first}"
        print_table(title, ("grant", "job", "size", "then", "now"), cells)


def _describe(decided: Decided) -> str:
    if decided.verdict != "granted":
        return f"{decided.verdict}: {decided.because}" if decided.because else decided.verdict
    where = ", ".join(decided.disks[:3]) + (f" and {len(decided.disks) - 3} more" if len(decided.disks) > 3 else "")
    return f"{where}, after {format_duration(round(decided.waited))}" if decided.waited >= 1 else where


def _replay_schedule(path: Path, spec: str | None, *, json: bool) -> None:
    """Compare the record of the planner with a simulation of the same jobs."""
    from forebay.decide.registry import find
    from forebay.history.jobs.planner_record import read_record
    from forebay.simulate.jobs.record_replay import replay_record

    record = read_record(path)
    policy = find("schedule", spec or record.policy)
    with progress("replay", len(record.jobs)) as report:
        comparison = replay_record(record, policy, progress=report)
    sides = (("then", comparison.then), ("now", comparison.now))
    if json:
        about = {"mode": record.mode, "as_planned": record.as_planned, "planned": record.planned}
        counts = {"jobs": comparison.jobs, "left_out": comparison.left_out}
        print_json({**{name: asdict(side) for name, side in sides}, **counts, **about})
        return
    heads = ("", "scheduler", "mean wait (s)", "median", "95 %", "longest", "slowdown")
    rows = [
        (
            when,
            s.scheduler,
            *(f"{v:.1f}" for v in (s.mean, s.median, s.p95, s.longest)),
            f"{s.mean_bounded_slowdown:.2f}",
        )
        for when, s in sides
    ]  # fmt: skip
    steered = "steered" if record.mode == "steer" else "only watched"
    print_table(f"{plural(comparison.jobs, 'job')}; the planner {steered}", heads, rows)
    if record.planned:
        typer.echo(f"{record.as_planned} of {plural(record.planned, 'job')} started in the order of the plan")
