"""How often each file is open at an I/O node, and what the servers of the names know of it."""

from collections import Counter
from collections.abc import Iterable
from time import monotonic

from forebay.act.forward.node.name_routes import NameRoutes

_Files = list[tuple[int, int]]
"""Files, and how often each is open or has been closed."""


class OpenCounts:
    """The server that has opened a file counts its opens, until server 0 takes it over."""

    def __init__(self, routes: NameRoutes) -> None:
        self._routes = routes
        self._opens: Counter[int] = Counter()  # of each file that is open here
        self._closed: dict[int, int] = {}  # opens that have ended, and of which no server knows that yet
        self._homes: dict[int, int] = {}  # the server that counts the opens of a file, unless it is server 0
        self._reported: Counter[int] = Counter()  # opens of which server 0 knows, though another one counts them
        self._kept: dict[int, float] = {}  # until when files of lost clients stay open

    def add(self, file: int, server: int) -> bool:
        """Note an open that this server has counted; return False if server 0 must hear of it."""
        is_new = file not in self._opens and file not in self._closed
        self._opens[file] += 1 + self._closed.pop(file, 0)
        if server and is_new:
            self._homes[file] = server
        elif not server and file in self._homes:
            self._reported[file] += 1
        return not server or file in self._homes

    def keep(self, file: int, until: float) -> None:
        """Let a file seem open until then, though it is closed."""
        self._kept[file] = until

    def close(self, file: int) -> None:
        """All opens of a file have ended; servers hear of it soon."""
        self._closed[file] = self._opens.pop(file, 0) + self._closed.get(file, 0)

    def report_all(self, server: int) -> _Files:
        """What a server must know that does not know this node; server 0, which may take over any, hears of all."""
        files = (self._opens + Counter(self._closed)).items()
        if not server:
            self._reported = Counter({file: opens for file, opens in files if file in self._homes})
            return list(files)
        return [(file, opens) for file, opens in files if self._homes.get(file, 0) == server]

    def report_closed(self) -> dict[int, _Files]:
        """What each server must know of opens that have ended since the last call."""
        now, closed = monotonic(), dict[int, _Files]()
        for file, opens in list(self._closed.items()):
            if self._kept.get(file, 0.0) <= now:
                del self._closed[file]
                self._kept.pop(file, None)
                home, reported = self._homes.pop(file, 0), self._reported.pop(file, 0)
                closed.setdefault(home, []).append((file, opens))
                if reported:
                    closed.setdefault(0, []).append((file, reported))
        return closed

    def move_to_first(self, files: Iterable[int]) -> _Files:
        """Server 0 has taken over these files; return the opens here that it does not know of."""
        held: _Files = []
        for file in files:
            self._routes.note(file, 0)
            if self._homes.pop(file, 0):
                opens = self._opens[file] + self._closed.get(file, 0) - self._reported.pop(file, 0)
                if opens > 0:
                    held.append((file, opens))
        return held
