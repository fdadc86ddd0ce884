"""A history of an application with small and large files, for the documentation. Argument: its path."""

import sys

from forebay.history.store import open_store
from forebay.history.store.runs import add_runs
from forebay.model.file_sizes import SizeClass, format_sizes
from support.history_rows import request_row, run_row

KIB, GIB = 1 << 10, 1 << 30
PROCESSES = 64
SIZES = (
    SizeClass(below=128 * KIB, shared=False, files=200_000, bytes=200_000 * 100 * KIB),
    SizeClass(below=64 * GIB, shared=True, files=2, bytes=100 * GIB),
)


def main() -> None:
    moved, shared = sum(c.bytes for c in SIZES), sum(c.bytes for c in SIZES if c.shared)
    written = request_row("write", total_bytes=moved, shared_bytes=shared, file_size=50 * GIB)
    rows = []
    for number, count in enumerate((1, 4, 16), start=1):
        seconds = moved / (5e8 * count) + 200_000 / PROCESSES * (1e-3 + 1e-4 * count)
        layout = {"stripe_count": count, "file_stripe_count": count, "stripe_size": 1 << 20, "pfl_components": 1}
        volume = {"total_bytes": moved, "shared_bytes": shared, "perf_by_slowest": moved / seconds}
        processes = {"nprocs": PROCESSES, "io_procs": PROCESSES, "start_time": 1.7e9 + 86400 * number}
        parts = {"request_rows": [written | {"file_sizes": format_sizes(SIZES)}]}
        rows.append(run_row(f"solver{number}", "solver", **layout, **volume, **processes, **parts))
    with open_store(sys.argv[1]) as store, store.open_writer() as connection:
        add_runs(connection, rows)


if __name__ == "__main__":
    main()
