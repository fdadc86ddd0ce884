"""The seconds that the reads and the writes of whole runs take in the model of the file system."""

import numpy as np

from forebay.history.run_fields import Measured
from forebay.model.arrays import Floats
from forebay.profile.calibration.filesystem_costs import Parameters
from forebay.profile.findings.io_time import count_waits

OPERATIONS = ("reads", "writes")
_VOLUME, _PROCESSES = 1e9, 100.0


def is_usable(runs: Measured, side: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which runs have reads (side 0) or writes (1) of a known duration."""
    usable: np.ndarray[tuple[int], np.dtype[np.bool_]] = (runs["bytes"][:, side] > 0) & (runs["seconds"][:, side] > 0)
    return usable & (runs["processes"] > 0)


def predict_seconds(runs: Measured, side: int, parameters: Parameters) -> Floats:
    """Seconds of all processes for the reads (side 0) or the writes (1) of each run."""
    fs, waiting = parameters.fs, parameters.waiting
    moved, processes = runs["bytes"][:, side].astype(float), runs["processes"].astype(float)
    requests = runs["requests"][:, side].astype(float)
    trips, turns = (waits[:, side] for waits in count_waits(runs, runs["shared"], fs.rpc))
    counted = requests * fs.call[side] + trips * fs.latency[side] + turns * fs.lock
    volume = (moved / _VOLUME) ** waiting.volume[side]
    unseen = waiting.seconds[side] * volume * (processes / _PROCESSES) ** waiting.processes[side]
    flow = moved * np.maximum(1 / fs.bandwidth[side], processes / fs.total[side])
    seconds: Floats = flow + np.where(requests > 0, counted, unseen)
    return seconds
