"""The planner's loop with recorded answers of Slurm: what it changes, and what it does if Slurm does not answer."""

import threading
import time
from pathlib import Path

import pytest

from forebay.act.slurm.planner.service import PlannerService
from forebay.act.slurm.planner.settings import read_schedule_settings
from forebay.act.slurm.planner.steering import Change, read_book, write_book
from forebay.model.errors import BadInput, UserError
from support.processes import wait_until

ROW = (
    "{n}|{n}|PENDING|{reason}|main|ann|(null)|(null)|{submit:.0f}|N/A|N/A|{eligible:.0f}|{priority}|{nice}|1|1|{limit}:00"
    "|#BB_LUA pool=nvme capacity=60GB|pending|N/A|"
)
AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"


class Site:
    """Commands of Slurm that print recordings, and note what scontrol is asked to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.queue()
        (folder / "burst").write_text("  PoolName[0]=nvme Granularity=1 TotalSpace=100GB FreeSpace=100GB UsedSpace=0\n")
        self.command("squeue", f"cat {folder}/queue")
        self.command("sinfo", "printf 'n0|main|idle|0/2/0/2|\\n'")
        self.command("scontrol", f'if [ "$1" = show ]; then cat {folder}/burst; else cat >> {folder}/asked; fi')
        self.said: list[str] = []

    def queue(self, **changed: object) -> None:
        """Three jobs wait; `changed` are fields of the third."""
        usual = {"submit": time.time() - 60, "eligible": time.time() - 60, "nice": 0, "reason": "Priority"}
        rows = [
            ROW.format(n=n, priority=100 - n, limit=10 * (4 - n), **(usual | (changed if n == 3 else {})))
            for n in (1, 2, 3)
        ]
        (self.folder / "queue").write_text("".join(row.replace("|", "\x1f") + "\n" for row in rows))

    def command(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def service(self, *, timeout: str = "30 s", **plan: str) -> PlannerService:
        keys = {"mode": "steer", "policy": "plan:alpha=1", "folder": "plan"} | plan
        lines = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
        (self.folder / "schedule.toml").write_text(f'[schedule]\n{lines}[slurm]\ntimeout = "{timeout}"\n')
        return PlannerService(read_schedule_settings(self.folder / "schedule.toml"), self.said.append)

    @property
    def asked(self) -> list[str]:
        path = self.folder / "asked"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return Site(tmp_path)


def test_slurm_is_asked_once_for_all_changes_and_they_are_in_the_book_first(site: Site) -> None:
    service = site.service()
    service.run_cycle()
    assert site.asked == [
        "update JobId=3 Nice=-4",
        "update JobId=2 Nice=-2 StartTime=now+300",
        "update JobId=1 StartTime=now+300",
    ]
    book = read_book(site.folder / "plan" / "changes.json")
    assert {number: (change.raised_by, change.kept > 0) for number, change in book.items()} == {
        "3": (4, False), "2": (2, True), "1": (0, True),
    }  # fmt: skip
    assert (service.counts.updates, service.counts.kept, service.counts.raised) == (3, 2, 2)


def test_shadow_mode_records_the_plan_and_asks_for_nothing(site: Site) -> None:
    site.service(mode="shadow").run_cycle()
    assert site.asked == [] and (site.folder / "plan" / "plan.json").exists()
    assert '"event": "plans"' in (site.folder / "plan" / "record.jsonl").read_text()


@pytest.fixture
def changed(site: Site) -> Path:
    """An earlier planner raised job 3 and kept it back; job 4 has ended since. Returns its book."""
    book, soon = site.folder / "plan" / "changes.json", time.time() + 100
    book.parent.mkdir()
    rows = [Change(number="3", own_nice=5, nice=-9, kept=soon), Change(number="4", own_nice=0, nice=-2)]
    write_book(book, {row.number: row for row in rows})
    site.queue(nice=-9, eligible=soon, reason="BeginTime")
    return book


def test_shadow_mode_gives_back_what_an_earlier_planner_changed(site: Site, changed: Path) -> None:
    ended = threading.Event()
    ended.set()
    site.service(mode="shadow").run(ended)
    assert site.asked == ["update JobId=3 Nice=5 StartTime=now"]
    assert read_book(changed) == {}


@pytest.mark.usefixtures("changed")
def test_a_begin_time_that_a_user_has_set_since_is_not_given_back(site: Site) -> None:
    site.queue(nice=-9, eligible=time.time() + 86400, reason="BeginTime")
    assert site.service().release() == 1 and site.asked == ["update JobId=3 Nice=5"]


def test_the_book_stays_if_slurm_does_not_take_the_changes_back(site: Site, changed: Path) -> None:
    site.command("scontrol", f'if [ "$1" = show ]; then cat {site.folder}/burst; else {AWAY}; fi')
    ended = threading.Event()
    ended.set()
    site.service(mode="shadow").run(ended)
    assert len(read_book(changed)) == 2
    (line,) = set(site.said)
    assert line.startswith("cannot give jobs back what they had: scontrol: ") and "--release" in line


@pytest.mark.parametrize("name", ["squeue", "sinfo", "scontrol"])
def test_a_slurm_that_does_not_answer_is_one_line_and_changes_nothing(name: str, site: Site) -> None:
    service = site.service()
    service.run_cycle()
    before = read_book(site.folder / "plan" / "changes.json")
    plan = (site.folder / "plan" / "plan.json").read_text()
    site.command(name, AWAY)
    assert service.run_cycle() is None and service.run_cycle() is None
    assert len(site.said) == 1 and site.said[0].startswith("no new plan, as Slurm does not answer: ")
    assert "Unable to contact slurm controller" in site.said[0] and "\n" not in site.said[0]
    assert read_book(site.folder / "plan" / "changes.json") == before
    assert (site.folder / "plan" / "plan.json").read_text() == plan
    assert service.counts.failures == 2


def test_a_pool_that_slurm_does_not_have_is_one_line_and_changes_nothing(site: Site) -> None:
    service = site.service(pool="nvm")
    assert (service.run_cycle(), service.run_cycle()) == (None, None)
    assert site.said == [
        "no new plan: schedule.pool: Slurm has no burst-buffer pool 'nvm'; its pools are: nvme",
    ]
    assert (site.asked, service.counts.failures) == ([], 2)


def test_changes_that_slurm_refuses_are_counted(site: Site) -> None:
    site.command("scontrol", f'if [ "$1" = show ]; then cat {site.folder}/burst; else echo "Access denied" >&2; fi')
    service = site.service()
    service.run_cycle()
    assert service.counts.complaints == 1 and site.said == ["Slurm refused changes: Access denied"]


def test_changes_of_jobs_that_have_started_or_ended_meanwhile_are_no_refusals(site: Site) -> None:
    late = "Job has already finished for job 65"
    site.command("scontrol", f'if [ "$1" = show ]; then cat {site.folder}/burst; else echo "{late}" >&2; fi')
    site.service().run_cycle()
    assert site.said == []


def test_a_command_that_hangs_is_named_without_its_arguments(site: Site) -> None:
    site.command("squeue", "sleep 60")
    service = site.service(timeout="0.2 s")
    service.run_cycle()
    assert site.said == ["no new plan, as Slurm does not answer: squeue: no answer within 0.2 s; stopped"]


@pytest.mark.processes
def test_a_second_planner_does_not_use_the_same_folder(site: Site) -> None:
    first, second, ended = site.service(), site.service(), threading.Event()
    thread = threading.Thread(target=first.run, args=(ended,))
    thread.start()
    try:
        wait_until((site.folder / "plan" / "plan.json").exists, "the first planner made no plan")
        with pytest.raises(UserError, match="another planner uses this folder"):
            second.run(ended)
    finally:
        ended.set()
        thread.join(60)


def test_metrics_say_what_the_last_plan_was(site: Site) -> None:
    service = site.service()
    service.run_cycle()
    text = "".join(sample.text for sample in service.metrics())
    for line in ("forebay_schedule_cycles_total 1.0", "forebay_schedule_kept_jobs 2.0", "forebay_schedule_steers 1.0",
                 'forebay_schedule_waiting_jobs{because="nodes-and-space"} 2.0'):  # fmt: skip
        assert line in text, text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('[schedule]\nmode = "hold"', "schedule.mode"),
        ('[schedule]\npolicy = "sjv-bb"', "schedule.policy: no scheduling policy 'sjv-bb'"),
        ('[schedule]\nintervall = "1 s"', "schedule.intervall: is not a key of this table"),
        ('[schedule]\ninterval = "5 min"', "steering.lease: must be at least 3 times schedule.interval, 15 min"),
        ('[schedule]\nmetrics = "unix:/x"', "schedule.metrics: must be HOST:PORT"),
        ('[slurm]\nconf = "/none/slurm.conf"', "slurm.conf: /none/slurm.conf does not exist"),
        ('[exclude]\npartitions = "debug"', "exclude.partitions"),
    ],
)
def test_wrong_settings_are_one_line_with_the_key(text: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "schedule.toml").write_text(text)
    with pytest.raises(BadInput) as caught:
        read_schedule_settings(tmp_path / "schedule.toml")
    assert wanted in str(caught.value) and "\n" not in str(caught.value)
