"""The finished pieces of a study, kept in a folder: which are still valid, and how the missing ones are run."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from forebay.model.errors import BadInput, ForebayError, name_errors
from forebay.model.units import plural
from forebay.show.output import whole_file
from forebay.show.rows import Rows
from forebay.work import Died, Gone, Work, Workers, run_pieces


class Interrupted(ForebayError):
    """The study stopped before all pieces were finished. The finished ones are kept."""

    def __init__(self, done: int, total: int, because: str = "interrupted", *, by_user: bool = False) -> None:
        super().__init__(f"{because}; {done} of {plural(total, 'piece')} {'is' if done == 1 else 'are'} saved")
        self.by_user = by_user


class Store:
    """A folder of finished pieces, all made with the same settings."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._folder = folder
        self._settings = settings

    def open(self) -> None:
        """Create the folder, or check that its pieces were made with the same settings."""
        about = self._folder / "settings.json"
        wanted = json.dumps(self._settings, indent=1, sort_keys=True)
        if about.exists() and any(self._folder.rglob("*.npy")):
            try:
                settings = dict(json.loads(about.read_text()))
            except (ValueError, TypeError):
                raise BadInput(str(about), "is damaged; delete its folder and run the study again") from None
            differ = [k for k in sorted({*settings, *self._settings}) if settings.get(k) != json.loads(wanted).get(k)]
            if differ:
                raise BadInput(
                    str(self._folder.parent),
                    f"holds a study with different settings ({', '.join(differ)}); choose another --out, or delete it",
                )
            return
        with name_errors(self._folder.parent):
            self._folder.mkdir(parents=True, exist_ok=True)
        with whole_file(about) as file:
            file.write(wanted)

    def __contains__(self, key: str) -> bool:
        """Whether the folder holds the whole piece."""
        try:
            self.get(key)
        except (OSError, ValueError, EOFError):
            return False
        return True

    def put(self, key: str, piece: Any) -> None:
        path, partial = self._path(key), self._path(key).with_suffix(".partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            np.save(file, piece)
        partial.replace(path)

    def get(self, key: str) -> Any:
        return np.load(self._path(key))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npy"


def run_all(
    keys: Sequence[str], work: Work, store: Store, *, workers: Workers, progress: Callable[[int], None]
) -> None:
    """Run the pieces that the store lacks. `work` turns a key into an array; `progress` gets the number finished.

    Ctrl-C raises `Interrupted`. So does a piece that kills every worker, once all others are finished.
    """
    missing = [key for key in keys if key not in store]
    done = len(keys) - len(missing)
    progress(done)
    fatal = ""
    try:
        with closing(run_pieces(workers, work, missing)) as results:
            for key, piece in results:
                if isinstance(piece, Died):
                    fatal = fatal or f"piece {key}: {piece.because}"
                    continue
                store.put(key, piece)
                done += 1
                progress(done)
    except KeyboardInterrupt:
        raise Interrupted(done, len(keys), by_user=True) from None
    except Gone as error:
        raise Interrupted(done, len(keys), str(error)) from None
    if fatal:
        raise Interrupted(done, len(keys), fatal)


def concatenate(pieces: Store, keys: Iterable[str], *kinds: np.dtype[np.void]) -> list[Rows]:
    """Return one table for each kind of row: the pieces of that kind in order, or an empty table."""
    tables: dict[Any, list[Rows]] = {kind: [np.zeros(0, dtype=kind)] for kind in kinds}
    for key in keys:
        piece = pieces.get(key)
        tables[piece.dtype].append(piece)
    return [np.concatenate(rows) for rows in tables.values()]
