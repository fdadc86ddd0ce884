"""Turns on the network of a machine that has none: its loopback, with an address of its own beside 127.0.0.1."""

import fcntl
import socket
import struct

IFF_UP, SIOCSIFFLAGS, SIOCSIFADDR = 1, 0x8914, 0x8916
ADDRESS = "10.0.0.7"
"""Where there is only 127.0.0.1, programs such as Slurm's find no name at all, by AI_ADDRCONFIG."""


def main() -> None:
    own = struct.pack("16sHH4s8x", b"lo:0", socket.AF_INET, 0, socket.inet_aton(ADDRESS))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        fcntl.ioctl(door, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
        fcntl.ioctl(door, SIOCSIFADDR, own)


if __name__ == "__main__":
    main()
