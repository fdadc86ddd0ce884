"""Many independent pieces of work: done by any number of workers, each kept as soon as it is done.

A piece is known by its key and done by a pure function of it, so it does not matter who does
it, in which order, or in which attempt. Finished pieces are files in a folder; a piece whose
file is there is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from forebay.model.errors import BadInput, ForebayError, why
from forebay.model.units import plural
from forebay.work import Died, Gone, Work, Workers, run_pieces


class Interrupted(ForebayError):
    """Stopped before all pieces were done; those that are stay."""

    def __init__(self, done: int, total: int, because: str = "interrupted", *, by_user: bool = False) -> None:
        super().__init__(f"{because}; {done} of {plural(total, 'piece')} {'is' if done == 1 else 'are'} done and kept")
        self.by_user = by_user


class Store:
    """A folder of finished pieces, all made with the same settings."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self._folder = folder
        self._settings = settings

    def open(self) -> None:
        """Make the folder, or check that what is in it was made with the same settings."""
        about = self._folder / "settings.json"
        wanted = json.dumps(self._settings, indent=1, sort_keys=True)
        if about.exists() and any(self._folder.rglob("*.npy")):
            try:
                settings = dict(json.loads(about.read_text()))
            except (ValueError, TypeError):
                raise BadInput(str(about), "is damaged; delete the folder that it is in") from None
            differ = [k for k in sorted({*settings, *self._settings}) if settings.get(k) != json.loads(wanted).get(k)]
            if differ:
                raise BadInput(
                    str(self._folder.parent),
                    f"holds a study with other settings ({', '.join(differ)}); give another --out, or delete it",
                )
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(str(self._folder.parent), why(error)) from None
        partial = about.with_suffix(".partial")
        partial.write_text(wanted)
        partial.replace(about)

    def __contains__(self, key: str) -> bool:
        """Whether the piece is there and whole."""
        try:
            self.get(key)
        except (OSError, ValueError, EOFError):
            return False
        return True

    def put(self, key: str, piece: Any) -> None:
        self._path(key).parent.mkdir(parents=True, exist_ok=True)
        partial = self._path(key).with_suffix(".partial")
        with partial.open("wb") as file:
            np.save(file, piece)
        partial.replace(self._path(key))

    def get(self, key: str) -> Any:
        return np.load(self._path(key))

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npy"


def run_all(
    keys: Sequence[str], work: Work, store: Store, *, workers: Workers, progress: Callable[[int], None]
) -> None:
    """Do every piece that is not in the store; `work` makes an array of a key, `progress` gets how many are done.

    Ctrl-C ends it with `Interrupted`; so does, once all others are done, a piece that nobody survives.
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
