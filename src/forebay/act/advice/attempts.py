"""Advice that is put on a folder, and decided again where a new file there shows that it can't be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from forebay.act.advice.decision import Advice, Asked, advise
from forebay.act.filesystems.filesystem import FileSystem, LayoutRefused, leave_out
from forebay.act.filesystems.load import Load
from forebay.decide.policy import Policy
from forebay.history.store import Store
from forebay.model.errors import BadInput
from forebay.model.layout import Target

_TRIES = 3
_UNTAKEN = "a new file could not get it"


def advise_for_folder(
    store: Store,
    asked: Asked,
    policy: Policy,
    files: FileSystem,
    targets: Sequence[Target],
    loads: Sequence[Load] = (),
    *,
    apply_to: Path | None = None,
    shadow: bool = False,
) -> Advice:
    """As `advise`, and with a note on the targets that are left out.

    Where nothing tells that a target is drained or full, the first file that should get it does. Then the layout is
    decided once more without that target.
    """
    for last in (*[False] * (_TRIES - 1), True):
        try:
            advice = advise(store, asked, policy, files, targets, loads, apply_to=apply_to, shadow=shadow)
        except LayoutRefused as refused:
            targets = leave_out(targets, dict.fromkeys(refused.lost, _UNTAKEN))
            if last or not refused.lost or not any(t.usable for t in targets):
                raise
        else:
            break
    return replace(advice, notes=(*advice.notes, *_notes(targets)))


def check_usable(targets: Sequence[Target], name: str) -> None:
    """Raise BadInput if there is no target to choose; `name` is the file system's."""
    if not any(t.usable for t in targets):
        raise BadInput(name, f"no target can be used now: {'; '.join(_notes(targets)) or 'there is none'}")


def _notes(targets: Sequence[Target]) -> list[str]:
    """
    >>> _notes([Target(index=0), *(Target(index=i, usable=False, because="degraded") for i in (3, 4))])
    ['targets 3, 4 left out: degraded']
    """
    out = sorted((t for t in targets if not t.usable), key=lambda t: (t.because, t.index))
    grouped = [(because, [t.index for t in group]) for because, group in groupby(out, key=lambda t: t.because)]
    return [f"{_numbered(indices)} left out: {because or 'not usable'}" for because, indices in grouped]


def _numbered(indices: Sequence[int], most: int = 10) -> str:
    more = f" and {len(indices) - most} more" if len(indices) > most else ""
    return f"target{'s' * (len(indices) > 1)} {', '.join(map(str, indices[:most]))}{more}"
