"""NVMe over Fabrics for real: who may connect, and what is left. It runs in a virtual machine (tests/system)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.volumes.kinds import open_exposures
from forebay.act.volumes.nvme import CONFIGFS
from forebay.act.volumes.volume import Volume
from forebay.model.errors import BadInput
from support.volumes import GROUP, NAME, OTHER, USER, Disk, Killed, connected, disk_of, dying

OURS = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001"
THEIRS = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000002"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with disk_of("nvmet", tmp_path) as made:
        yield made


def make(disk: Disk, name: str = NAME) -> Volume:
    return disk.volumes().make(name, disk.size, uid=USER, gid=GROUP)


def test_only_the_hosts_of_the_grant_may_connect(disk: Disk, tmp_path: Path) -> None:
    made = make(disk)
    door = open_exposures(tmp_path / "exposed")
    exposed = door.expose(made, "nvmet", [OURS])
    try:
        assert exposed.state == "whole"
        with connected(exposed.settings, OURS) as device:
            assert device.is_block_device()
        with pytest.raises(AssertionError, match="nvme"), connected(exposed.settings, THEIRS):
            pass
    finally:
        door.withdraw(made.name)


def test_what_is_withdrawn_can_not_be_reached_and_leaves_nothing(disk: Disk, tmp_path: Path) -> None:
    made = make(disk)
    door = open_exposures(tmp_path / "exposed")
    exposed = door.expose(made, "nvmet", [OURS])
    door.withdraw(made.name)
    door.withdraw(made.name)
    assert door.list() == []
    with pytest.raises(AssertionError, match="nvme"), connected(exposed.settings, OURS):
        pass
    disk.volumes().release(made.name)
    assert disk.left() == []


def test_hosts_ports_and_subsystems_of_others_survive(disk: Disk, tmp_path: Path) -> None:
    theirs = [CONFIGFS / "hosts" / THEIRS, CONFIGFS / "ports" / "1", CONFIGFS / "subsystems" / "nqn.2014-08.org.x:y"]
    for path in theirs:
        path.mkdir()
    try:
        door = open_exposures(tmp_path / "exposed")
        for name in (NAME, OTHER):
            door.expose(make(disk, name), "nvmet", [OURS, THEIRS])
        for name in (NAME, OTHER):
            door.withdraw(name)
            disk.volumes().release(name)
        assert sorted(disk.left()) == sorted(map(str, theirs))
    finally:
        for path in theirs:
            path.rmdir()


def test_an_exposure_that_dies_at_any_step_is_withdrawn_without_a_trace(disk: Disk, tmp_path: Path) -> None:
    made = make(disk)
    before = disk.left()
    for step in range(100):
        door = open_exposures(tmp_path / "exposed", after=dying(step, Killed()))
        try:
            door.expose(made, "nvmet", [OURS])
        except Killed:
            open_exposures(tmp_path / "exposed").withdraw(made.name)
            assert disk.left() == before, f"step {step}"
        else:
            break
    assert 5 < step < 99
    open_exposures(tmp_path / "exposed").withdraw(made.name)
    assert disk.left() == before


def test_a_host_that_is_no_nqn_is_refused(disk: Disk, tmp_path: Path) -> None:
    made = make(disk)
    for host in ("", "node7", "../../hosts", "nqn.2014-08.org/x"):
        with pytest.raises(BadInput, match="is not a host NQN"):
            open_exposures(tmp_path / "exposed").expose(made, "nvmet", [host])
