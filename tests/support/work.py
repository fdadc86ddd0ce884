"""Work that other processes can import."""

import os

import numpy as np


def square(key: str) -> np.ndarray:
    return np.array([int(key.split("/")[1]) ** 2])


def die(key: str) -> np.ndarray:
    """Ends the process at once, as the kernel does when memory is short, for one of the pieces."""
    if key == "a/3":
        os._exit(9)
    return square(key)
