"""What a study is: what it runs, in pieces, and what it makes of its results."""

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
        with name_errors(self._folder.parent):
            self._folder.mkdir(parents=True, exist_ok=True)
        with whole_file(about) as file:
            file.write(wanted)

    def __contains__(self, key: str) -> bool:
        """Whether the piece is there and whole."""
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


R = TypeVar("R")


class Stage(NamedTuple):
    """Pieces that can be done in any order: `work` makes an array of a key."""

    keys: Sequence[str]
    work: Work


class Study(ABC, Generic[R]):
    """One evaluation, with results of type R. The runner pickles it, so that workers can run its pieces."""

    name: str
    noun = "piece"
    """What a piece is, for people."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """What the pieces depend on: two studies with the same settings can share them."""

    @abstractmethod
    def keys(self) -> list[str]:
        """Of all pieces; each becomes the name of a file."""

    @abstractmethod
    def run_piece(self, key: str) -> Rows:
        """Do one piece. The result depends on the study and the key alone."""

    @abstractmethod
    def collect(self, pieces: Store) -> R:
        """Make the results of all finished pieces."""

    def report(self, results: R) -> Report:
        """Make the tables, figures and findings of the results: `make_report` in `findings.py` of the study's folder.

        It is imported only now, because it needs matplotlib.
        """
        findings = import_module(f"{type(self).__module__.rpartition('.')[0]}.findings")
        report: Report = findings.make_report(results)
        return report

    def fields(self, *names: str) -> dict[str, object]:
        """Settings that are fields of the study."""
        values = ((name, getattr(self, name)) for name in names)
        return {name.replace("_", " "): list(v) if isinstance(v, list | tuple) else v for name, v in values}

    def check(self) -> None:
        """Raise an error for whatever could be wrong with the study, before anything is written."""

    def stages(self, pieces: Store) -> Iterator[Stage]:
        """Yield the pieces in stages. When a stage is asked for, those before it are finished and in `pieces`."""
        del pieces
        yield Stage(self.keys(), self.run_piece)


def policy_digests(policies: Iterable[tuple[Kind, Sequence[str]]]) -> dict[str, str]:
    """Identify the state of the modules of these policies, some of which are not ours."""
    modules = sorted({find(kind, spec).module for kind, specs in policies for spec in specs})
    return {module: digest(inspect.getsource(sys.modules[module])) for module in modules}


def digest(text: str | bytes) -> str:
    """Identify a text by 16 hexadecimal digits."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:16]


def concatenate(pieces: Store, keys: Iterable[str], *kinds: np.dtype[np.void]) -> list[Rows]:
    """One table for each kind of rows, with the pieces of that kind in order; empty where there are none."""
    tables: dict[Any, list[Rows]] = {kind: [np.zeros(0, dtype=kind)] for kind in kinds}
    for key in keys:
        piece = pieces.get(key)
        tables[piece.dtype].append(piece)
    return [np.concatenate(rows) for rows in tables.values()]
