"""The file system that the settings describe."""

from __future__ import annotations

from dataclasses import replace

from forebay.act.filesystems.beegfs import BeeGFS7, BeeGFS8
from forebay.act.filesystems.filesystem import FileSystem
from forebay.act.filesystems.forebay_mount import Mounted
from forebay.act.filesystems.lustre.filesystem import Lustre
from forebay.act.filesystems.settings import Kind, Settings

_KINDS: dict[Kind, type[Lustre] | type[BeeGFS7] | type[BeeGFS8] | type[Mounted]] = {
    "lustre": Lustre,
    "beegfs7": BeeGFS7,
    "beegfs8": BeeGFS8,
    "forebay": Mounted,
}


def file_system(settings: Settings) -> FileSystem:
    """
    >>> len(file_system(Settings(kind="lustre", targets=4)).targets())
    4
    """
    found = _KINDS[settings.kind](mount=settings.mount, known_targets=settings.targets, timeout=settings.timeout)
    return replace(found, max_count=min(settings.max_count or found.max_count, found.max_count))
