"""Before a job: decided once, put on, told; and where something goes wrong, the rest is done."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from forebay.act.command import run
from forebay.act.slurm.jobs.decision import find_application
from forebay.act.slurm.jobs.job import Job
from forebay.act.slurm.jobs.prolog import run_prolog
from forebay.history.store import Store
from forebay.history.store.running_jobs import forget_job
from forebay.history.store.schema import decisions, jobs
from support.filesystems import KINDS, Pretend
from support.made_up_runs import a_run, fill
from support.slurm_jobs import NOW, before, leases, own_job, rules_of

IONS = '[targets]\nname = "ions"\ncount = 8\nallocate = "best-bandwidth"\n'


def test_a_jobs_folder_gets_the_layout_and_the_job_is_told(store: Store, pretend: Pretend, tmp_path: Path) -> None:
    fill(store, [a_run(1, "other", nprocs=8, count=4)])
    system, job = pretend("lustre"), own_job()
    found = before(store, rules_of(tmp_path, system=system), job)
    folder = system.mount / job.user / "12"
    assert found.troubles == ()
    assert system.system.layout(folder).count == 4
    assert found.environment == {
        "FOREBAY_APP": "vpic",
        "FOREBAY_SCRATCH": str(folder),
        "FOREBAY_STRIPE_COUNT": "4",
        "FOREBAY_STRIPE_SIZE": str(1 << 20),
        "FOREBAY_STRIPE_OFFSET": "0",
        "FOREBAY_OSTS": "0,1,2,3",
        "FOREBAY_TARGETS": "0,1,2,3",
    }
    told = (tmp_path / "told" / "12.env").read_text()
    assert told == "".join(f"export {name}={value}\n" for name, value in found.environment.items())
    assert leases(store, "scratch") == {"12": {0, 1, 2, 3}}


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_system_gets_its_layout(store: Store, pretend: Pretend, tmp_path: Path, kind: Any) -> None:
    fill(store, [a_run(1, "other", nprocs=8, count=4)])
    system = pretend(kind)
    found = before(store, rules_of(tmp_path, system=system))
    assert found.troubles == ()
    assert system.system.layout(Path(found.environment["FOREBAY_SCRATCH"])).count == 4


def test_a_job_is_told_the_osts_that_its_files_get(store: Store, pretend: Pretend, tmp_path: Path) -> None:
    """Those of the pool that its folder has from the one above, and of these none that is drained."""
    fill(store, [a_run(1, "other", nprocs=8, count=4)])
    system, job = pretend("lustre"), own_job()
    system.change(pools={"fast": [2, 4, 5, 7]})
    run(("lfs", "setstripe", "-c", "1", "-p", "fast", str(system.folder(job.user))), timeout=60.0)
    system.change_target(4, max_create_count=0)
    found = before(store, rules_of(tmp_path, system=system), job)
    assert found.troubles == ()
    assert found.environment["FOREBAY_OSTS"] == "2,5,7"
    assert leases(store, "scratch") == {job.job: {2, 5, 7}}


def test_two_jobs_are_laid_out_apart(store: Store, pretend: Pretend, tmp_path: Path) -> None:
    fill(store, [a_run(1, "other", nprocs=8, count=2)])
    rules = rules_of(tmp_path, system=pretend("lustre"))
    first, second = (before(store, rules, own_job(job)).environment for job in ("1", "2"))
    assert (first["FOREBAY_TARGETS"], second["FOREBAY_TARGETS"]) == ("0,1", "2,3")
    assert leases(store, "scratch") == {"1": {0, 1}, "2": {2, 3}}


def test_targets_of_their_own_kind_are_told_beside_the_layout(store: Store, pretend: Pretend, tmp_path: Path) -> None:
    fill(store, [a_run(1, nprocs=8, count=2)])
    rules = rules_of(tmp_path, system=pretend("lustre"), more=IONS)
    first, second = (before(store, rules, own_job(job)).environment for job in ("1", "2"))
    assert (first["FOREBAY_TARGETS"], second["FOREBAY_TARGETS"]) == ("0,1", "2,3")
    assert first["FOREBAY_OSTS"].split(",") == [str(n) for n in sorted(leases(store, "scratch")["1"])]
    assert leases(store, "ions") == {"1": {0, 1}, "2": {2, 3}}


def test_the_allocation_bounds_the_stripe_count_of_the_file_system(
    store: Store, pretend: Pretend, tmp_path: Path
) -> None:
    fill(store, [a_run(n, nprocs=8, count=n, perf_by_slowest=b) for n, b in ((1, 1e8), (2, 3e8), (8, 2e8))])
    system = pretend("lustre")
    free = before(store, rules_of(tmp_path, system=system), own_job("1")).environment
    assert int(free["FOREBAY_STRIPE_COUNT"]) > 2
    bounded = rules_of(tmp_path, system=system, more='[targets]\nallocate = "best-bandwidth"\n')
    assert int(before(store, bounded, own_job("2")).environment["FOREBAY_STRIPE_COUNT"]) <= 2


def test_every_node_of_a_job_is_told_what_the_first_decided(store: Store, pretend: Pretend, tmp_path: Path) -> None:
    fill(store, [a_run(1, nprocs=8, count=2)])
    system = pretend("lustre")
    rules = rules_of(tmp_path, system=system, more=IONS)
    first = before(store, rules)
    (tmp_path / "told" / "12.env").unlink()  # as on another node
    second = before(store, rules)
    assert second.environment == first.environment
    assert (tmp_path / "told" / "12.env").exists()
    assert len(system.calls("set")) == 1
    assert len(_decisions(store)) == 2  # one of the layout, one of the targets


def test_a_node_waits_for_the_one_that_decides(store: Store, tmp_path: Path) -> None:
    rules, waited = rules_of(tmp_path, more=IONS), []

    def look_up(job: Job) -> Job:
        """Meanwhile, the prolog of another node."""

        def pause(seconds: float) -> None:
            waited.append(seconds)
            raise KeyboardInterrupt  # the other's limit

        with pytest.raises(KeyboardInterrupt):
            before(store, rules, job, pause=pause)
        return job

    run_prolog(store, rules, own_job(), look_up, now=NOW, chance=0.3)
    assert len(waited) == 1
    assert before(store, rules, pause=lambda _: pytest.fail("all is decided")).environment["FOREBAY_TARGETS"] == "0"


def test_a_prolog_that_is_interrupted_leaves_nothing_and_lets_the_other_nodes_go(
    store: Store, tmp_path: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, [a_run(1, nprocs=8, count=2)])
    system = pretend("lustre")
    rules = rules_of(tmp_path, system=system, more=IONS)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("forebay.act.slurm.jobs.decision.advise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        before(store, rules)
    assert (leases(store, "scratch"), leases(store, "ions")) == ({}, {})
    assert before(store, rules).environment == {"FOREBAY_APP": "vpic"}


def test_a_job_that_is_started_again_after_its_end_is_decided_anew(store: Store, tmp_path: Path) -> None:
    rules = rules_of(tmp_path, more=IONS)
    before(store, rules)
    with store.open_writer() as connection:
        assert forget_job(connection, "12") == 1
    before(store, rules, now=NOW + 60)
    assert [row["time"] for row in _decisions(store)] == [NOW, NOW + 60]


def test_a_job_that_nobody_ended_is_over_after_its_time(store: Store, tmp_path: Path) -> None:
    rules = rules_of(tmp_path, more=IONS)
    before(store, rules, own_job(seconds=1000.0))
    assert leases(store, "ions", NOW + 1599) == {"12": {0}}
    assert leases(store, "ions", NOW + 1600) == {}


def test_a_file_system_that_refuses_leaves_the_folder_and_the_other_targets(
    store: Store, pretend: Pretend, tmp_path: Path
) -> None:
    fill(store, [a_run(1, nprocs=8, count=2)])
    system = pretend("lustre")
    system.refuse("set", "Operation not permitted")
    found = before(store, rules_of(tmp_path, system=system, more=IONS))
    assert "Operation not permitted" in found.troubles[0]
    assert found.environment.keys() == {"FOREBAY_APP", "FOREBAY_SCRATCH", "FOREBAY_TARGETS"}
    assert leases(store, "scratch") == {}
    assert leases(store, "ions") == {"12": {0, 1}}


def test_a_folder_that_can_not_be_made_is_told_and_nothing_is_laid_out(
    store: Store, pretend: Pretend, tmp_path: Path
) -> None:
    system, job = pretend("lustre"), own_job()
    (system.mount / job.user).write_text("a file")
    found = before(store, rules_of(tmp_path, system=system), job)
    assert len(found.troubles) == 1
    assert "FOREBAY_SCRATCH" not in found.environment
    assert _decisions(store) == []


def test_shadow_decides_and_remembers_and_touches_nothing(store: Store, pretend: Pretend, tmp_path: Path) -> None:
    fill(store, [a_run(1, nprocs=8, count=2)])
    system, job = pretend("lustre"), own_job()
    found = before(store, rules_of(tmp_path, system=system, mode="shadow", more=IONS), job)
    assert (found.environment, found.troubles) == ({}, ())
    assert "stripe" in found.log_fields["layout"]
    assert found.log_fields["targets"] == "2 of 8"
    assert [row["outcome"] for row in _decisions(store)] == ["shadow"]
    assert (leases(store, "scratch"), leases(store, "ions")) == ({}, {})
    assert not (system.mount / job.user).exists()
    assert not (tmp_path / "told").exists()
    assert system.calls("set") == []


def test_an_application_is_known_by_what_is_said_its_command_its_name_or_the_last_job_of_that_name(
    store: Store,
) -> None:
    fill(store, [a_run(1, "vpic.x", job_id=5, total_bytes=10), a_run(2, "tool", job_id=5, total_bytes=5)])
    with store.open_writer() as connection:
        connection.execute(jobs.insert().values(job_id=5, job_name="weekly", user="ann"))
        unknown = Job(job="1", user="ann", uid=1, gid=1)
        assert find_application(connection, unknown) == "unknown"
        for more, app in (
            ({"app": "said", "name": "vpic.x"}, "said"),
            ({"command": "/opt/bin/vpic.x deck.in", "name": "weekly"}, "vpic.x"),
            ({"command": "/home/ann/run.sh", "name": "tool"}, "tool"),
            ({"command": "/home/ann/run.sh", "name": "weekly"}, "vpic.x"),
            ({"name": "weekly", "user": "ben"}, "weekly"),
            ({"name": "new"}, "new"),
            ({"command": "/bin/new.x"}, "new.x"),
        ):
            values = {"user": "ann", **more}
            assert find_application(connection, Job(job="1", uid=1, gid=1, **values)) == app  # type: ignore[arg-type]


def test_the_name_of_a_job_is_kept_for_the_next_of_that_name(store: Store, tmp_path: Path) -> None:
    before(store, rules_of(tmp_path), own_job("77", name="weekly", app=""))
    with store.open_reader() as connection:
        row = connection.execute(sa.select(jobs)).mappings().one()
    assert (row["job_id"], row["job_name"], row["job_start_time"]) == (77, "weekly", NOW)


def test_a_name_that_a_shell_would_stumble_over_is_not_told(store: Store, tmp_path: Path) -> None:
    found = before(store, rules_of(tmp_path, more=IONS), own_job(app="$(rm -rf x)"))
    assert found.environment == {"FOREBAY_TARGETS": "0"}


def _decisions(store: Store) -> list[dict[str, Any]]:
    with store.open_reader() as connection:
        return [dict(row) for row in connection.execute(sa.select(decisions)).mappings()]
