"""From which part of a run, and from which gain on, something is a finding: the thresholds that several rules share."""

NOTICEABLE = 0.005
"""A smaller part of a run goes unnoticed."""
LEAST_SECONDS = 0.5
"""Measured seconds of a process; fewer can be chance."""
MOST_GAIN = 100.0
"""Something else limits a run long before."""
LEAST_GAIN = 1.05
"""A change that gains less is not worth a finding."""
MOSTLY = 0.5
LEAST_CALLS = 16
"""Of each process; fewer calls cost too little to report."""


def is_io_noticeable(seconds: float, run_time: float) -> bool:
    """Whether seconds of one process are a noticeable part of the run."""
    return seconds >= NOTICEABLE * run_time
