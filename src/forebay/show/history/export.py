"""The history as Parquet files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.history.store.listing import dump_tables
from forebay.show.export import write_parquet
from forebay.show.output import progress

if TYPE_CHECKING:
    from forebay.history.store import Connection


def export_history(connection: Connection, folder: Path) -> list[tuple[Path, int]]:
    """Every table into `folder`, all of one state of the history; the files and their rows.

    Files appear when all are whole; those of an earlier export are replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
        made = []
        for name, columns, parts in dump_tables(connection):
            with progress(name, float("inf")):
                path = Path(scratch) / f"{name}.parquet"
                made.append((path, write_parquet(path, columns, parts)))
        return [(path.replace(folder / path.name), rows) for path, rows in made]
