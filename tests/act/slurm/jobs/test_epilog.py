"""After a job: its targets are free, its logs are in the history, and a second time changes nothing."""

from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from forebay.act.slurm.jobs.epilog import day_folders, find_logs, run_epilog
from forebay.act.slurm.jobs.settings import Darshan
from forebay.history.store import Store
from forebay.history.store.schema import runs
from support.darshan_logs import Parts, wheel_log
from support.filesystems import Pretend
from support.made_up_runs import a_run, fill
from support.slurm_jobs import NOW, before, leases, own_job, rules_of

IONS = '[targets]\nname = "ions"\ncount = 8\n'
DAY = 86_400.0


def log_rules(folder: Path, text: str) -> Darshan:
    rules = rules_of(folder, more=text).darshan
    assert rules is not None
    return rules


def darshan(folder: Path) -> str:
    return f'[darshan]\nfolder = "{folder}/{{year}}/{{month}}/{{day}}"\n'


def a_log(folder: Path, at: float, name: str, job: int = 12) -> Path:
    """A log of the day, as Darshan puts it there."""
    day = datetime.fromtimestamp(at)
    where = folder / str(day.year) / str(day.month) / str(day.day)
    where.mkdir(parents=True, exist_ok=True)
    return Parts(wheel_log("ior_hdf5_example.darshan")).with_job(job_id=job, start=int(at)).write(where / name)


def test_all_that_a_job_had_is_free_and_what_it_did_is_known(store: Store, pretend: Pretend, tmp_path: Path) -> None:
    fill(store, [a_run(1, nprocs=8, count=2)])
    rules = rules_of(tmp_path, system=pretend("lustre"), more=IONS + darshan(tmp_path))
    before(store, rules)
    before(store, rules, own_job("13"))
    a_log(tmp_path, NOW, "me_vpic_id12_11-14-80000-1_1.darshan")
    had = len(leases(store, "ions")["12"]) + len(leases(store, "scratch")["12"])
    found = run_epilog(store, rules, own_job(), now=NOW + 10)
    assert (found.freed, found.logs.read, found.troubles) == (had, 1, ())
    assert leases(store, "ions").keys() == leases(store, "scratch").keys() == {"13"}
    assert not (tmp_path / "told" / "12.env").exists()
    with store.open_reader() as connection:
        assert connection.execute(sa.select(runs.c.job_id).where(runs.c.job_id == 12)).all() == [(12,)]


def test_a_second_time_changes_nothing(store: Store, tmp_path: Path) -> None:
    rules = rules_of(tmp_path, more=IONS + darshan(tmp_path))
    before(store, rules)
    a_log(tmp_path, NOW, "me_vpic_id12_11-14-80000-1_1.darshan")
    run_epilog(store, rules, own_job(), now=NOW + 10)
    again = run_epilog(store, rules, own_job(), now=NOW + 20)
    assert (again.freed, again.logs.read, again.logs.known, again.troubles) == (0, 0, 1, ())


def test_an_epilog_without_a_prolog_still_reads_the_logs(store: Store, tmp_path: Path) -> None:
    rules = rules_of(tmp_path, more=darshan(tmp_path))
    a_log(tmp_path, NOW, "me_vpic_id12_11-14-80000-1_1.darshan")
    found = run_epilog(store, rules, own_job(), now=NOW + 10)
    assert (found.freed, found.logs.read) == (0, 1)


def test_only_logs_of_the_job_are_read(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, more=darshan(tmp_path))
    wanted = {"me_vpic_id12_x_1.darshan", "me_vpic_id12-4711_x_1.darshan", "me_vpic_id12_x.darshan_partial"}
    others = {"me_vpic_id112_x.darshan", "me_vpic_id1_x.darshan", "me_vpic_id123_x.darshan", "me_vpic_id12_x.txt"}
    for name in wanted | others:
        a_log(tmp_path, NOW, name)
    assert {path.name for path in find_logs(rules, own_job(), began=NOW, now=NOW)} == wanted


def test_a_job_that_ran_for_days_has_logs_of_all_of_them(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, more=darshan(tmp_path))
    for number in range(4):
        a_log(tmp_path, NOW - number * DAY, f"me_vpic_id12_{number}.darshan")
    found = [path.name for path in find_logs(rules, own_job(), began=NOW - 2 * DAY, now=NOW)]
    assert found == [f"me_vpic_id12_{number}.darshan" for number in (2, 1, 0)]


@pytest.mark.parametrize(
    ("began", "days"), [(None, 2), (NOW, 1), (NOW - DAY, 2), (NOW - 100 * DAY, 31), (NOW + DAY, 0)]
)
def test_as_many_days_are_looked_through_as_the_job_took(tmp_path: Path, began: float | None, days: int) -> None:
    assert len(day_folders(log_rules(tmp_path, darshan(tmp_path)), own_job(), began=began, now=NOW)) == days


def test_a_folder_without_days_is_looked_through_once(tmp_path: Path) -> None:
    rules = log_rules(tmp_path, '[darshan]\nfolder = "/logs/{user}"\n')
    assert day_folders(rules, own_job(), began=NOW - 5 * DAY, now=NOW) == [Path("/logs") / own_job().user]


def test_a_damaged_log_is_told_and_the_others_are_read(store: Store, tmp_path: Path) -> None:
    rules = rules_of(tmp_path, more=darshan(tmp_path))
    a_log(tmp_path, NOW, "me_vpic_id12_1.darshan")
    a_log(tmp_path, NOW, "me_vpic_id12_2.darshan").write_bytes(b"no log")
    found = run_epilog(store, rules, own_job(), now=NOW)
    assert (found.logs.read, found.logs.failed) == (1, 1)
    assert "me_vpic_id12_2.darshan" in found.troubles[0]


def test_a_job_without_a_number_has_no_logs(store: Store, tmp_path: Path) -> None:
    assert run_epilog(store, rules_of(tmp_path, more=darshan(tmp_path)), own_job("lsf-x"), now=NOW).logs.total == 0
