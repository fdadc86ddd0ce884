"""Folders that one mount has alone, so that it can change names there before the server hears of it.

While a mount has a folder alone, every request of somebody else that concerns the folder, a name in it, or a file that
it `encloses`, waits until the mount has given up its lease on the folder, also a request that only looks. A mount gets
a folder alone only if nobody else has a lease on it, and for a while not after somebody else has asked for it.

With the folder, it gets a range of ids for the files that it creates there.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from forebay.act.forward.data.leases import Conflict, Leases

_FEW_FOLDERS, _MOST_FOLDERS = 64, 1 << 12
_MOST_FILES = 1 << 14
"""Files in a folder that a mount can have alone at a time."""
_SHARED = 10.0
"""Seconds for which nobody gets a folder alone after somebody else has asked for it."""
RANGE = 1 << 16
"""How many ids a mount gets with a folder; the first one is a multiple of this."""
_MOST_RANGES = 1 << 14


class SoleHolder(NamedTuple):
    """Who has a folder alone, and the first id of the range that came with it (0: none)."""

    holder: int
    first: int = 0


@dataclass(slots=True)
class _Sole:
    """Who has a folder alone, and which files with it; if it is `recalled`, its lease is not renewed."""

    holder: int
    first: int = 0
    files: set[int] = field(default_factory=set)
    recalled: bool = False
    former: bool = False


class SoleLeases(Leases):
    """`former_soles` has the folders that mounts may have had alone in an earlier run.

    Until these mounts watch again, or LEASE seconds have passed, others wait. `record` keeps this for the next run.
    """

    def __init__(
        self,
        former: Collection[int] = (),
        clock: Callable[[], float] = monotonic,
        *,
        former_soles: Mapping[int, SoleHolder] | None = None,
        record: Callable[[Mapping[int, SoleHolder]], None] = lambda _: None,
    ) -> None:
        super().__init__(former, clock)
        self._record = record
        self._soles = {folder: _Sole(*each, former=True) for folder, each in (former_soles or {}).items()}
        self._enclosed: dict[int, int] = {}  # by file: the folder with which a mount has it alone
        self._ranges: OrderedDict[int, int] = OrderedDict()  # the holders of ranges whose folders others can use
        self._earlier = {each.first for each in (former_soles or {}).values()}  # ranges of an earlier run
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

    def hold_alone(self, holder: int, folder: int, first: int = 0) -> bool:
        """Let a mount have a folder alone, unless somebody else uses it; return whether it has.

        With it comes the range of ids that begins with `first`, which nobody has used.
        """
        now = self._clock()
        if self.is_alone(holder, folder):
            return self.grant(holder, folder) and self._replace_range(self._soles[folder], first)
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
        self._soles[folder] = _Sole(holder, first)
        if not self._write():
            self._share(folder)
            return False
        return True

    def owns(self, holder: int, folder: int, file: int) -> bool:
        """Whether this id has come to this mount with this folder, or lately with any."""
        first, sole = file & -RANGE, self._soles.get(folder)
        if sole is not None and sole.first == first:
            return bool(first) and sole.holder == holder
        return self._ranges.get(first) == holder

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

    def is_of_earlier_run(self, file: int) -> bool:
        """Whether this id has come to a mount in an earlier run."""
        return file & -RANGE in self._earlier

    def _replace_range(self, sole: _Sole, first: int) -> bool:
        self._retire_range(sole)
        sole.first = first
        return self._write()

    def _retire_range(self, sole: _Sole) -> None:
        """Remember a range for which a message may be late."""
        if sole.first:
            self._ranges[sole.first] = sole.holder
            if len(self._ranges) > _MOST_RANGES:
                self._ranges.popitem(last=False)

    def _write(self) -> bool:
        """Keep who has folders alone for the next run; return whether that was possible."""
        try:
            self._record({folder: SoleHolder(sole.holder, sole.first) for folder, sole in self._soles.items()})
        except OSError:
            return False
        return True

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
        if sole is not None:
            self._retire_range(sole)
            for file in sole.files:
                self._enclosed.pop(file, None)
