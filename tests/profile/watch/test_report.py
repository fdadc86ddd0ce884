"""A nightly look at histories in which it is known what changed, at clean ones, and at odd ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from forebay.history.store import open_store
from forebay.history.store.runs import add_runs
from forebay.profile.watch.report import WatchReport, watch_history
from support.history_rows import run_row
from support.made_up_runs import START as SOME
from support.made_up_runs import a_run
from support.stores import PostgreSQL
from support.watched_histories import DAY, START, Drawn, Plan, draw_history

PLAN = Plan(apps=60, slower_apps=6, slow_osts=1, pairs=3, factor=(2.5, 4.0))
HALF = START + PLAN.days * DAY / 2


def watch(folder: Path, rows: Sequence[dict[str, Any]], since: float, until: float) -> WatchReport:
    with open_store(str(folder / "history.db")) as store:
        with store.open_writer() as connection:
            add_runs(connection, rows)
        with store.open_reader() as connection:
            return watch_history(connection, since, until)


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    return draw_history(PLAN, 16)


@pytest.fixture(scope="module")
def planted(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> WatchReport:
    return watch(tmp_path_factory.mktemp("watch"), drawn.rows, HALF, drawn.until)


def test_slower_applications_are_found_with_their_first_bad_run(planted: WatchReport, drawn: Drawn) -> None:
    found = {regression.app: regression for regression in planted.regressions.all if not regression.slow_osts}
    assert len(set(found) & set(drawn.slower)) >= 5
    assert len(set(found) - set(drawn.slower)) <= 1
    jobs = {number: row["job_id"] for number, row in enumerate(drawn.rows, 1)}
    near = [abs(jobs[found[app].first_bad_run] - job) <= 2 for app, job in drawn.slower.items() if app in found]
    assert sum(near) >= 0.8 * len(near)
    assert all(regression.is_new for regression in found.values())


def test_a_slow_target_is_found_with_its_time(planted: WatchReport, drawn: Drawn) -> None:
    [target] = planted.targets
    [(ost, began)] = drawn.slow_osts.items()
    assert (target.ost, target.filesystem) == (ost, "/scratch")
    assert target.first_bad_time is not None and abs(target.first_bad_time - began) < 3 * DAY
    assert target.slowness > 1.5


def test_pairs_in_each_others_way_are_found(planted: WatchReport, drawn: Drawn) -> None:
    pairs = {frozenset((pair.first.job_id, pair.second.job_id)) for pair in planted.contentions.pairs}
    assert len(pairs & drawn.pairs) >= 2
    for pair in planted.contentions.pairs:
        assert pair.first.slowdown is not None and 0 < pair.chance <= 0.2
        assert pair.overlap_seconds > 0 and pair.osts


def test_what_was_known_before_the_period_is_not_new(drawn: Drawn, tmp_path: Path) -> None:
    report = watch(tmp_path, drawn.rows, drawn.until - DAY, drawn.until)
    assert not any(regression.is_new for regression in report.regressions.all)
    assert not any(target.is_new for target in report.targets)


def test_a_clean_history_raises_no_alarm(tmp_path: Path) -> None:
    clean = draw_history(Plan(apps=150), 17)
    report = watch(tmp_path, clean.rows, HALF, clean.until)
    assert report.regressions.tested >= 150
    assert (report.regressions.all, report.targets) == ((), ())
    assert not any(pair.is_likely for pair in report.contentions.pairs)
    assert not report.has_news


def test_hours_add_up_over_users_and_applications(planted: WatchReport, drawn: Drawn) -> None:
    losses = planted.losses
    assert losses.unit == "process hours"  # no job has nodes
    assert losses.runs == sum(row["start_time"] >= HALF for row in drawn.rows)
    assert sum(user.lost_hours for user in losses.users) == pytest.approx(losses.lost_hours)
    hours = [app.lost_hours for app in losses.apps]
    assert hours == sorted(hours, reverse=True) and 0 < losses.lost_hours < losses.hours


def test_findings_say_what_would_win_most(tmp_path: Path) -> None:
    finding = {"code": "small-requests", "predicted_gain": 4.0, "share": 0.5, "confidence": "modelled"}
    finding |= {"seen": "", "because": "", "remedy": "", "numbers": "{}", "files": "[]"}
    rows = [a_run(n) | {"diagnosis": {"findings": [finding]} if n == 1 else {}} for n in range(3)]
    report = watch(tmp_path, rows, SOME, SOME + DAY)
    [remedy] = report.losses.remedies
    assert (remedy.code, remedy.runs, report.losses.diagnosed) == ("small-requests", 1, 1)
    assert remedy.gain_hours == pytest.approx(0.75 * 10 * 64 / 3600)  # 10 s of I/O in 64 processes


def test_an_empty_history_has_nothing_to_say(tmp_path: Path) -> None:
    report = watch(tmp_path, [], 0.0, 2e9)
    assert (report.runs, report.regressions.tested, report.targets, report.losses.hours) == (0, 0, (), 0.0)
    assert report.contentions.because == "no run of the period has recorded which OSTs it used"


def test_one_run_of_each_application_claims_nothing(tmp_path: Path) -> None:
    report = watch(tmp_path, [a_run(n, f"app{n}") for n in range(40)], SOME, SOME + DAY)
    assert (report.runs, report.regressions.tested, report.has_news) == (40, 0, False)
    assert "runs must show how slow a run can be by chance" in report.contentions.because


def test_clocks_that_run_backwards_claim_nothing(tmp_path: Path) -> None:
    rows = [a_run(n, end_time=SOME, run_time=0.0, start_time=SOME + 60 * (40 - n)) for n in range(40)]
    report = watch(tmp_path, rows, SOME, SOME + DAY)
    assert report.runs == 40 and not report.has_news
    assert report.contentions.because == "no run of the period has recorded which OSTs it used"


def test_runs_without_osts_can_still_be_slower(tmp_path: Path) -> None:
    rows = [
        run_row(
            str(n), total_bytes=10**9, time_by_slowest=10.0 if n < 20 else 30.0 + n / 10, start_time=SOME + 60 * n,
            end_time=SOME + 60 * n + 50, run_time=50.0, perf_by_slowest=1.0, filesystem="",
        )
        for n in range(30)
    ]  # fmt: skip
    report = watch(tmp_path, rows, SOME, SOME + DAY)
    [regression] = report.regressions.all
    assert (regression.first_bad_run, regression.runs_before, regression.runs_after) == (21, 20, 10)
    assert regression.slowdown == pytest.approx(3.2, abs=0.1)


def test_on_postgresql_as_well(postgresql: PostgreSQL, tmp_path: Path) -> None:
    rows = [a_run(n, count=1, perf_by_slowest=(100 if n < 20 else 30) * 2.0**20) for n in range(30)]
    reports = []
    for address in (postgresql.new_database(), str(tmp_path / "history.db")):
        with open_store(address) as store:
            with store.open_writer() as connection:
                add_runs(connection, rows)
            with store.open_reader() as connection:
                reports.append(watch_history(connection, SOME, SOME + DAY))
    assert reports[0] == reports[1]
    assert [regression.first_bad_run for regression in reports[0].regressions.all] == [21]
