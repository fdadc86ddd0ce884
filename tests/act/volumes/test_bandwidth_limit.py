"""Ceilings in made-up trees of control groups, of both versions; the real thing is in test_loop.py."""

from pathlib import Path

from forebay.act.volumes.bandwidth_limit import limit_device, read_limit

READ, WRITE = "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"


def test_in_version_1_every_group_is_limited(tmp_path: Path) -> None:
    groups = [tmp_path / "blkio", tmp_path / "blkio" / "slurm", tmp_path / "blkio" / "slurm" / "job"]
    for group in groups:
        group.mkdir(parents=True)
        for name in (READ, WRITE):
            (group / name).touch()
    limit_device("7:3", 5_000_000, tmp_path)
    assert {(group / name).read_text() for group in groups for name in (READ, WRITE)} == {"7:3 5000000"}
    assert read_limit("7:3", tmp_path) == 5e6
    assert read_limit("7:4", tmp_path) is None


def test_in_version_2_the_groups_at_the_top_are_limited(tmp_path: Path) -> None:
    for group in ("system.slice", "user.slice", "system.slice/slurmd"):
        (tmp_path / group).mkdir()
        (tmp_path / group / "io.max").touch()
    limit_device("253:0", 5_000_000, tmp_path)
    tops = [(tmp_path / group / "io.max").read_text() for group in ("system.slice", "user.slice")]
    assert tops == ["253:0 rbps=5000000 wbps=5000000"] * 2
    assert read_limit("253:0", tmp_path) == 5e6
    limit_device("253:0", None, tmp_path)
    assert read_limit("253:0", tmp_path) is None


def test_without_control_groups_there_is_no_ceiling(tmp_path: Path) -> None:
    limit_device("7:3", 5_000_000, tmp_path)
    limit_device("7:3", None, tmp_path)
    assert read_limit("7:3", tmp_path) is None
    assert list(tmp_path.iterdir()) == []
