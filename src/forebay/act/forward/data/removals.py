"""Requests of a mount that has a folder alone, and tells later which names it has removed there."""

import errno

from forebay.act.forward.data import permissions
from forebay.act.forward.data.additions import AdditionRequests
from forebay.act.forward.data.name_database import FRESH, Node
from forebay.act.forward.data.name_lookup import caller_of
from forebay.act.forward.data.permissions import SEARCH, WRITE, check_access, system_error
from forebay.act.forward.data.sole_leases import RANGE
from forebay.act.forward.net.payloads import ForgetList, LayoutFields
from forebay.act.forward.net.sole_payloads import AloneAnswer, AloneRequest, RemoveRequest
from forebay.act.forward.net.wire import Message

_MOST_FILES = 4096


class RemovalRequests(AdditionRequests):
    """The requests about folders that mounts have alone that `Names` answers."""

    def do_alone(self, _: Message, request: AloneRequest) -> AloneAnswer:
        caller, folder = caller_of(request), self._find(request)
        if not folder.is_folder:
            raise system_error(errno.ENOTDIR)
        check_access(caller, folder, WRITE | SEARCH)
        first = self._new_id() & -RANGE
        if folder.away == FRESH or not self._leases.hold_alone(caller.holder, folder.id, first):
            return AloneAnswer()
        files = self._store.list_single(folder.id, request.begin, _MOST_FILES)
        enclosed = (file for file in files if self._enclose(caller, folder.id, file))
        layout = self._layout_of_additions(folder, request.full)
        return AloneAnswer(files=tuple(enclosed), now=self._clock(), first=first, layout=layout)

    def do_remove(self, _: Message, request: RemoveRequest) -> ForgetList:
        """Remove names that a mount has removed; those that stand for other files by now stay."""
        caller, folder = caller_of(request), self._find(request)
        known = [(name, self._store.find(folder.id, name), file) for name, file in request.names]
        found = [(name, node) for name, node, file in known if node is not None and node.id == file]
        permissions.check_removal(caller, folder, (node for _, node in found))
        if any(node.is_folder for _, node in found):
            raise system_error(errno.EISDIR)
        if not found:
            return ForgetList(forget=[])
        files = [node.id for _, node in found]
        is_alone = self._leases.is_alone(caller.holder, folder.id)
        claimed = [file for file in files if not self._leases.encloses(caller.holder, folder.id, file)]
        if claimed:  # the mount was late, and others may use these files
            self._leases.claim(caller.holder, claimed if is_alone else (folder.id, *claimed))
        now = self._clock()
        at = request.time if is_alone and folder.mtime <= request.time <= now else now
        forget = ForgetList(forget=self._remove_all(folder.id, found, now, at))
        self._leases.disclose(files)
        forget.folder = self._status_of_folder(caller, folder.id)
        return forget

    def _remove_all(
        self, folder: int, names: list[tuple[bytes, Node]], now: int, at: int
    ) -> list[tuple[int, LayoutFields]]:
        """Remove names in one step; on a full disk that has no space for its log, in several. Return what to forget."""

        def remove() -> list[tuple[int, LayoutFields]]:
            forget: list[tuple[int, LayoutFields]] = []
            for name, node in names:
                self._store.remove_name(folder, name)
                current = self._store.read(node.id) if node.links > 1 else None  # it may have several of the names
                forget += self._drop_link(current or node, now).forget
            self._touch(folder, at)
            return forget

        try:
            return self._store.change(remove)
        except OSError as error:
            if error.errno != errno.ENOSPC or len(names) == 1:
                raise
        half = len(names) // 2
        parts = names[:half], names[half:]
        return [file for part in parts for file in self._remove_all(folder, part, now, at)]
