"""Words that the history's parts share."""

SIZE_BINS = ("0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+")
"""Request sizes in bytes, as Darshan counts them."""

FORWARDED = "forward"
"""The file system of runs that went through a forwarding layer: its data servers are its OSTs."""

OPERATIONS = ("read", "write")
ORDERS = ("contiguous", "strided", "with_gaps", "backward")
"""Where a request begins: right behind the one before, ahead by a stride that recurs or by another, or not ahead."""
