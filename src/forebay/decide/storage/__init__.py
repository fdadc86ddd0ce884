"""Storage policies: which disks hold each job's data.

A storage policy is a kernel `(ledger, size, start, end, duration, turn) -> disk`. It returns the
number of the disk for `size` bytes over [start, end), or REFUSED. It reads the ledger and changes
only `turn`, which holds its memory and its random state. `duration` is that of the job; it differs
from `end - start` only if the start was delayed.
"""
