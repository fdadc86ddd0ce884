"""Which file system each file of a log is on."""

from pathlib import Path

import numpy as np
import pytest

from forebay.history.darshan.file_systems import FileSystems, mounts_of
from forebay.history.darshan.process_logs import merge_processes
from forebay.history.darshan.summary import read_log
from forebay.history.scanned_log import pack_summary, unpack_summary
from support.darshan_logs import SHARED, Parts, wheel_log

NAMES = {
    1: b"/lus/grand/a",
    2: b"/lus/eagle/b",
    3: b"/grand/c",  # a link to it
    4: b"/projects/d",
    5: b"<STDIN>",
    6: b"/lus/grand/nfs/e",  # something else is mounted below
    7: b"/lus/grandiose/f",
}


def told(*mounts: str) -> list[str]:
    systems = FileSystems(mounts_of("\n".join(("exe", *mounts)).encode()), lambda: iter(NAMES.items()))
    return [systems.known[i] for i in systems.of(np.array(sorted(NAMES), dtype=np.uint64))]


def test_the_deepest_mount_above_a_file_tells() -> None:
    found = told("overlay\t/", "lustre\t/lus/grand", "lustre\t/lus/eagle", "nfs\t/lus/grand/nfs")
    assert found == ["/lus/grand", "/lus/eagle", "/lus/grand", "", "", "", ""]


def test_where_only_one_is_mounted_every_file_on_lustre_is_there() -> None:
    assert told("overlay\t/", "lustre\t/scratch") == ["/scratch"] * 7
    assert told("overlay\t/") == [""] * 7


def test_mounts_are_read_however_odd_they_are() -> None:
    text = b"a.out\nlustre\t/with space\n\nnothing\n\xff\t/\xff\nlustre\t/\n"
    assert mounts_of(text) == {"/with space": "lustre", "/\ufffd": "\ufffd", "/": "lustre"}
    assert mounts_of(b"") == {}


def test_each_log_of_the_wheel_tells_its_file_system() -> None:
    logs = {"sample.darshan": "/scratch2", "sample-badost.darshan": "/scratch1", "noposix.darshan": "/global/cscratch1"}
    assert {name: read_log(wheel_log(name)).row["filesystem"] for name in logs} == logs
    assert read_log(wheel_log("dxt.darshan")).row["filesystem"] is None


def test_one_run_on_two_file_systems_has_the_osts_of_both_apart(tmp_path: Path) -> None:
    log = Parts(wheel_log("sample-goodost.darshan"))
    moved = log.names().replace(
        b"/scratch1/scratchdirs/glock/testFile.0000000", b"/scratch2/scratchdirs/glock/testFile.0000000"
    )
    row = read_log(log.with_names(moved).write(tmp_path / "x.darshan")).row
    whole = read_log(wheel_log("sample-goodost.darshan")).row
    osts = list(zip(row["osts"]["filesystem"], row["osts"]["ost"], strict=True))
    assert len(set(osts)) == len(osts) > whole["stripe_count"] >= row["stripe_count"]
    assert row["stripe_count"] == row["osts"]["filesystem"].count("/scratch1")
    assert {system for system, _ in osts} == {"/scratch1", "/scratch2"}
    assert sum(row["osts"]["total_bytes"]) == sum(whole["osts"]["total_bytes"])
    assert sum(row["osts"]["files"]) == sum(whole["osts"]["files"])
    assert (row["filesystem"], whole["filesystem"]) == ("/scratch1", "/scratch1")


def test_an_ost_is_compared_with_those_of_its_own_file_system(tmp_path: Path) -> None:
    log = Parts(wheel_log("sample-badost.darshan"))
    names = log.names()
    for file in range(0, 2048, 2):
        names = names.replace(
            b"/scratch1/scratchdirs/glock/test-scratch1/ior-posix.out.%08d" % file,
            b"/scratch2/scratchdirs/glock/test-scratch1/ior-posix.out.%08d" % file,
        )
    osts = read_log(log.with_names(names).write(tmp_path / "x.darshan")).row["osts"]
    by_system: dict[str, list[float]] = {}
    for system, slow in zip(osts["filesystem"], osts["slowness"], strict=True):
        by_system.setdefault(system, []).append(slow)
    assert {system: round(float(np.median(slow)), 3) for system, slow in by_system.items()} == {
        "/scratch1": 1.0,
        "/scratch2": 1.0,
    }


def test_processes_of_a_job_keep_file_systems_apart() -> None:
    row = read_log(wheel_log("sample-goodost.darshan")).row | {"shared_files": 0}
    other = row | {"osts": row["osts"] | {"filesystem": ["/home"] * 24}, "total_bytes": 1, "filesystem": "/home"}
    run = merge_processes([(row, {}), (other, {})])
    assert (run["filesystem"], run["stripe_count"], len(run["osts"]["ost"])) == ("/scratch1", 24, 48)


def test_processes_that_versions_before_have_read_are_on_an_unknown_one() -> None:
    row = read_log(wheel_log("sample-goodost.darshan")).row
    columns = {name: column for name, column in row["osts"].items() if name != "filesystem"}
    kept = pack_summary({name: value for name, value in row.items() if name != "filesystem"} | {"osts": columns}, {})
    [old] = [unpack_summary(kept)]
    assert (merge_processes([old])["filesystem"], old[0]["osts"]["filesystem"]) == ("", [""] * 24)
    assert sorted(set(merge_processes([(row, {}), old])["osts"]["filesystem"])) == ["", "/scratch1"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the logs of the shared data folder")
def test_a_real_run_on_two_file_systems() -> None:
    path = next(SHARED.glob("snyder_python3_id3116902-2110483*"))
    row = read_log(path).row
    osts = row["osts"]
    assert {system: osts["filesystem"].count(system) for system in set(osts["filesystem"])} == {
        "/home": 8,
        "/lus/grand": 160,
    }
    assert (row["filesystem"], row["stripe_count"]) == ("/lus/grand", 160)
