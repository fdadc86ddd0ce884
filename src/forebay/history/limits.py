"""What can't be true, whoever says it: a number beyond these is a mistake, or damage."""

LATEST = 1 << 36
"""Seconds since 1970, in the year 4147."""
MOST_PROCESSES = 1 << 24
"""More than the largest machine has cores."""
MOST_OSTS = 1 << 16
"""Lustre's OST numbers have 16 bits."""
MOST_STRIPES = 2000
"""As many stripes as a Lustre file, or a component of its layout, can have."""
LARGEST = 1 << 56
"""72 PB, or as many requests, files or bytes a second: no run has that, and 128 of them can still be added up."""
