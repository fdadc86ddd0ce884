"""Earlier runs that show which layout is fast: single runs of the application, and groups of runs of others."""

from dataclasses import dataclass

from forebay.model.file_sizes import SizeClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One earlier run of the application, by its number in the history; `partial` if its log was incomplete.

    `count` and `size` are 0 if its layout is unknown. `io_bytes` counts files, not standard output and the
    like, and `shared_bytes` files that several processes used. Half of the bytes that the run wrote (or read, if it
    wrote none) are in files of at least `file_size`; None if unknown. `file_sizes` are all files that it wrote (or
    read), by size; empty if unknown. `request_size` is the most common one. `components` is the most that the layout
    of one of its files had, 0 if unknown.
    """

    run: int
    processes: int
    count: int
    size: int
    throughput: float
    io_bytes: int = 0
    partial: bool = False
    io_processes: int = 0
    shared_bytes: int = 0
    request_size: int = 0
    file_size: int | None = None
    file_sizes: tuple[SizeClass, ...] = ()
    components: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Runs of other applications with one number of processes and one layout: how many, and their mean bytes/s."""

    processes: int
    count: int
    size: int
    runs: int
    throughput: float
    shared_file: bool = False
