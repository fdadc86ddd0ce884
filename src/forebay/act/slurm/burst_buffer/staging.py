"""Copies files of a job on the controller, for a time in which the service does not answer.

Otherwise, the storage nodes copy them.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from forebay.act.staging.copier import Copier
from forebay.act.staging.journal import Journal
from forebay.act.staging.path_pairs import find_trees, open_volume
from forebay.model.errors import BadInput, UserError
from forebay.model.staging import Way

KEPT = ".forebay-kept"
"""A file that marks a volume whose stage-out failed. The volume outlives its job, so that no data is lost."""


def stage_in(volume: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Copy each path on this machine to a name in the volume."""
    _stage("in", [volume], pairs)


def stage_out(volumes: Sequence[Path], pairs: Sequence[tuple[str, str]]) -> None:
    """Copy each name in the volumes to a path on this machine. If a copy fails, mark the first volume to be kept.

    If several volumes have a folder of that name, merge their files.
    """
    try:
        _stage("out", volumes, pairs)
    except UserError as error:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            os.close(os.open(volumes[0] / KEPT, flags, 0o600))
        places = ", ".join(map(str, volumes))
        raise UserError(f"{error}; the data stays in {places} until the grant ends") from None


def _stage(way: Way, volumes: Sequence[Path], pairs: Sequence[tuple[str, str]]) -> None:
    trees, missing = find_trees(way, tuple(pairs), [open_volume(str(volume)) for volume in volumes])
    if missing:
        raise BadInput(pairs[missing[0]][0], "no such file or directory")
    copier = Copier(Journal(), f"{os.getpid()}.forebay")
    copier.copy(trees)
    copier.settle(trees)
