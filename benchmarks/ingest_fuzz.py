"""Whether an ingest comes through whatever the logs are: damaged ones beside whole ones.

    .venv/bin/python benchmarks/ingest_fuzz.py [--logs FOLDER] [--count 2000] [--seed 1] [--keep FOLDER]

Each of ten logs is changed in many ways, in its bytes and in its fields, and all of that is taken in together with the
ten as they are. Every log must be accounted for, every whole one stored, each number in the history possible; and none
may end the ingest. Printed is what became of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from forebay.history.darshan.ingest import ingest
from forebay.history.store import open_store
from forebay.history.store.listing import list_runs

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from support.damage import damaged  # noqa: E402
from support.darshan_logs import all_logs  # noqa: E402

LOGS = 10
LARGEST = 600_000


def ten(folder: Path | None) -> list[Path]:
    """Ten logs, of as many formats and kinds as there are."""
    found = sorted(folder.rglob("*.darshan")) if folder else all_logs()
    kinds: dict[object, Path] = {}
    for path in sorted(found, key=lambda p: (p.stat().st_size, p.name)):
        if path.stat().st_size < LARGEST:
            kinds.setdefault(path.read_bytes()[:1800].translate(None, b"\0")[:4] + path.name[:12].encode(), path)
    return Random(0).sample(sorted(kinds.values()), min(LOGS, len(kinds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    logs, random = ten(options.logs), Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch) / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        for log in logs:
            (folder / f"whole-{log.name}").write_bytes(log.read_bytes())
        for number in range(options.count):
            (folder / f"{number:05}.darshan").write_bytes(damaged(logs[number % len(logs)], random))
        begin = time.perf_counter()
        with open_store(f"{scratch}/history.db") as store:
            report = ingest(store, [folder], workers=2)
            with store.open_reader() as connection:
                runs = list(list_runs(connection))
        seconds = time.perf_counter() - begin
    whole = [entry for entry in report.listed if "whole-" in entry[0] and entry[1] == "failed"]
    print(f"{options.count} damaged logs and {len(logs)} whole ones in {seconds:.1f} s")
    print(f"{report.read} read, {report.copies} copies, {report.failed} unreadable; {len(runs)} runs")
    for (status, reason), count in Counter((s, _kind(r)) for _, s, r in report.listed).most_common():
        print(f"{count:6} {status:10} {reason}")
    died = [entry for entry in report.listed if "died" in entry[2]]
    for path, _, reason in died[:20]:
        print(f"  {path}: {reason}")
    if report.total != options.count + len(logs) or whole:
        sys.exit(f"not all logs are accounted for: {report.total} seen, whole ones lost: {whole}")


def _kind(reason: str) -> str:
    """Without its numbers."""
    return "".join("#" if c.isdigit() else c for c in reason)[:90].replace("##", "#")


if __name__ == "__main__":
    main()
