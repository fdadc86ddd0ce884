"""Logs into the history: each once, whatever happens."""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from forebay.history.darshan import ingest as module
from forebay.history.darshan import log as log_module
from forebay.history.darshan.ingest import Report, ingest
from forebay.history.darshan.log import counter_columns
from forebay.history.darshan.process_logs import merge_processes
from forebay.history.darshan.summary import read_log
from forebay.history.store import Store, open_store
from forebay.history.store.ingested_logs import find_unchanged
from forebay.history.store.schema import apps, logs, modules, osts, runs, totals
from forebay.model.errors import BadInput, UserError
from support import deadly
from support.darshan_logs import MPIIO, POSIX, SHARED, Parts, all_logs, wheel_log, wheel_logs
from support.processes import wait_until
from support.work import alive


def take_in(store: Store, *paths: Path, workers: int = 1) -> Report:
    return ingest(store, paths, workers=workers)


def rows(store: Store, table: sa.Table = runs) -> list[dict[str, Any]]:
    with store.open_reader() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def check_sums(store: Store) -> None:
    """`totals` are what one gets by adding all runs up, and nothing hangs in the air."""
    with store.open_reader() as connection:
        for name in ("total_bytes", "seq_requests", "io_less_1k"):
            added, summed = (connection.execute(sa.select(sa.func.sum(t.c[name]))).scalar() for t in (runs, totals))
            assert (added or 0) == (summed or 0)
        assert len(rows(store)) == (connection.execute(sa.select(sa.func.sum(totals.c.runs))).scalar() or 0)
        numbers = set(connection.execute(sa.select(runs.c.run_id)).scalars())
        for child in (modules, osts):
            assert set(connection.execute(sa.select(child.c.run_id)).scalars()) <= numbers


def test_the_history_is_the_same_whatever_the_number_of_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    found = []
    for workers in (1, 3):
        with open_store(str(tmp_path / f"{workers}.db")) as store:
            take_in(store, *(path.parent for path in wheel_logs()), workers=workers)
            found.append([rows(store, table) for table in (runs, logs, modules, osts, totals)])
    assert found[0] == found[1] and len(found[0][0]) > 3


def test_every_log_there_is_comes_in_and_known_ones_are_skipped(store: Store) -> None:
    folders = [path for path in (wheel_logs()[0].parents[2], SHARED) if path.is_dir()]
    first = take_in(store, *folders, workers=2)
    assert first.failed == 0
    assert first.read + first.copies == len(all_logs())
    again = take_in(store, *folders, workers=2)
    assert (again.read, again.copies, again.failed, again.known) == (0, 0, 0, len(all_logs()))
    check_sums(store)


def test_a_row_has_what_the_log_says(store: Store) -> None:
    take_in(store, wheel_log("sample-badost.darshan"))
    said = read_log(wheel_log("sample-badost.darshan")).row
    [row] = rows(store)
    assert {name: row[name] for name in said if name in row} == {name: said[name] for name in said if name in row}
    assert [o["slowness"] for o in rows(store, osts)] == said["osts"]["slowness"]
    assert len(rows(store, modules)) == len(said["module_rows"])


def test_a_copy_is_recognised_and_counts_once(store: Store, tmp_path: Path) -> None:
    for name in ("a.darshan", "b.darshan"):
        shutil.copy(wheel_log("sample.darshan"), tmp_path / name)
    report = take_in(store, tmp_path)
    assert (report.read, report.copies, len(rows(store))) == (1, 1, 1)
    check_sums(store)


def test_what_a_changed_log_says_takes_the_place_of_what_it_said(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.darshan"
    shutil.copy(wheel_log("sample.darshan"), path)
    shutil.copy(wheel_log("noposix.darshan"), tmp_path / "y.darshan")
    take_in(store, tmp_path)
    Parts(wheel_log("sample.darshan")).with_job(job_id=99).write(path)
    report = take_in(store, tmp_path)
    assert (report.read, report.known) == (1, 1)
    assert sorted(row["job_id"] for row in rows(store)) == [99, 83017637]
    check_sums(store)


def test_a_copy_takes_the_place_of_a_log_that_changed(store: Store, tmp_path: Path) -> None:
    first, second = tmp_path / "a.darshan", tmp_path / "b.darshan"
    for path in (first, second):
        shutil.copy(wheel_log("sample.darshan"), path)
    take_in(store, tmp_path)
    shutil.copy(wheel_log("noposix.darshan"), first)
    take_in(store, tmp_path)
    assert Counter(row["job_id"] for row in rows(store)) == {4478544: 1, 83017637: 1}
    assert {Path(row["path"]).name: row["status"] for row in rows(store, logs)} == {
        first.name: "read",
        second.name: "read",
    }
    check_sums(store)


def test_copies_that_change_together_leave_nothing_of_what_they_said(store: Store, tmp_path: Path) -> None:
    both = [tmp_path / "a.darshan", tmp_path / "b.darshan"]
    for name in ("sample.darshan", "noposix.darshan"):
        for path in both:
            shutil.copy(wheel_log(name), path)
        take_in(store, tmp_path)
    assert [row["job_id"] for row in rows(store)] == [83017637]
    assert [row["status"] for row in rows(store, logs)] == ["read", "copy"]
    check_sums(store)


@pytest.mark.parametrize("name", ["sample.darshan", "noposixopens.darshan"])  # of many processes, and of one
def test_a_log_that_is_read_again_as_another_run_leaves_its_earlier_run(
    store: Store, tmp_path: Path, name: str
) -> None:
    Parts(wheel_log(name)).with_job(job_id=7, nprocs=1 if name.startswith("no") else 2048).write(tmp_path / "x.darshan")
    take_in(store, tmp_path)
    expected = [row["run_key"] for row in rows(store)]
    with store.open_writer() as connection:  # as a version that knew less of the program had it
        for table in (logs, runs):
            connection.execute(table.update().values(run_key="job:earlier"))
        connection.execute(logs.update().values(mtime_ns=-1))
    take_in(store, tmp_path)
    assert [row["run_key"] for row in rows(store)] == expected
    check_sums(store)


def test_processes_that_come_in_several_ingests_are_one_run(store: Store, tmp_path: Path) -> None:
    for number in range(5):
        log = Parts(wheel_log("noposixopens.darshan")).with_job(job_id=7, nprocs=1, start=1_600_000_000 + number)
        log.without_module(MPIIO).write(tmp_path / f"{number}.darshan")
        take_in(store, tmp_path)
        assert [(row["logs"], row["nprocs"]) for row in rows(store)] == [(number + 1, number + 1)]
        check_sums(store)
    [row] = rows(store)
    assert row["end_time"] - row["start_time"] == row["run_time"]


def test_a_name_of_any_bytes_is_known_again(store: Store, tmp_path: Path) -> None:
    names = [b"us\xe9r_prog_id5_1-1-1-1.darshan", b"new\nline_id5_1-1-1-1.darshan", "\U0001f680.darshan".encode()]
    for number, name in enumerate(names):
        log = Parts(wheel_log("noposixopens.darshan")).with_job(job_id=5, start=1_600_000_000 + number)
        log.write(tmp_path / os.fsdecode(name))
    assert take_in(store, tmp_path).read == 3
    assert take_in(store, tmp_path).known == 3
    assert sorted(row["user"] or "" for row in rows(store)) == ["", "new\nline", "us\\xe9r"]
    assert {Path(row["path"]).name for row in rows(store, logs)} == {
        "us\\xe9r_prog_id5_1-1-1-1.darshan", "new\nline_id5_1-1-1-1.darshan", "\U0001f680.darshan"
    }  # fmt: skip


def test_a_broken_name_of_a_bad_log_is_listed_as_well(store: Store, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.darshan")).write_text("no log")
    (tmp_path / os.fsdecode(b"\xfe.darshan")).symlink_to("nowhere")
    listed = take_in(store, tmp_path).listed
    assert [(Path(path).name, reason) for path, _, reason in listed] == [
        ("\\xfe.darshan", "no such file or directory"),
        ("\\xff.darshan", "is not a Darshan log"),
    ]


def test_pipes_and_devices_are_not_waited_for(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.darshan")
    (tmp_path / "zero.darshan").symlink_to("/dev/zero")
    (tmp_path / "loop.darshan").symlink_to("loop.darshan")
    (tmp_path / "folder.darshan").mkdir()
    (tmp_path / "folder.darshan" / "around").symlink_to(tmp_path)
    shutil.copy(wheel_log("sample.darshan"), tmp_path / "folder.darshan" / "z.darshan")
    report = take_in(store, tmp_path)
    assert (report.read, report.failed) == (1, 3)
    assert [(Path(path).name, reason) for path, _, reason in report.listed] == [
        ("loop.darshan", "too many levels of symbolic links"),
        ("pipe.darshan", "is not a regular file"),
        ("zero.darshan", "is not a regular file"),
    ]


def test_a_log_that_is_gone_when_its_turn_comes_is_listed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.darshan", "b.darshan"):
        Parts(wheel_log("noposixopens.darshan")).with_job(job_id=ord(name[0])).write(tmp_path / name)
    found = list(module.find_logs([tmp_path], lambda _path, _why: None))

    def and_then_gone(*args: Any) -> set[str]:
        found[0].unlink()
        return find_unchanged(*args)

    monkeypatch.setattr(module, "find_unchanged", and_then_gone)
    report = take_in(store, tmp_path)
    assert (report.read, report.listed) == (1, [(str(found[0]), "failed", "no such file or directory")])


def test_numbers_that_can_not_be_stop_nothing(store: Store, tmp_path: Path) -> None:
    log, counters = wheel_log("ior_hdf5_example.darshan"), counter_columns("POSIX")
    for number, value in enumerate((1 << 62, -(1 << 62), math.nan, math.inf)):
        records = np.frombuffer(Parts(log).module(POSIX), dtype=log_module._record("POSIX")).copy()
        field = "counters" if isinstance(value, int) else "fcounters"
        name = "BYTES_READ" if isinstance(value, int) else "F_SLOWEST_RANK_TIME"
        records[field][:, counters[name]] = value
        Parts(log).with_module(POSIX, [records.tobytes()]).write(tmp_path / f"{number}.darshan")
    shutil.copy(wheel_log("noposix.darshan"), tmp_path / "z.darshan")
    report = take_in(store, tmp_path)
    assert (report.read, report.failed) == (1, 4)
    said = [reason.partition(":")[0] for _, _, reason in report.listed]
    assert said == ["is damaged", "is damaged", "is damaged", "is implausible"]  # endless seconds are too many
    check_sums(store)


def test_a_log_that_can_no_longer_be_read_keeps_what_it_said(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.darshan"
    shutil.copy(wheel_log("sample.darshan"), path)
    take_in(store, tmp_path)
    path.write_bytes(path.read_bytes()[:500])
    report = take_in(store, tmp_path)
    assert (report.failed, len(rows(store))) == (1, 1)
    assert report.listed[0][2].startswith("is truncated")


def test_bad_logs_are_listed_and_stop_nothing(store: Store, tmp_path: Path) -> None:
    shutil.copy(wheel_log("sample.darshan"), tmp_path / "good.darshan")
    (tmp_path / "cut.darshan").write_bytes(wheel_log("sample.darshan").read_bytes()[:2000])
    (tmp_path / "empty.darshan").touch()
    (tmp_path / "text.darshan").write_text("no log")
    (tmp_path / "notes.txt").write_text("not even meant as one")
    report = take_in(store, tmp_path)
    assert (report.read, report.failed) == (1, 3)
    assert [(Path(p).name, status) for p, status, _ in report.listed] == [
        ("cut.darshan", "failed"),
        ("empty.darshan", "failed"),
        ("text.darshan", "failed"),
    ]
    assert len(rows(store)) == 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the logs of the shared data folder")
def test_partial_and_empty_logs_are_flagged(store: Store) -> None:
    report = take_in(store, SHARED)
    assert [(Path(p).name, status) for p, status, _ in report.listed] == [
        ("empty_log.darshan", "empty"),
        ("imbalanced-io.darshan", "partial"),
        ("partial_data_stdio.darshan", "partial"),
    ]
    assert sum(row["partial_flag"] for row in rows(store)) == 2
    assert sum(row["partial_flag"] * row["runs"] for row in rows(store, totals)) == 2


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the logs of the shared data folder")
def test_the_processes_of_a_job_without_mpi_are_one_run(store: Store) -> None:
    processes = sorted(SHARED.glob("snyder_python3_id3116902-*.darshan"))
    take_in(store, *processes[:7])
    [part] = rows(store)
    assert (part["nprocs"], part["logs"]) == (7, 7)
    take_in(store, *processes)
    [run] = rows(store)
    assert (run["run_id"], run["nprocs"], run["logs"], run["job_id"]) == (part["run_id"], 24, 24, 3116902)
    each = [read_log(path).row for path in processes]
    assert run["total_bytes"] == sum(row["total_bytes"] for row in each)
    assert run["time_by_slowest"] == max(row["time_by_slowest"] for row in each)
    osts = {ost for row in each for ost in zip(row["osts"]["filesystem"], row["osts"]["ost"], strict=True)}
    assert (run["stripe_count"], len(osts)) == (160, 168)  # 8 are of /home, the others of /lus/grand
    check_sums(store)


def test_processes_come_together_the_same_in_whatever_order() -> None:
    names = ("pq_app_write_id71296", "pq_app_write_id71303", "pq_app_write_id71310")
    parts = [(s.row, s.files) for s in (read_log(p) for n in names for p in wheel_logs() if p.name.startswith(n))]
    first = merge_processes(parts)
    assert all(merge_processes(list(order)) == first for order in permutations(parts))
    assert first["logs"] == len(parts) == 3


def test_day_trees_and_the_newer_hierarchy_are_walked_in_order(store: Store, tmp_path: Path) -> None:
    for number, folder in enumerate(("2026/2/28", "2026/10/1", "2026/2/3", "ada/ior/7/nid0001")):
        (tmp_path / folder).mkdir(parents=True)
        Parts(wheel_log("sample.darshan")).with_job(job_id=7 + number).write(tmp_path / folder / "x.darshan")
    take_in(store, tmp_path)
    assert [row["job_id"] for row in rows(store)] == [10, 9, 7, 8]


def test_a_path_that_is_not_there_is_refused_before_anything_is_done(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        take_in(store, wheel_log("sample.darshan"), tmp_path / "nowhere")
    assert rows(store) == []


def test_a_log_on_which_the_reader_dies_is_listed_and_the_rest_is_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_many", deadly.read_many)
    monkeypatch.setattr(module, "CHUNK", 2)
    for number, name in enumerate(("a.darshan", "b.darshan", deadly.NAME, "e.darshan", "f.darshan")):
        Parts(wheel_log("noposixopens.darshan")).with_job(job_id=number).write(tmp_path / name)
    report = take_in(store, tmp_path, workers=2)
    assert (report.read, report.failed) == (4, 1)
    assert report.listed == [(str(tmp_path / deadly.NAME), "failed", "is damaged: the process that read it died")]


def test_a_reader_that_dies_while_we_write_costs_no_log(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_many", deadly.read_many)
    monkeypatch.setattr(module, "CHUNK", 1)
    monkeypatch.setattr(module, "BATCH", 1)
    for number, name in enumerate(("a.darshan", deadly.NAME, "e.darshan", "f.darshan", "g.darshan", "h.darshan")):
        Parts(wheel_log("noposixopens.darshan")).with_job(job_id=number).write(tmp_path / name)
    write, mark = module._record, tmp_path / deadly.MARK

    def slowly(*args: Any) -> None:
        write(*args)
        wait_until(lambda: mark.exists() and not alive(int(mark.read_text() or os.getpid())), "no reader died")

    monkeypatch.setattr(module, "_record", slowly)
    report = take_in(store, tmp_path, workers=1)
    assert (report.read, report.failed) == (5, 1)


def _logs(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        Parts(wheel_log("noposixopens.darshan")).with_job(job_id=number).write(folder / f"{number:05}.darshan")
    return folder


def _started(script: Path, database: str, folder: Path) -> "subprocess.Popen[bytes]":
    """An ingest in small batches, in a process of its own."""
    script.write_text(
        "import sys; from pathlib import Path; from forebay.history.store import open_store\n"
        "from forebay.history.darshan import ingest as module\n"
        "if __name__ == '__main__':\n"
        "    module.BATCH, module.CHUNK = 20, 5\n"
        "    with open_store(sys.argv[1]) as store: module.ingest(store, [Path(sys.argv[2])], workers=1)\n"
    )
    return subprocess.Popen([sys.executable, str(script), database, str(folder)], start_new_session=True)


def test_killed_at_any_moment_it_goes_on_from_the_last_batch(database: str, tmp_path: Path) -> None:
    folder, seen = _logs(tmp_path / "logs", 400), 0
    with open_store(database) as store:
        for goal in (1, 100, 250):
            process = _started(tmp_path / "ingest.py", database, folder)
            wait_until_rows(store, goal, process)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
            found = len(rows(store))
            assert found >= max(goal, seen)
            assert found == len(rows(store, logs))
            check_sums(store)
            seen = found
        report = take_in(store, folder, workers=2)
        assert report.known == seen
        assert len(rows(store)) == 400
        check_sums(store)


def wait_until_rows(store: Store, count: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(24_000):
        if len(rows(store)) >= count:
            return
        assert process.poll() is None, "it ended too early"
        time.sleep(0.005)
    pytest.fail("it did not come about within two minutes")


def test_two_at_once_take_every_log_in_once(database: str, tmp_path: Path) -> None:
    folder = _logs(tmp_path / "logs", 300)
    both = [_started(tmp_path / f"{n}.py", database, folder) for n in range(2)]  # neither finds a database
    assert [process.wait(120) for process in both] == [0, 0]
    with open_store(database) as store:
        assert Counter(row["job_id"] for row in rows(store)) == dict.fromkeys(range(300), 1)
        check_sums(store)


def test_the_same_application_has_one_number(store: Store, tmp_path: Path) -> None:
    take_in(store, _logs(tmp_path / "logs", 3))
    assert [row["app"] for row in rows(store, apps)] == ["1116507695"]
    assert {row["app_id"] for row in rows(store)} == {rows(store, apps)[0]["app_id"]}


def test_without_pydarshans_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyDarshan from its sources is, which is all that there is of it for Python 3.13."""
    missing = RuntimeError("Could not find libdarshan-util.so! Is darshan-util installed?")

    def fail(_name: str) -> None:
        raise missing

    monkeypatch.setattr(module, "find_spec", lambda _name: SimpleNamespace(origin=None))
    monkeypatch.setattr(module, "import_module", fail)
    with pytest.raises(UserError, match=r"lacks libdarshan-util\. Use Python 3\.11"):
        module.check_library()
