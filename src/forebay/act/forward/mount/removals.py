"""Names that programs remove and that the layer does not know of yet.

In a folder that this mount has alone (data/sole_leases.py), it removes names by itself, and reports them to the layer
soon, many in one message. Nobody else can look at the folder before: the mount reports all of them before it gives up
its lease. The layer removes a name only if it still stands for the same file. So a message that arrives late, after the
lease, does no harm to a file that others have created meanwhile.
"""

from collections.abc import Callable

from forebay.act.forward.data.permissions import check_removal
from forebay.act.forward.mount.file_system import Attributes, User
from forebay.act.forward.mount.reports import Reports
from forebay.act.forward.mount.sole_cache import SoleCache
from forebay.act.forward.mount.sole_folders import SoleFolders
from forebay.act.forward.net.payloads import Caller


class Removals:
    """Threads share it. No file goes by itself that `is_open` here."""

    def __init__(
        self, cache: SoleCache, folders: SoleFolders, reports: Reports, is_open: Callable[[int], bool]
    ) -> None:
        self._cache, self._folders, self._reports, self._is_open = cache, folders, reports, is_open

    def remove(self, user: User, folder: int, name: bytes) -> bool:
        """Remove a name, unless only the layer can decide whether that is right; return whether it is removed.

        Ask for the folder first if programs seem to change many names there.
        """
        caller = Caller(user.uid, user.gid)
        if self._reports.is_new(folder, name):
            self._reports.settle(folder)
        return self._remove(caller, folder, name) or (
            self._folders.ask_if_many(caller, folder, name) and self._remove(caller, folder, name)
        )

    def _remove(self, caller: Caller, folder: int, name: bytes) -> bool:
        with self._reports.lock:
            if not self._reports.admit(folder, caller):
                return False
            removed = self._cache.remove(folder, name, lambda above, file: self._may_remove(caller, above, file))
            if removed is None:
                return False
            self._reports.put_removal(folder, caller, name, *removed)
            self._folders.note_change(folder)
        return True

    def _may_remove(self, caller: Caller, folder: Attributes, file: Attributes) -> bool:
        if self._is_open(file.node):
            return False
        try:
            check_removal(caller, folder, (file,))
        except OSError:
            return False
        return True
