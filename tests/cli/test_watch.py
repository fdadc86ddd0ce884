"""`forebay history watch` as cron and people call it."""

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from forebay.history.store import open_store
from forebay.history.store.runs import add_runs
from support.command import Forebay
from support.darshan_logs import wheel_log
from support.watched_histories import DAY, START, Plan, draw_history

PLAN = Plan(apps=20, slower_apps=3, factor=(3.0, 4.0))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history in which three applications became slower."""
    path = tmp_path_factory.mktemp("watch") / "history.db"
    with open_store(str(path)) as store, store.open_writer() as connection:
        add_runs(connection, draw_history(PLAN, 5).rows)
    return path


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


SINCE = ("--since", "2023-12-14", "--until", "2024-01-13")
assert START + 30 * DAY < 1_702_700_000


def test_people_read_what_became_slower(forebay: Forebay, drawn: Path) -> None:
    ran = forebay("history", "watch", "--db", drawn, *SINCE)
    assert ran.code == 0
    for text in ("Slower than their own past", "first bad run", "No OST became slow", "process hours in I/O, by user"):
        assert text in ran.out


def test_a_mail_has_a_subject_and_what_to_do(forebay: Forebay, drawn: Path) -> None:
    ran = forebay("history", "watch", "--db", drawn, *SINCE, "--mail", "-")
    subject, empty, *body = ran.out.splitlines()
    assert subject.startswith("Subject: [forebay] ") and "slower" in subject and not empty
    assert all(len(line) <= 72 for line in body)
    assert "forebay diagnose" in " ".join(" ".join(body).split())


def test_there_is_no_mail_if_nothing_began(forebay: Forebay, tmp_path: Path) -> None:
    db, mail = ("--db", tmp_path / "history.db"), tmp_path / "mail.txt"
    forebay("ingest", wheel_log("sample-goodost.darshan"), *db)
    mail.write_text("Subject: [forebay] of yesterday\n")
    ran = forebay("history", "watch", *db, "--since", "2017-01-01", "--mail", mail)
    assert (ran.code, ran.out) == (0, "")
    assert not mail.exists()
    assert forebay("history", "watch", *db, "--since", "2017-01-01", "--mail", "-").out == ""


def test_metrics_are_written_as_a_whole(forebay: Forebay, drawn: Path, tmp_path: Path) -> None:
    file = tmp_path / "watch.prom"
    ran = forebay("history", "watch", "--db", drawn, *SINCE, "--metrics", file)
    assert (ran.code, ran.out) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["watch.prom"]
    document = json.loads(forebay("history", "watch", "--db", drawn, *SINCE, "--json").out)
    families = {family.name: family.samples for family in text_string_to_metric_families(file.read_text())}
    slower = families["forebay_watch_slowdown_ratio"]
    assert len(slower) == len(document["slower"]) >= 2
    assert file.stat().st_mode & 0o777 == 0o644  # the exporter runs as another user


def test_a_period_without_runs_is_said(forebay: Forebay, drawn: Path) -> None:
    ran = forebay("history", "watch", "--db", drawn)
    assert ran.code == 0
    assert ran.out.startswith("No run started between ") and "the newest run started at 2024-01-1" in ran.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--since", "2024-02-01", "--until", "2024-01-01"), "is not after"),
        (("--since", "2999-01-01"), "is not before the end of the period"),
        (("--metrics", "nowhere/watch.prom"), "does not exist"),
        (("--mail", "-", "--json"), "both write to stdout"),
        (("--db", "missing.db"), "no history here yet"),
    ],
)
def test_what_makes_no_sense_is_refused(forebay: Forebay, drawn: Path, options: tuple[str, ...], message: str) -> None:
    ran = forebay("history", "watch", "--db", drawn, *options)
    assert ran.code == 2 and message in ran.err and ran.err.count("\n") == 1
