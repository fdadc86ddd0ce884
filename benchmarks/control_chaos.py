"""Hundreds of runs of the live control system with everything going wrong that can, and what must hold after each.

    .venv/bin/python benchmarks/control_chaos.py [--runs 200] [--seed 0] [--jobs 1] [--keep FOLDER]

Goal: no invariant is broken in any run. Each run has a service (a quarter of them: two over one PostgreSQL), two or
three agents with directories or loop devices, and callers, all of them real processes and sockets; a seed decides
what is there, what is asked and what goes wrong. `--seed 7 --runs 1` is run 7 alone; `--keep` keeps the logs and the
journal of runs that broke something.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from bench import verdict

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from support.control_chaos import INVARIANTS, Outcome, run  # noqa: E402
from support.nursery import Nursery, has_clocks  # noqa: E402
from support.stores import PostgreSQL, own_server  # noqa: E402

FAULTS = (
    "kill service", "kill agent", "stop", "jump", "cut connections", "kill store", "lock store", "fill store", "drain",
    "restore store", "volumes that outlive the store", "volumes made twice by two journals",
    "request lost", "answer lost", "caller gone", "sent twice", "sent twice at once", "sent again late",
    "request slow", "answer slow",
)  # fmt: skip
WORK = (
    "requests", "answers to requests", "no answer", "event Granted", "event Queued", "event TurnedDown", "split",
    "event Ready", "releases", "extensions", "uses", "expiries", "event NodeSilent", "event Strayed",
    "starts in vain",
)  # fmt: skip


@contextmanager
def servers(count: int) -> Iterator[list[PostgreSQL | None]]:
    """One for each that runs at the same time, as some runs kill theirs; none where PostgreSQL is not installed."""
    with ExitStack() as stack:
        made: list[PostgreSQL | None] = [None] * count
        try:
            made = [stack.enter_context(own_server()) for _ in range(count)]
        except pytest.skip.Exception as error:
            print(f"on SQLite alone: {error}")
        yield made


def outcomes(seeds: range, jobs: int, keep: Path | None) -> Iterator[Outcome]:
    """In the order of the seeds."""
    with Nursery() as nursery, servers(jobs) as own, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[PostgreSQL | None] = SimpleQueue()
        for server in own:
            free.put(server)

        def one(seed: int) -> Outcome:
            server = free.get()
            try:
                return run(seed, nursery, server, keep)
            finally:
                free.put(server)

        yield from pool.map(one, seeds)


def told(outcome: Outcome) -> None:
    for invariant, words in outcome.wrong.items():
        print(f"seed {outcome.plan.seed}: {invariant}: " + "\n  ".join(words))
    if outcome.wrong:
        print(f"again: {Path(sys.argv[0])} --seed {outcome.plan.seed} --runs 1 --keep FOLDER", flush=True)


def table(found: list[Outcome]) -> None:
    total: Counter[str] = sum((outcome.happened for outcome in found), Counter())
    stores = Counter(outcome.plan.store for outcome in found)
    kinds = Counter(outcome.plan.kind for outcome in found)
    seconds = [outcome.seconds for outcome in found]
    events = sum(number for name, number in total.items() if name.startswith("event "))
    print(f"\n{len(found)} runs: {dict(stores)}, {dict(kinds)}; {events:,} events in their journals")
    print(f"seconds of a run: median {statistics.median(seconds):.1f}, longest {max(seconds):.1f}")
    for title, names in (("what went wrong", FAULTS), ("what was done", WORK)):
        print(f"\n{title}")
        for name in names:
            print(f"  {name.removeprefix('event '):24} {total[name]:8,}")
    print("\nwhat must hold")
    for invariant, words in INVARIANTS.items():
        broken = sum(invariant in outcome.wrong for outcome in found)
        print(f"  {'held' if not broken else f'BROKEN in {broken}':14} {words}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    if not has_clocks():
        print("without jumps of the clock: there is no C compiler (Debian: apt-get install gcc libc6-dev)")
    found = []
    for outcome in outcomes(range(options.seed, options.seed + options.runs), options.jobs, options.keep):
        told(outcome)
        found.append(outcome)
        if len(found) % 20 == 0:
            print(f"{len(found)} runs", file=sys.stderr)
    table(found)
    wrong = [outcome.plan.seed for outcome in found if outcome.wrong]
    print(f"\nno invariant broken in {len(found)} runs: {verdict(not wrong)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
