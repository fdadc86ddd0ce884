"""Draws burst-buffer sizes for jobs of logs that have none."""

import numpy as np

from forebay.model.arrays import Floats, Ints

# Kopanski and Rzadca 2021, section 4: a log-normal distribution fitted to the memory per processor of MetaCentrum's
# log, in KiB; at least 100 MB. The numbers are those of their published generator.
_SIGMA, _SHIFT, _SCALE = 1.0972516604048774, -150361.59523836235, 2714115.5724594607
_LEAST = 100e6
_MOST = 40e9  # the storage node of their machine
_TESTS = 120.0  # jobs with at most this wall time, in seconds, are tests: they get 10 MB
_OF_TESTS = 10e6


def draw_bytes_per_node(walltimes: Floats, seed: int) -> Ints:
    """Draw a size for each job. The same seed gives the same sizes to the same number of jobs.

    >>> int(np.median(draw_bytes_per_node(np.full(10_000, 3600.0), seed=1)) // 10**8)
    26
    """
    drawn = np.random.default_rng([seed, 0x6262]).lognormal(np.log(_SCALE), _SIGMA, walltimes.size)
    sizes = np.clip(1024 * (drawn + _SHIFT), _LEAST, _MOST)
    whole: Ints = np.where(walltimes <= _TESTS, _OF_TESTS, sizes).astype(np.int64)
    return whole
