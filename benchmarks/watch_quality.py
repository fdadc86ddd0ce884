"""How much of what became slower `forebay history watch` finds, and how often it is wrong.

    .venv/bin/python benchmarks/watch_quality.py [--histories 4] [--apps 1000]

The histories are drawn (tests/support/watched_histories.py), so that it is known what changed: applications, OSTs, and
pairs of jobs, each 2 to 4 times as slow as usual, or 1.5 to 2 times, or nothing at all. Goals: nine of ten of the first
are found, and at most one false alarm for 1,000 applications.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import SEED, verdict

from forebay.history.store import open_store
from forebay.history.store.runs import add_runs
from forebay.profile.watch.report import WatchReport, watch_history

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from support.watched_histories import DAY, START, Drawn, Plan, draw_history  # noqa: E402

KINDS = ("applications", "OSTs", "pairs")


@dataclass
class Score:
    planted: Counter[str]
    found: Counter[str]
    wrong: Counter[str]
    off: list[int]
    """Runs between the first bad one and the one that was named."""
    apps: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description="How much of what became slower is found.")
    parser.add_argument("--histories", type=int, default=4)
    parser.add_argument("--apps", type=int, default=1000)
    arguments = parser.parse_args()
    some = {"slower_apps": arguments.apps // 20, "slow_osts": 2, "pairs": arguments.apps // 50}
    plans = {
        "2 to 4 times as slow": Plan(apps=arguments.apps, **some),
        "1.5 to 2 times as slow": Plan(apps=arguments.apps, factor=(1.5, 2.0), **some),
        "clean": Plan(apps=arguments.apps),
    }
    for name, plan in plans.items():
        score = Score(Counter(), Counter(), Counter(), [])
        for number in range(arguments.histories):
            drawn = draw_history(plan, SEED + number)
            judge(drawn, watch(drawn, plan), score)
            score.apps += plan.apps
        report(name, score)
    return 0


def watch(drawn: Drawn, plan: Plan) -> WatchReport:
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/history.db") as store:
        with store.open_writer() as connection:
            add_runs(connection, drawn.rows)
        with store.open_reader() as connection:
            return watch_history(connection, START + plan.days * DAY / 2, drawn.until)


def judge(drawn: Drawn, found: WatchReport, score: Score) -> None:
    slower = {regression.app: regression for regression in found.regressions.all if not regression.slow_osts}
    targets = {target.ost for target in found.targets}
    pairs = {frozenset((pair.first.job_id, pair.second.job_id)) for pair in found.contentions.pairs}
    truths: tuple[set[Any], ...] = set(drawn.slower), set(drawn.slow_osts), set(drawn.pairs)
    answers: tuple[set[Any], ...] = set(slower), targets, pairs
    for kind, truth, answer in zip(KINDS, truths, answers, strict=True):
        score.planted[kind] += len(truth)
        score.found[kind] += len(truth & answer)
        score.wrong[kind] += len(answer - truth)
    order = {row["job_id"]: number for number, row in enumerate(drawn.rows)}
    score.off += [
        abs(regression.first_bad_run - 1 - order[drawn.slower[app]])
        for app, regression in slower.items()
        if app in drawn.slower
    ]


def report(name: str, score: Score) -> None:
    print(f"{name}, {score.apps:,} applications:")
    for kind in KINDS:
        planted, found, wrong = score.planted[kind], score.found[kind], score.wrong[kind]
        recall = f"{found} of {planted} found, " if planted else ""
        alarms = 1000 * wrong / score.apps
        goal = f"goal 1, {verdict(alarms <= 1)}"
        if planted and name.startswith("2"):
            goal = f"goals 90 % and 1, {verdict(found >= 0.9 * planted and alarms <= 1)}"
        print(f"  {kind}: {recall}{wrong} false alarms, {alarms:.2f} for 1,000 applications, {goal}")
    if score.off:
        near = sum(off <= 1 for off in score.off)
        print(f"  the first bad run: {near} of {len(score.off)} within one run, median {np.median(score.off):.0f} off")


if __name__ == "__main__":
    sys.exit(main())
