"""Work that other processes can import."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import connection
from pathlib import Path

import numpy as np


def square(key: str) -> np.ndarray:
    return np.array([int(key.split("/")[1]) ** 2])


def die(key: str) -> np.ndarray:
    """Ends the process at once, as the kernel does when memory is short, for one of the pieces."""
    if key == "a/3":
        os._exit(9)
    return square(key)


def doubled(number: int) -> int:
    return 2 * number


def pid(_piece: object) -> int:
    return os.getpid()


def refuse(number: int) -> int:
    if number == 3:
        raise ValueError("no threes")
    return doubled(number)


def deadly(number: int) -> int:
    """Never survives a multiple of five."""
    if number % 5 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return doubled(number)


def _deadly_once(folder: Path, deadly: frozenset[int], number: int) -> int:
    mark = folder / str(number)
    if number in deadly and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return doubled(number)


def deadly_once(folder: Path, deadly: frozenset[int]) -> Callable[[int], int]:
    """Kills its worker the first time that it meets one of these."""
    return partial(_deadly_once, folder, deadly)


def _dies_while_sending(folder: Path, number: int) -> bytes:
    mark = folder / str(number)
    if not mark.exists():
        mark.touch()

        def half(self: connection.Connection, message: bytes) -> None:
            os.write(self.fileno(), bytes(message)[: len(message) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

        connection.Connection._send = half  # type: ignore[attr-defined]
    return bytes(100_000) + bytes([number])


def dies_while_sending(folder: Path) -> Callable[[int], bytes]:
    """The first time that it meets a piece, its worker is killed with half of the result sent."""
    return partial(_dies_while_sending, folder)


def _first_alone(folder: Path, number: int) -> int:
    if number:
        (folder / f"{number}.{os.getpid()}").touch()
    while number and not (folder / "go").exists():
        time.sleep(0.01)
    return doubled(number)


def first_alone(folder: Path) -> Callable[[int], int]:
    """Does 0, and waits at every other until there is a file `go`; a file in the folder says which process is at it."""
    return partial(_first_alone, folder)


def at_work(folder: Path) -> dict[int, int]:
    """Of `first_alone`: the process by piece."""
    marks = (path.name.split(".") for path in folder.iterdir() if "." in path.name)
    return {int(number): int(process) for number, process in marks}


def alive(process: int) -> bool:
    """Still running: one that has ended and that nobody asked for does not count."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def unlike(number: int) -> int:
    """The first takes longer than all the others."""
    time.sleep(0.3 if number == 0 else 0)
    return doubled(number)


def _carried(load: bytes, _number: int) -> int:
    return len(load)


def carrying(load: bytes) -> Callable[[int], int]:
    """Work that has to be sent with all this."""
    return partial(_carried, load)


def lambdas(_number: int) -> object:
    return lambda: None


def lambda_raised(_number: int) -> object:
    raise ValueError(lambda: None)
