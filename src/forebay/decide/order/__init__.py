"""Which of the requests that wait at an I/O node goes to its server next.

Everything about an I/O node's waiting requests is one array of 64-bit integers, so that the live node and the
simulator call the very same kernels: `queue` is the door to them.
"""
