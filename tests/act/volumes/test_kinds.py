"""One suite for every kind of volume; those that need another kernel run it in a virtual machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.command import CommandFailed
from forebay.act.volumes.volume import NoRoom, NotOurs, Volume
from forebay.act.volumes.volume_lifecycle import Volumes
from forebay.model.errors import BadInput, UserError
from support.volumes import GROUP, KINDS, MIB, NAME, OTHER, UNMARKED, USER, Disk, Killed, disk_of, dying, written

pytestmark = pytest.mark.processes


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    with disk_of(request.param, tmp_path) as made:
        yield made


def make(volumes: Volumes, disk: Disk, name: str = NAME) -> Volume:
    return volumes.make(name, disk.size, uid=USER, gid=GROUP, mode=0o750)


def test_a_volume_is_whole_and_the_users_alone(disk: Disk) -> None:
    made = make(disk.volumes(), disk)
    assert (made.name, made.size, made.state) == (NAME, disk.size, "whole")
    assert made.enforced == disk.volumes().enforces
    with disk.entered(made) as top:
        found = top.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (USER, GROUP, 0o750)
        assert list(top.iterdir()) == []


def test_the_size_asked_can_be_written_and_hardly_more(disk: Disk) -> None:
    made = make(disk.volumes(), disk)
    with disk.entered(made) as top:
        fits = written(top, disk.size * 2)
    if made.enforced:
        assert disk.size <= fits <= disk.size * 1.02 + 6 * MIB
    else:
        assert fits == disk.size * 2


def test_made_again_it_is_the_same_and_keeps_what_was_written(disk: Disk) -> None:
    made = make(disk.volumes(), disk)
    with disk.entered(made) as top:
        (top / "result").write_text("42")
    assert make(disk.volumes(), disk) == made
    with disk.entered(made) as top:
        assert (top / "result").read_text() == "42"


def test_another_size_or_owner_under_the_same_name_is_refused(disk: Disk) -> None:
    made = make(disk.volumes(), disk)
    for size, uid in ((disk.size + 4096, USER), (disk.size, USER + 1)):
        with pytest.raises(BadInput, match="exists and differs from the request"):
            disk.volumes().make(NAME, size, uid=uid, gid=GROUP, mode=0o750)
    assert disk.volumes().find() == [made]


def test_what_is_released_is_gone_and_the_others_stay(disk: Disk) -> None:
    make(disk.volumes(), disk)
    other = make(disk.volumes(), disk, OTHER)
    assert [made.name for made in disk.volumes().find()] == [NAME, OTHER]
    disk.volumes().release(NAME)
    assert disk.volumes().find() == [other]
    disk.volumes().release(NAME)
    disk.volumes().release(OTHER)
    assert disk.left() == []


def test_after_a_restart_of_the_node_it_is_brought_up_with_what_was_written(disk: Disk) -> None:
    made = make(disk.volumes(), disk)
    with disk.entered(made) as top:
        (top / "result").write_text("42")
    disk.restart(made)
    assert [found.state for found in disk.volumes().find()] == ["half" if disk.loses else "whole"]
    assert make(disk.volumes(), disk).state == "whole"
    with disk.entered(made) as top:
        assert (top / "result").read_text() == "42"


def test_a_volume_that_is_down_is_released_without_a_trace(disk: Disk) -> None:
    made = make(disk.volumes(), disk)
    disk.restart(made)
    assert [found.name for found in disk.volumes().find()] == [NAME]
    disk.volumes().release(NAME)
    assert disk.left() == []


def test_a_make_that_dies_at_any_step_is_finished_by_the_next_make(disk: Disk) -> None:
    for step in disk.steps(0):
        died = dies(disk, step)
        assert all(found.state == "half" or found.size == disk.size for found in disk.volumes().find())
        assert make(disk.volumes(), disk).state == "whole"
        disk.volumes().release(NAME)
        assert disk.left() == [], f"step {step}"
        if not died:
            assert step > 3
            break


def test_a_make_that_dies_at_any_step_is_found_and_undone_by_release(disk: Disk) -> None:
    for step in disk.steps(1):
        died = dies(disk, step)
        names = [found.name for found in disk.volumes().find()]
        assert names == [NAME]
        disk.volumes().release(NAME)
        assert disk.left() == [], f"step {step}"
        if not died:
            break


def dies(disk: Disk, step: int) -> bool:
    """Whether `make` came as far as that step, where it dies."""
    try:
        make(disk.volumes(dying(step, Killed())), disk)
    except Killed:
        return True
    return False


def test_a_release_that_dies_at_any_step_is_finished_by_the_next(disk: Disk) -> None:
    for step in disk.steps(0):
        make(disk.volumes(), disk)
        try:
            disk.volumes(dying(step, Killed())).release(NAME)
        except Killed:
            disk.volumes().release(NAME)
        else:
            break
        finally:
            assert disk.left() == [], f"step {step}"
    assert step > 2


def test_a_make_after_a_release_that_died_gives_a_new_and_empty_volume(disk: Disk) -> None:
    made = make(disk.volumes(), disk)
    with disk.entered(made) as top:
        (top / "secret").write_text("of the job before")
    with pytest.raises(Killed):
        disk.volumes(dying(1, Killed())).release(NAME)
    assert make(disk.volumes(), disk).state == "whole"
    with disk.entered(made) as top:
        assert list(top.iterdir()) == []


def test_a_make_that_fails_at_any_step_leaves_nothing_behind(disk: Disk) -> None:
    for step in disk.steps(2):
        try:
            make(disk.volumes(dying(step, CommandFailed("no more"))), disk)
        except UserError as error:
            assert str(error) == "no more"
            assert disk.left() == [], f"step {step}"
            assert disk.volumes().find() == []
        else:
            break


def test_more_than_the_disk_has_is_refused_and_leaves_nothing(disk: Disk) -> None:
    with pytest.raises(NoRoom, match=f"volume {NAME}: .* free. Release grants there"):
        disk.volumes().make(NAME, 1 << 50, uid=USER, gid=GROUP)
    assert disk.volumes().find() == []
    assert disk.left() == []


def test_something_of_somebody_elses_in_its_place_is_not_touched(disk: Disk) -> None:
    theirs = disk.root / UNMARKED
    theirs.mkdir()
    (theirs / "thesis").write_text("three years")
    with pytest.raises(NotOurs, match="exists without Forebay's mark"):
        make(disk.volumes(), disk, UNMARKED)
    disk.volumes().release(UNMARKED)
    assert disk.volumes().find() == []
    assert (theirs / "thesis").read_text() == "three years"


def test_sizes_that_no_volume_has_are_refused(disk: Disk) -> None:
    for size in (0, -1, 1 << 80, 2.5):
        with pytest.raises(BadInput, match="size must be from 1 byte"):
            disk.volumes().make(NAME, size, uid=USER, gid=GROUP)  # type: ignore[arg-type]
    assert disk.left() == []


def test_names_that_are_not_forebays_are_refused(disk: Disk) -> None:
    for name in ("", "..", "data", "../" + NAME, NAME[:-2], NAME.upper(), NAME + "/x", NAME + "\n", "a\nb" * 1000):
        for refused in (lambda: make(disk.volumes(), disk, name), lambda: disk.volumes().release(name)):  # noqa: B023
            with pytest.raises(BadInput, match="is not a volume name") as error:
                refused()
            assert "\n" not in str(error.value)
            assert len(str(error.value)) < 300
    assert disk.left() == []


IMPOSSIBLE: list[dict[str, float]] = [
    {"uid": -1}, {"gid": (1 << 32) - 1}, {"mode": 0o4755}, {"mode": -1}, {"ceiling": 0.0}, {"ceiling": float("nan")}
]  # fmt: skip


def test_owners_modes_and_ceilings_that_cannot_be_are_refused(disk: Disk) -> None:
    for asked in IMPOSSIBLE:
        with pytest.raises(BadInput, match=next(iter(asked))):
            disk.volumes().make(NAME, disk.size, **{"uid": USER, "gid": GROUP} | asked)  # type: ignore[arg-type]
    assert disk.left() == []


def test_the_folder_must_be_there_and_belong_to_whoever_runs_the_agent(disk: Disk) -> None:
    disk.root.chmod(0o777)
    with pytest.raises(BadInput, match="writable by nobody else"):
        disk.volumes().check()
    disk.root.chmod(0o711)
    disk.volumes().check()
