"""Folders that one mount has alone, so that it can change names there before the server hears of it.

While a mount has a folder alone, every request of somebody else that concerns the folder, a name in it, or a file that
it `encloses`, waits until the mount has given up its lease on the folder, also a request that only looks. A mount gets
a folder alone only if nobody else has a lease on it, and for a while not after somebody else has asked for it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from forebay.act.forward.data.leases import Conflict, Leases

_FEW_FOLDERS, _MOST_FOLDERS = 64, 1 << 12
_MOST_FILES = 1 << 14
"""Files in a folder that a mount can have alone at a time."""
_SHARED = 10.0
"""Seconds for which nobody gets a folder alone after somebody else has asked for it."""


@dataclass(slots=True)
class _Sole:
    """Who has a folder alone, and which files with it; if it is `recalled`, its lease is not renewed."""

    holder: int
    files: set[int] = field(default_factory=set)
    recalled: bool = False
    former: bool = False


class SoleLeases(Leases):
    """`former_soles` has the folders that mounts may have had alone in an earlier run, and the mount of each.

    Until these mounts watch again, or LEASE seconds have passed, others wait. `record` keeps this for the next run.
    """

    def __init__(
        self,
        former: Collection[int] = (),
        clock: Callable[[], float] = monotonic,
        *,
        former_soles: Mapping[int, int] | None = None,
        record: Callable[[Mapping[int, int]], None] = lambda _: None,
    ) -> None:
        super().__init__(former, clock)
        self._record = record
        self._soles = {folder: _Sole(holder, former=True) for folder, holder in (former_soles or {}).items()}
        self._enclosed: dict[int, int] = {}  # by file: the folder with which a mount has it alone
        self._shared: dict[int, float] = {}  # folders that nobody gets alone until then
        self._many = _FEW_FOLDERS  # from this number on, look for those whose leases have ended

    def end(self, holder: int) -> None:
        for folder in [folder for folder, sole in self._soles.items() if sole.holder == holder]:
            self._share(folder)
        super().end(holder)

    def grant(self, holder: int, node: int, writers: Collection[int] = ()) -> bool:
        sole = self._soles.get(node)
        return (sole is None or not sole.recalled) and super().grant(holder, node, writers)

    def give_up(self, holder: int, node: int, until: float) -> None:
        sole = self._soles.get(node)
        if sole is not None and sole.holder == holder and self._granted.get(node, {}).get(holder) == until:
            self._share(node)
        super().give_up(holder, node, until)

    def hold_alone(self, holder: int, folder: int) -> bool:
        """Let a mount have a folder alone, unless somebody else uses it; return whether it has."""
        now = self._clock()
        if self.is_alone(holder, folder):
            return self.grant(holder, folder)
        if (self._former and now < self._known_at) or self._shared.get(folder, 0.0) > now:
            return False
        if len(self._soles) >= self._many:
            self._drop_ended(now)
            self._many = min(2 * len(self._soles) + _FEW_FOLDERS, _MOST_FOLDERS)
        if (
            len(self._soles) >= _MOST_FOLDERS
            or not self._is_only(holder, folder, now)
            or not self.grant(holder, folder)
        ):
            return False
        self._share(folder)
        self._soles[folder] = _Sole(holder)
        try:
            self._record({each: sole.holder for each, sole in self._soles.items()})
        except OSError:
            self._share(folder)
            return False
        return True

    def is_alone(self, holder: int, folder: int) -> bool:
        """Whether this mount has this folder alone."""
        sole = self._soles.get(folder)
        return sole is not None and sole.holder == holder and self._end_of(folder, sole) > self._clock()

    def enclose(self, holder: int, folder: int, file: int) -> bool:
        """Let a mount have a file alone as long as it has the folder alone; return whether it has."""
        sole = self._soles.get(folder)
        if sole is None or sole.recalled or sole.former or not self.is_alone(holder, folder):
            return False
        if file not in sole.files:
            is_elsewhere = self._enclosed.get(file, folder) != folder
            if is_elsewhere or len(sole.files) >= _MOST_FILES or not self._is_only(holder, file, self._clock()):
                return False
            sole.files.add(file)
            self._enclosed[file] = folder
        return True

    def encloses(self, holder: int, folder: int, file: int) -> bool:
        """Whether a mount has a file alone with a folder; after a restart, this is unknown and may be."""
        return self.is_alone(holder, folder) and (self._soles[folder].former or file in self._soles[folder].files)

    def disclose(self, files: Iterable[int]) -> None:
        """Note that mounts do not have these files alone any more: they are gone."""
        for file in files:
            folder = self._enclosed.pop(file, None)
            if folder is not None:
                self._soles[folder].files.discard(file)

    def admit(self, holder: int, node: int, *, by_id: bool = False) -> None:
        """Raise Conflict if another mount than `holder` has this node alone.

        After a restart, nobody knows which files mounts may have alone. Such a file was found `by_id`, as its folder
        admits nobody.
        """
        if not self._soles:
            return
        folder = self._enclosed.get(node, node)
        sole = self._soles.get(folder)
        if sole is None and by_id:
            sole = next((each for each in self._soles.values() if each.former and each.holder != holder), None)
        if sole is None or sole.holder == holder:
            return
        now, until = self._clock(), self._end_of(folder, sole)
        if until <= now:
            self._drop_ended(now)
            return
        sole.recalled = True
        if len(self._shared) >= _MOST_FOLDERS:
            self._shared.clear()
        self._shared[folder] = now + _SHARED
        raise Conflict({} if sole.former else {sole.holder: {folder: until}}, until)

    def _is_only(self, holder: int, node: int, now: float) -> bool:
        """Whether no other mount has a lease on a node, and nobody waits to change it."""
        others = (until for other, until in self._granted.get(node, {}).items() if other != holder)
        return self._wanted.get(node, 0.0) <= now and all(until <= now for until in others)

    def _end_of(self, folder: int, sole: _Sole) -> float:
        return self._known_at if sole.former else self._granted.get(folder, {}).get(sole.holder, 0.0)

    def _drop_ended(self, now: float) -> None:
        for folder in [folder for folder, sole in self._soles.items() if self._end_of(folder, sole) <= now]:
            self._share(folder)

    def _share(self, folder: int) -> None:
        """Note that nobody has this folder alone any more."""
        sole = self._soles.pop(folder, None)
        for file in sole.files if sole is not None else ():
            self._enclosed.pop(file, None)
