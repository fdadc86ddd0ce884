"""Why a simulated request was not served; if several reasons apply, those that hold on an empty platform win."""

import numpy as np
from numpy.typing import NDArray

from forebay.model.kernels import Array
from forebay.simulate.storage.plan import REFUSED
from forebay.simulate.storage.run import Run, can_be_split, sizes_of
from forebay.simulate.storage.usage import FAILED

TOO_LARGE_FOR_A_DISK = "larger than any disk, and not split"
TOO_LARGE = "larger than the whole platform"
NO_ROOM = "no disk with room"
NOT_BY_THE_POLICY = "refused by the policy, though a disk had room"
NO_ROOM_FOR_ALL = "no room for all parts"
FULL = "its disk was full when it started"
PART_FULL = "the disk of a part was full when it started"


def reasons_of(run: Run) -> Array:
    """Return why each request was not served; empty if it was."""
    states: NDArray[np.int8] = run.verdicts["state"]
    sizes, split = sizes_of(run), can_be_split(run)
    largest = max(disk.capacity for disk in run.platform.disks)
    reasons = np.full(len(run.requests), "", dtype="U48")
    refused, failed = states == REFUSED, states == FAILED
    reasons[refused] = np.where(split[refused], NO_ROOM_FOR_ALL, NO_ROOM)
    reasons[refused & run.verdicts["roomy"]] = NOT_BY_THE_POLICY
    reasons[failed] = np.where(split[failed], PART_FULL, FULL)
    reasons[(refused | failed) & (sizes > run.platform.capacity)] = TOO_LARGE
    reasons[(refused | failed) & ~split & (sizes > largest)] = TOO_LARGE_FOR_A_DISK
    return reasons
