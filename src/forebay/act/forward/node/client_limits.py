"""How much one client may have in progress at an I/O node; beyond that, the node stops reading from the client."""

MOST_HELD = 64 << 20
"""Bytes of reads and writes."""
MOST_REQUESTS = 512
"""Reads and writes."""
MOST_QUERIES = 64
"""Other requests, such as those for names."""


def is_over_limit(held: int, requests: int, queries: int) -> bool:
    """Whether a client has too much in progress: `held` bytes in so many `requests`, and so many `queries`."""
    return held > MOST_HELD or requests > MOST_REQUESTS or queries > MOST_QUERIES
