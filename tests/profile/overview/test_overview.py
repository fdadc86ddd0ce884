"""What a run did, from its log."""

import struct
from pathlib import Path

import numpy as np
import pytest

from forebay.history.darshan.file_records import read_file_records
from forebay.profile.findings.evidence import Evidence
from forebay.profile.overview.files import SHOWN
from forebay.profile.overview.run import RunOverview, describe_run
from forebay.profile.overview.targets import Target, mark_slow
from support.darshan_logs import Parts, wheel_log
from support.labelled_logs import MIB, Program, many_files, own, shared_blocks, stdio, striped, uneven


def evidence_of(path: Path) -> Evidence:
    return Evidence(records=read_file_records(path))


def overview_of(program: Program, path: Path) -> RunOverview:
    return describe_run(evidence_of(program.write(path / "run.darshan")))


def test_files_come_by_bytes_by_seconds_and_by_calls(tmp_path: Path) -> None:
    program = Program(nprocs=4)
    program.slowness[102] = 50.0
    own(program, 4 * MIB, MIB)
    program.move(7, 0, "READ", [0], 64 * MIB)
    for _ in range(9):
        program.open(8, 1)
    files = overview_of(program, tmp_path).files
    first = {order: chosen[0].name for order, chosen in files.orders.items()}
    assert first == {"largest": "/scratch/file7", "slowest": "/scratch/file102", "most opened": "/scratch/file8"}
    assert files.count == 6 and {group.name: group.count for group in files.uses} == {
        "only read": 1, "only written": 4, "no bytes moved": 1,
    }  # fmt: skip
    largest = files.orders["largest"][0]
    assert (largest.moved, largest.processes, largest.opens) == ((64 * MIB, 0), 1, 1)


def test_few_of_many_files_are_kept(tmp_path: Path) -> None:
    program = Program(nprocs=4)
    many_files(program, 50)
    files = overview_of(program, tmp_path).files
    assert files.count == 200 and all(len(chosen) == SHOWN for chosen in files.orders.values())


def test_streams_and_requests_to_a_file_add_up(tmp_path: Path) -> None:
    program = Program(nprocs=4)
    own(program, 8 * MIB, MIB, first=400)
    stdio(program, MIB, first=400)
    overview = overview_of(program, tmp_path)
    assert overview.files.count == 4 and overview.moved == (0, 36 * MIB)
    assert overview.files.orders["largest"][0].moved == (0, 9 * MIB)
    assert overview.totals["STDIO"].moved.tolist() == [0, 4 * MIB]


def test_bytes_by_process_are_known_unless_a_record_is_of_all(tmp_path: Path) -> None:
    program = Program(nprocs=4)
    uneven(program, [40 * MIB, 4 * MIB, 0, 4 * MIB])
    overview = overview_of(program, tmp_path)
    assert overview.by_process is not None
    assert overview.by_process[1].tolist() == [40 * MIB, 4 * MIB, 0, 4 * MIB]
    shared_blocks(program, 4 * MIB, MIB)
    overview = overview_of(program, tmp_path)
    assert overview.by_process is None and overview.slowest_file is not None
    assert overview.slowest_file.name == "/scratch/file1"


def test_the_time_of_the_slowest_process_bounds_the_bandwidth(tmp_path: Path) -> None:
    program = Program(nprocs=4)
    program.slowness[102] = 10.0
    own(program, 4 * MIB, MIB)
    overview = overview_of(program, tmp_path)
    each = 4 * (0.0002 + MIB / 1e9)
    assert overview.io_seconds == pytest.approx(10 * each + 0.0005, rel=1e-3)
    assert overview.bandwidth == pytest.approx(16 * MIB / overview.io_seconds)
    run = overview.evidence.records.job.run_time
    assert overview.shares[1] == pytest.approx(13 * each / (4 * run), rel=1e-3)


def test_osts_have_the_bytes_of_their_stripes(tmp_path: Path) -> None:
    program = Program(nprocs=4)
    own(program, 4 * MIB, MIB)
    for rank in program.everybody():
        striped(program, 100 + rank, [rank // 2])
    targets = overview_of(program, tmp_path).targets
    assert [(target.ost, target.moved, target.files) for target in targets] == [(0, 8 * MIB, 2), (1, 8 * MIB, 2)]
    assert not any(target.slow for target in targets)


def test_a_slow_ost_is_marked_on_its_own_file_system() -> None:
    def target(filesystem: str, ost: int, slowness: float) -> Target:
        return Target(
            filesystem=filesystem, ost=ost, files=3, moved=100, seconds=1.0, slowness=slowness, slow=False
        )  # fmt: skip

    slow = [target("/a", ost, 30.0 if ost == 2 else 1.0 + ost / 100) for ost in range(6)]
    fine = [target("/b", ost, 1.0 + ost / 100) for ost in range(6)]
    marked = mark_slow(slow + fine)
    assert [(each.filesystem, each.ost) for each in marked if each.slow] == [("/a", 2)]
    assert mark_slow([]) == []


def test_a_real_log_has_its_mounts_targets_and_order() -> None:
    overview = describe_run(evidence_of(wheel_log("sample-badost.darshan")))
    assert [target.ost for target in overview.targets if target.slow] == [14]
    assert overview.files.mounts[0].name == "/scratch1 (lustre)" and overview.files.mounts[0].count == 2048
    assert overview.order is not None and overview.order.contiguous == 1.0  # the first request of each follows none
    assert overview.activity is None


def test_one_request_in_each_file_has_no_order(tmp_path: Path) -> None:
    program = Program(4)
    many_files(program, 20)
    order = describe_run(evidence_of(program.write(tmp_path / "run.darshan"))).order
    assert order is not None and (order.contiguous, order.ahead, order.jumps) == (0.0, 0.0, 0.0)


def test_a_log_without_files_has_nothing(tmp_path: Path) -> None:
    overview = overview_of(Program(nprocs=2), tmp_path)
    assert (overview.files.count, overview.moved, overview.io_seconds, overview.bandwidth) == (0, (0, 0), 0, None)
    assert isinstance(overview.evidence, Evidence) and not np.any(overview.shares)


def test_a_folder_below_the_root_may_be_a_link_to_a_mounted_lustre(tmp_path: Path) -> None:
    program = Program(nprocs=2)
    own(program, MIB, MIB)
    log = program.write(tmp_path / "run.darshan")
    names = struct.pack("<Q", 100) + b"/grand/x\0" + struct.pack("<Q", 101) + b"/lus/grand/deep/y\0"
    mounts = ("lustre", "/lus/grand"), ("overlay", "/"), ("nfs", "/home")
    Parts(log).with_names(names).with_mounts(*mounts).write(log)
    files = describe_run(evidence_of(log)).files
    assert [(group.name, group.count) for group in files.mounts] == [("/lus/grand (lustre)", 2)]
