"""What `forebay show` can show: a study's folder, or a journal in a database or a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay.model.errors import BadInput
from forebay.show.web.journal import Journal, entries_of_lines
from forebay.show.web.server import Source
from forebay.show.web.study import Study

_SQLITE = b"SQLite format 3\0"


@contextmanager
def reading(what: str) -> Iterator[Source]:
    """The source at a path or a database's address, for as long as it is shown."""
    path = Path(what)
    if "://" in what:
        with _database(what) as journal:
            yield journal
    elif path.is_dir():
        with _folder(path) as source:
            yield source
    elif not path.is_file():
        raise BadInput(what, "there is no such file or folder")
    elif _is_sqlite(path):
        with _database(what) as journal:
            yield journal
    else:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield Journal(path.name, entries_of_lines(lines, str(path)), lambda _: [])


@contextmanager
def _folder(path: Path) -> Iterator[Source]:
    if (path / "results.json").is_file():
        yield Study(path)
        return
    databases = [each for each in sorted(path.iterdir()) if each.is_file() and _is_sqlite(each)]
    if len(databases) != 1:
        raise BadInput(str(path), "is neither a study's folder nor one with a service's database in it")
    with _database(str(databases[0])) as journal:
        yield journal


@contextmanager
def _database(where: str) -> Iterator[Journal]:
    from forebay.history.store import open_store
    from forebay.history.store.journal import LogLine, checkpoints_before, list_log_lines, read_after

    with open_store(where, create=False) as store:

        def logs(grant: str) -> list[LogLine]:
            with store.reading() as connection:
                return list_log_lines(connection, grant)

        with store.reading() as connection:
            entries = list(read_after(connection, 0))
            kept = list(checkpoints_before(connection, len(entries)))
        yield Journal(Path(store.where).name, entries, logs, kept)


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(16) == _SQLITE
