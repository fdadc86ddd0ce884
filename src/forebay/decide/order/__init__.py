"""Request schedulers: which waiting request an I/O node sends to its server next.

One array of 64-bit integers holds all waiting requests of an I/O node, so that the live node and the simulator call
the same kernels. `queue` is the interface to them.
"""
