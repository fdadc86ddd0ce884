"""The OSTs of a run: the bytes and seconds on each, and which stand out."""

from dataclasses import dataclass, replace

import numpy as np

from forebay.history.darshan.file_records import FileRecords
from forebay.profile.ost_health import is_comparable, was_slow

_OBSERVED = np.dtype([("run", "i8"), ("ost", "i8"), ("files", "i8"), ("slowness", "f8")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One OST: bytes, and seconds of all processes. `slowness` is its seconds per byte relative to the median OST of
    the run, None if unknown; `slow` says whether it stands out (`profile.ost_health`)."""

    filesystem: str
    ost: int
    files: int
    moved: int
    seconds: float
    slowness: float | None
    slow: bool


def describe_targets(records: FileRecords) -> list[Target]:
    """The OSTs of a log, by file system and number; none if the log does not name them."""
    if records.usage is None:
        return []
    columns = records.usage.columns()
    return mark_slow(
        [
            Target(filesystem=filesystem, ost=ost, files=files, moved=moved, seconds=seconds, slowness=slow, slow=False)
            for filesystem, ost, files, moved, seconds, slow in zip(
                *(columns[name] for name in ("filesystem", "ost", "files", "total_bytes", "io_time", "slowness")),
                strict=True,
            )
        ]
    )


def mark_slow(targets: list[Target]) -> list[Target]:
    """Mark the targets that are slower than the others on their file system."""
    systems = {name: number for number, name in enumerate(dict.fromkeys(target.filesystem for target in targets))}
    observed = np.zeros(len(targets), dtype=_OBSERVED)
    observed["run"] = [systems[target.filesystem] for target in targets]
    observed["ost"] = np.arange(len(targets))
    observed["slowness"] = [np.nan if target.slowness is None else target.slowness for target in targets]
    compared = observed[is_comparable(observed)]
    slow = set(compared["ost"][was_slow(compared)].tolist())
    return [replace(target, slow=place in slow) for place, target in enumerate(targets)]
