"""Watches the requests at an I/O node, and sums up each period.

A watch is one array of whole numbers, so that an I/O node in Python and a compiled simulation use the same kernels. It
holds the sums of the period, then the state of each file, then the files of the period. The caller gives times in
nanoseconds; sizes and distances are bytes.
"""

from collections.abc import Sequence

import numpy as np

from forebay.model.kernels import Array, kernel
from forebay.model.observation import Observation

_FILES, _BEGAN, _PERIOD, _USED, _READS, _WRITES, _BYTES_READ, _BYTES_WRITTEN, _SMALLEST, _LARGEST = range(10)
_DISTANCE, _PAIRS, _HERE, _CHANGED, _LOAD, _BUSY, _HEAD = range(10, 17)
# For each file: the end of its last request (-1: none yet), the extent of all its requests, the sum of the period's
# distances, and the last period with a request.
_END, _LOW, _HIGH, _WAY, _IN_PERIOD, _EACH = range(6)
_MOST = np.iinfo(np.int64).max

TALLY = tuple(name for name in Observation.__slots__ if name not in ("seconds", "depths", "clients", "processes"))
"""The fields of `Observation` that `tally` writes, in this order."""
_MEANS = ("mean", "distance", "spread", "load", "busy")  # the others are whole numbers


def new_watch(files: int, now: int = 0) -> Array:
    """A watch for files 0 to `files` - 1 whose first period begins `now`."""
    watch = np.zeros(_HEAD + files * (_EACH + 1), dtype=np.int64)
    watch[_FILES], watch[_BEGAN], watch[_CHANGED], watch[_PERIOD], watch[_SMALLEST] = files, now, now, 1, _MOST
    watch[_HEAD + _END : _HEAD + files * _EACH : _EACH] = -1
    return watch


def end_period(
    watch: Array, now: int, *, depths: Sequence[int] = (), clients: int = 0, processes: int = 0
) -> Observation:
    """End the period, begin the next one, and return the observation.

    It copies `depths`, the number of requests that wait for each server, and the connected `clients` and `processes`.
    """
    row = np.zeros(len(TALLY))
    seconds = max(now - int(watch[_BEGAN]), 1) / 1e9
    tally(watch, now, row)
    return make_observation(row, seconds, depths=depths, clients=clients, processes=processes)


def make_observation(
    row: Array, seconds: float, *, depths: Sequence[int] = (), clients: int = 0, processes: int = 0
) -> Observation:
    values = {name: value if name in _MEANS else int(value) for name, value in zip(TALLY, row.tolist(), strict=True)}
    return Observation(seconds=seconds, depths=tuple(depths), clients=clients, processes=processes, **values)


@kernel
def observe(watch: Array, now: int, file: int, offset: int, size: int, write: int) -> None:
    """Add a client's request, before it is split among servers; `write` is 0 or 1."""
    _pass(watch, now, 1)
    watch[_READS + write] += 1
    watch[_BYTES_READ + write] += size
    watch[_SMALLEST] = min(watch[_SMALLEST], size)
    watch[_LARGEST] = max(watch[_LARGEST], size)
    at = _HEAD + file * _EACH
    if watch[at + _IN_PERIOD] != watch[_PERIOD]:
        watch[at + _IN_PERIOD], watch[at + _WAY] = watch[_PERIOD], 0
        watch[_HEAD + watch[_FILES] * _EACH + watch[_USED]] = file
        watch[_USED] += 1
    if watch[at + _END] < 0:
        watch[at + _LOW], watch[at + _HIGH] = offset, offset + size
    else:
        distance = abs(offset - watch[at + _END])
        # Sums stop at the largest number instead of overflowing: offsets in sparse files can be near 2**63.
        watch[at + _WAY] += min(distance, _MOST - watch[at + _WAY])
        watch[_DISTANCE] += min(distance, _MOST - watch[_DISTANCE])
        watch[_PAIRS] += 1
        watch[at + _LOW] = min(watch[at + _LOW], offset)
        watch[at + _HIGH] = max(watch[at + _HIGH], offset + size)
    watch[at + _END] = offset + size


@kernel
def finish(watch: Array, now: int) -> None:
    """Count a client's request as answered."""
    _pass(watch, now, -1)


@kernel
def forget(watch: Array, file: int) -> None:
    """Reset a file number for another file; the old file no longer counts in the `spread` of the period."""
    at = _HEAD + file * _EACH
    watch[at + _END], watch[at + _LOW], watch[at + _HIGH], watch[at + _WAY] = -1, 0, 0, 0


@kernel
def tally(watch: Array, now: int, row: Array) -> None:
    """Write the values of TALLY for the period into `row`, and begin the next period."""
    _pass(watch, now, 0)
    requests, pairs = watch[_READS] + watch[_WRITES], max(watch[_PAIRS], 1)
    seconds = max(now - watch[_BEGAN], 1)
    row[0], row[1], row[2] = watch[_USED], watch[_READS], watch[_WRITES]
    row[3], row[4] = watch[_BYTES_READ], watch[_BYTES_WRITTEN]
    row[5], row[7] = watch[_SMALLEST] if requests else 0, watch[_LARGEST]
    row[6] = (watch[_BYTES_READ] + watch[_BYTES_WRITTEN]) / max(requests, 1)
    row[8], row[9] = watch[_DISTANCE] / pairs, _shares(watch) / pairs
    row[10], row[11] = watch[_LOAD] / seconds, watch[_BUSY] / seconds
    watch[_USED : _PAIRS + 1] = 0
    watch[_LOAD], watch[_BUSY], watch[_SMALLEST] = 0, 0, _MOST
    watch[_BEGAN] = now
    watch[_PERIOD] += 1


@kernel
def _shares(watch: Array) -> float:
    """The sum of the period's distances, each as a share of its file's extent."""
    total, first = 0.0, _HEAD + watch[_FILES] * _EACH
    for i in range(first, first + watch[_USED]):
        at = _HEAD + watch[i] * _EACH
        total += watch[at + _WAY] / max(watch[at + _HIGH] - watch[at + _LOW], 1)
    return total


@kernel
def _pass(watch: Array, now: int, more: int) -> None:
    """Add the time since the last change to load and busy time, then `more` requests."""
    passed, here = max(now - watch[_CHANGED], 0), watch[_HERE]
    watch[_LOAD] += here * passed
    watch[_BUSY] += passed if here > 0 else 0
    watch[_CHANGED] = max(now, watch[_CHANGED])
    watch[_HERE] = max(here + more, 0)
