"""Small files that programs create and that the layer does not know of yet.

In a folder that this mount has alone (data/sole_leases.py), it creates files by itself, with ids that came with the
folder, and reports them to the layer soon, with their bytes, many in one message. As with names that it removes
(removals.py), nobody else can look at the folder before.
"""

import os
import stat
from collections.abc import Callable

from forebay.act.forward.data.paths import LONGEST_NAME
from forebay.act.forward.data.permissions import SEARCH, WRITE, check_access, creation_mode
from forebay.act.forward.mount.file_system import Attributes, User
from forebay.act.forward.mount.lease_cache import SMALL
from forebay.act.forward.mount.reports import Reports
from forebay.act.forward.mount.sole_cache import SoleCache
from forebay.act.forward.mount.sole_folders import SoleFolders
from forebay.act.forward.net.payloads import Caller
from forebay.model.layout import Layout

_PERMISSIONS = 0o777
_ORDINARY = os.O_APPEND | os.O_SYNC | os.O_DSYNC | os.O_DIRECT
"""With any of these flags, the layer creates the file: programs would wait for it anyway."""


class Creations:
    """Threads share it. `open_file` opens a new file here: node, layout, and 1 if it is only read."""

    def __init__(
        self, cache: SoleCache, folders: SoleFolders, reports: Reports, open_file: Callable[[int, Layout, int], int]
    ) -> None:
        self._cache, self._folders, self._reports, self._open_file = cache, folders, reports, open_file
        self._own = os.getuid(), os.getgid()

    def create(self, user: User, folder: int, name: bytes, flags: int, mode: int) -> tuple[Attributes, int] | None:
        """Create and open a file, unless only the layer can decide whether that is right; return also its handle.

        Ask for the folder first if programs seem to change many names there.
        """
        if mode & ~_PERMISSIONS or flags & _ORDINARY or len(name) > LONGEST_NAME or not self._speaks_for(user):
            return None
        caller = Caller(user.uid, user.gid)
        if self._reports.is_removed(folder, name):
            self._reports.settle(folder)
        created = self._create(caller, folder, name, flags, mode)
        if created is None and self._folders.ask_if_many(caller, folder, name):
            created = self._create(caller, folder, name, flags, mode)
        return created

    def _speaks_for(self, user: User) -> bool:
        """Whether I/O nodes believe that it is this user who creates a file."""
        return not self._own[0] or self._own == (user.uid, user.gid)

    def write(self, node: int, data: memoryview, offset: int) -> bool:
        """Write to a file that the layer does not know of yet, if it is small; return whether that is done."""
        with self._reports.lock:
            file = self._reports.find_new(node)
            if file is None or file.is_sent:
                return False
            before, end = len(file.data), offset + len(data)
            if end > min(SMALL, file.layout.size) or not self._reports.has_room(max(end - before, 0)):
                return False
            self._cache.write_new(file, data, offset)
            self._reports.note_growth(len(file.data) - before)
        return True

    def _create(self, caller: Caller, folder: int, name: bytes, flags: int, mode: int) -> tuple[Attributes, int] | None:
        def authorize(above: Attributes) -> tuple[int, int, int] | None:
            try:
                check_access(caller, above, WRITE | SEARCH)
            except OSError:
                return None
            given, gid = creation_mode(caller, above, stat.S_IFREG | mode)
            return (stat.S_IMODE(given), caller.uid, gid) if gid is not None else None

        with self._reports.lock:
            if not self._reports.admit(folder, caller) or self._reports.is_removed(folder, name):
                return None
            new = self._cache.create(folder, name, authorize)
            if new is None:
                return None
            self._reports.put_new(caller, new)
            self._folders.note_change(folder)
            return new.attributes, self._open_file(new.attributes.node, new.layout, int(not flags & os.O_ACCMODE))
