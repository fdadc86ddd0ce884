"""A study: the pieces of work that it runs, and the report of their results."""

import hashlib
import inspect
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from forebay.decide.policy import Kind
from forebay.decide.registry import find
from forebay.model.errors import BadInput, ForebayError, name_errors
from forebay.model.units import plural
from forebay.show.output import whole_file
from forebay.show.report import Report
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


R = TypeVar("R")


class Stage(NamedTuple):
    """Pieces that can run in any order; `work` turns a key into an array."""

    keys: Sequence[str]
    work: Work


class Study(ABC, Generic[R]):
    """One evaluation, with results of type R. The runner pickles it so that workers can run its pieces."""

    name: str
    noun = "piece"
    """The name of a piece in messages."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Return everything that the pieces depend on. Studies with the same settings can share pieces."""

    @abstractmethod
    def keys(self) -> list[str]:
        """Return the keys of all pieces. Each key becomes a file name."""

    @abstractmethod
    def run_piece(self, key: str) -> Rows:
        """Run one piece. The result depends on the study and the key alone."""

    @abstractmethod
    def collect(self, pieces: Store) -> R:
        """Combine the finished pieces into the results."""

    def report(self, results: R) -> Report:
        """Report the results with `make_report`, which each study defines in `findings.py` of its folder.

        That module is imported only now because it needs matplotlib.
        """
        findings = import_module(f"{type(self).__module__.rpartition('.')[0]}.findings")
        report: Report = findings.make_report(results)
        return report

    def fields(self, *names: str) -> dict[str, object]:
        """Return these fields of the study as settings."""
        values = ((name, getattr(self, name)) for name in names)
        return {name.replace("_", " "): list(v) if isinstance(v, list | tuple) else v for name, v in values}

    def check(self) -> None:
        """Raise an error if the study cannot run. The runner calls this before it writes anything."""

    def stages(self, pieces: Store) -> Iterator[Stage]:
        """Yield the pieces in stages. A stage starts when `pieces` holds every piece of the stages before it."""
        del pieces
        yield Stage(self.keys(), self.run_piece)


def policy_digests(policies: Iterable[tuple[Kind, Sequence[str]]]) -> dict[str, str]:
    """Return a digest of the source of each module that defines one of these policies."""
    modules = sorted({find(kind, spec).module for kind, specs in policies for spec in specs})
    return {module: digest(inspect.getsource(sys.modules[module])) for module in modules}


def digest(text: str | bytes) -> str:
    """Identify a text by 16 hexadecimal digits."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def concatenate(pieces: Store, keys: Iterable[str], *kinds: np.dtype[np.void]) -> list[Rows]:
    """Return one table for each kind of row: the pieces of that kind in order, or an empty table."""
    tables: dict[Any, list[Rows]] = {kind: [np.zeros(0, dtype=kind)] for kind in kinds}
    for key in keys:
        piece = pieces.get(key)
        tables[piece.dtype].append(piece)
    return [np.concatenate(rows) for rows in tables.values()]
