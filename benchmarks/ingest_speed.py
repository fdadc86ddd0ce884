"""How fast Darshan logs get into the history.

    .venv/bin/python benchmarks/ingest_speed.py [--logs FOLDER] [--most 100000]

Goals: reading and storing at least 30 times faster than DarshanReport(..., dtype="pandas") only reads, one process
against one, in the same run; at least 1,000 logs a second into SQLite with 2 workers, and as many with 100,000 logs
as with 1,000; a reader under 500 MB, however large a log is. The many logs are real ones of a few KB, each copied with
another job id and start time; the large one is a real one with its records over and over, each of another file.
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import darshan
from bench import seconds, verdict

from forebay.history.darshan.examination import MOST_EXAMINED
from forebay.history.darshan.ingest import BATCH, ingest
from forebay.history.darshan.ingest_worker import read_one
from forebay.history.store import open_store
from forebay.history.store.ingested_logs import record_logs
from forebay.profile.findings import examine_records

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from support.darshan_logs import POSIX, Parts, wheel_log, wheel_logs  # noqa: E402

REPEATS = 5
LARGE, POSIX_RECORD = 1_500_000, 664
"""Files of the large log, and bytes of a POSIX record in the format of the log that it is made of."""
TYPICAL = (1_000, 8_000)
"""Bytes of a typical log."""


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast Darshan logs get into the history.")
    parser.add_argument("--logs", type=Path, default=ROOT.parent / "shared" / "data" / "darshan")
    parser.add_argument("--most", type=int, default=100_000, help="logs of the largest collection")
    arguments = parser.parse_args()
    logs = sorted(arguments.logs.rglob("*.darshan")) or wheel_logs()
    with tempfile.TemporaryDirectory() as folder:
        _against_report(logs, Path(folder))
        _findings(logs, Path(folder))
        _large(Path(folder) / "large.darshan")
        _many(logs, Path(folder), arguments.most)
    return 0


def _against_report(logs: Sequence[Path], folder: Path) -> None:
    ours = seconds(lambda: _read_and_store(logs, folder / "one.db"), REPEATS)
    theirs = seconds(lambda: _reports(logs), 1)
    ratio = theirs / ours
    print(
        f"{len(logs)} logs, one process each: forebay {ours:.3f} s with storing, DarshanReport {theirs:.2f} s", end="; "
    )
    print(f"ratio {ratio:.1f}, goal 30, {verdict(ratio >= 30)}")


def _read_and_store(logs: Sequence[Path], database: Path) -> None:
    database.unlink(missing_ok=True)
    found = [read_one(str(path)) for path in logs]
    with open_store(str(database)) as store, store.open_writer() as connection:
        record_logs(connection, [log for log in found if log.row is not None])


def _findings(logs: Sequence[Path], folder: Path) -> None:
    """What it costs to keep findings: processor time with and without, in turns, of typical logs and of a large one."""
    typical = [str(path) for path in logs if TYPICAL[0] <= path.stat().st_size <= TYPICAL[1]]
    large = folder / "many_records.darshan"
    _write_large(large, MOST_EXAMINED)
    for what, paths, repeats in (("typical logs", typical, 30), (f"a log of {MOST_EXAMINED:,} files", [str(large)], 3)):
        best = [float("inf")] * 2
        for _ in range(min(repeats, 12)):
            for i, examine in enumerate((None, examine_records)):
                begin = time.process_time()
                found = [read_one(path, examine) for path in paths]
                if len(paths) > 1:
                    (folder / "findings.db").unlink(missing_ok=True)
                    with open_store(str(folder / "findings.db")) as store, store.open_writer() as connection:
                        record_logs(connection, [log for log in found if log.row is not None])
                best[i] = min(best[i], time.process_time() - begin)
        more = 100 * (best[1] / best[0] - 1)
        each = [1000 * took / len(paths) for took in best]
        print(f"findings of {what}: {each[0]:,.2f} ms each without, {each[1]:,.2f} ms with, {more:.0f} % more")


def _reports(logs: Sequence[Path]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in logs:
            darshan.DarshanReport(str(path), read_all=True, dtype="pandas")


def _write_large(log: Path, files: int) -> None:
    parts = Parts(wheel_log("sample-badost.darshan"))
    record = parts.module(POSIX)[:POSIX_RECORD]
    parts.with_module(POSIX, (struct.pack("<Qq", n + 1, n % 2048) + record[16:] for n in range(files))).write(log)


def _large(log: Path) -> None:
    _write_large(log, LARGE)
    code = (
        "import sys; from pathlib import Path; from forebay.history.darshan.summary import read_log\n"
        "read_log(Path(sys.argv[1]))\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    peak = 1024 * int(subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, check=True).stdout)
    print(f"a log of {LARGE:,} files: {peak / 1e6:.0f} MB of memory at most, goal 500, {verdict(peak < 500e6)}")


def _many(logs: Sequence[Path], folder: Path, most: int) -> None:
    typical = [path for path in logs if TYPICAL[0] <= path.stat().st_size <= TYPICAL[1]]
    mean = sum(path.stat().st_size for path in typical) / len(typical)
    print(f"copies of {len(typical)} logs of {mean / 1000:.1f} KB in the mean, 2 workers, batches of {BATCH}:")
    rates = {}
    for count in (n for n in (1_000, 10_000, 100_000) if n <= most):
        tree = _tree(typical, folder / str(count), count)
        with open_store(str(folder / f"{count}.db")) as store:
            begin = time.perf_counter()
            report = ingest(store, [tree], workers=2, examine=examine_records)
            took = time.perf_counter() - begin
            begin = time.perf_counter()
            again = ingest(store, [tree], workers=2)
            known = time.perf_counter() - begin
        assert (report.read, again.known) == (count, count)
        rates[count] = count / took
        print(
            f"  {count:>7,}: {took:6.1f} s, {rates[count]:,.0f} logs/s, goal 1,000, {verdict(rates[count] >= 1000)}",
            end="",
        )
        print(f"; all known: {known:.2f} s")
    if len(rates) > 1:
        print(f"  logs/s with the most over those with the fewest: {rates[max(rates)] / rates[min(rates)]:.2f}")


def _tree(logs: Sequence[Path], folder: Path, count: int) -> Path:
    """A day tree of `count` logs."""
    parts = [Parts(path) for path in logs]
    for number in range(count):
        day = folder / "2026" / str(1 + number // 28 % 12) / str(1 + number % 28)
        day.mkdir(parents=True, exist_ok=True)
        start = 1_767_225_600 + 60 * number
        parts[number % len(parts)].with_job(job_id=10_000_000 + number, start=start).write(day / f"{number}.darshan")
    return folder


if __name__ == "__main__":
    sys.exit(main())
