import os
from pathlib import Path

import pytest

from forebay.act.volumes.directory import Directory
from forebay.act.volumes.kinds import KINDS, open_volumes
from forebay.act.volumes.volume import check_request
from forebay.model.errors import BadInput, UnknownName, UserError

ABSENT = "/does/not/exist"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_found_by_its_name(kind: str, tmp_path: Path) -> None:
    assert open_volumes(kind, tmp_path, group="vg0").kind == kind


def test_an_unknown_kind_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'loop'"):
        open_volumes("lop", tmp_path)


@pytest.mark.parametrize("kind", ["lvm", "nvmet"])
def test_logical_volumes_need_a_volume_group(kind: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="need the name of a volume group"):
        open_volumes(kind, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_not_there_is_told_in_one_line(kind: str) -> None:
    with pytest.raises(UserError) as refused:
        open_volumes(kind, Path(ABSENT), group="vg0").check()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["loop", "btrfs", "lvm", "nvmet"])
def test_a_missing_command_is_told(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root, that is what is told")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"command .* is not installed"):
        open_volumes(kind, tmp_path, group="vg0").check()


def test_a_mark_comes_back_as_it_was_written_at_every_stage(tmp_path: Path) -> None:
    marks = Directory(root=tmp_path)
    record = check_request("0" * 32 + ".5", 10**12, 1000, 100, 0o750, 2.5e9)
    marks.write_mark(record)
    for stage in ("whole", "releasing"):
        assert marks.list_records() == [record]
        record = marks.change_stage(record, stage)
    assert marks.read_record(record.name) == record
    marks.remove_mark(record)
    marks.remove_mark(record)
    assert marks.list_records() == []
    assert list(marks.home.iterdir()) == []
