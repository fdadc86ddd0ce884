"""When a mount asks to have a folder alone: once programs seem to create or remove many files there."""

from collections import OrderedDict

from forebay.act.forward.clients.requests import Place
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.mount.reports import Reports
from forebay.act.forward.mount.sole_cache import SoleCache
from forebay.act.forward.net.payloads import Caller

_FIRST, _LAST = 2, 1024
"""With which change the mount asks for a folder: at first, and if that has brought little each time."""
_FEW = 16
_MOST_FOLDERS = 1 << 12


class _Use:
    """How many changes of a folder the layer has made one by one, and the mount, since it has asked for it last."""

    def __init__(self) -> None:
        self.single = self.many = 0
        self.wait = _FIRST


class SoleFolders:
    """Asks through one client, on connections that wait for no other request. Threads share it."""

    def __init__(self, cache: SoleCache, client: Client, reports: Reports) -> None:
        self._cache, self._client, self._reports = cache, client, reports
        self._uses: OrderedDict[int, _Use] = OrderedDict()  # by folder

    def note_change(self, folder: int) -> None:
        """The mount has changed a folder by itself."""
        use = self._uses.get(folder)
        if use is not None:
            use.many += 1

    def ask_if_many(self, caller: Caller, folder: int, name: bytes) -> bool:
        """Ask for a folder, with the files in it from this name on, if this is likely to help.

        Call this before each change that the mount cannot make by itself; return whether it has the folder alone now.
        """
        return self._expects_many(folder) and self._ask(caller, folder, name)

    def _expects_many(self, folder: int) -> bool:
        if self._reports.has_ended or not self._cache.has_lease(folder):
            return False
        use = self._uses.get(folder)
        if use is None:
            use = self._uses[folder] = _Use()
            if len(self._uses) > _MOST_FOLDERS:
                self._uses.popitem(last=False)
        use.single += 1
        if use.single < use.wait:
            return False
        use.wait = min(2 * use.wait, _LAST) if use.many < _FEW else _FIRST
        use.single = use.many = 0
        return True

    def _ask(self, caller: Caller, folder: int, name: bytes) -> bool:
        self._reports.settle(folder)
        ticket = self._cache.begin()
        try:
            answer = self._client.hold_alone(Place(folder), name, caller=caller)
        except OSError:
            return False
        if answer.now:
            self._cache.keep_alone(ticket, folder, answer.files, answer.now, answer.first, answer.layout)
        return bool(answer.now)
