"""Exposing by nbdkit, for real: encrypted, to whoever has the key."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.act.volumes.exposure import Exposure, Exposures
from forebay.act.volumes.kinds import open_exposures
from forebay.act.volumes.volume import Volume
from forebay.model.errors import BadInput, UnknownName, UserError
from support.volumes import GROUP, NAME, USER, Disk, Killed, disk_of, dying

LOCAL = "127.0.0.1"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    for command in ("nbdkit", "nbdinfo", "nbdcopy"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed (Debian: nbdkit libnbd-bin)")
    with disk_of("loop-unmounted", tmp_path) as made:
        yield made


@pytest.fixture
def made(disk: Disk) -> Volume:
    return disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Exposures]:
    door = open_exposures(tmp_path / "exposed")
    yield door
    door.withdraw(NAME)


def client(exposed: Exposure, folder: Path, *, key: str | None = None) -> subprocess.CompletedProcess[bytes]:
    """Read the whole of it."""
    psk = folder / "client.psk"
    psk.write_text(f"{exposed.settings['user']}:{key or exposed.settings['key']}\n")
    uri = f"{exposed.settings['uri']}?tls-psk-file={psk}"
    return subprocess.run(("nbdcopy", uri, "-"), capture_output=True, check=False, timeout=60)


def test_whoever_has_the_key_reads_the_volume(made: Volume, door: Exposures, tmp_path: Path) -> None:
    exposed = door.expose(made, "nbd", [LOCAL])
    assert (exposed.state, exposed.kind) == ("whole", "nbd")
    read = client(exposed, tmp_path)
    assert read.returncode == 0, read.stderr
    assert read.stdout == made.path.read_bytes()


def test_nobody_reads_it_with_another_key_or_without_one(made: Volume, door: Exposures, tmp_path: Path) -> None:
    exposed = door.expose(made, "nbd", [LOCAL])
    assert client(exposed, tmp_path, key="00" * 32).returncode != 0
    plain = exposed.settings["uri"].replace("nbds://forebay@", "nbd://")
    assert subprocess.run(("nbdinfo", plain), capture_output=True, check=False, timeout=60).returncode != 0


def test_exposed_again_it_is_the_same_also_after_the_agent_died(made: Volume, door: Exposures, tmp_path: Path) -> None:
    exposed = door.expose(made, "nbd", [LOCAL])
    assert door.expose(made, "nbd", [LOCAL]) == exposed
    door.exposers["nbd"].stop(NAME)
    assert [found.state for found in open_exposures(tmp_path / "exposed").list()] == ["half"]
    again = door.expose(made, "nbd", [LOCAL])
    assert (again.state, again.settings) == ("whole", exposed.settings)
    assert client(again, tmp_path).returncode == 0


def test_what_an_agent_that_was_killed_left_serving_is_ended_by_the_next_one(
    made: Volume, door: Exposures, tmp_path: Path
) -> None:
    exposed = door.expose(made, "nbd", [LOCAL])
    open_exposures(tmp_path / "exposed").withdraw(NAME)
    assert [found.state for found in door.list()] == []
    assert client(exposed, tmp_path).returncode != 0
    door.exposers["nbd"].stop(NAME)


def test_what_is_withdrawn_can_not_be_read_and_leaves_no_key(made: Volume, door: Exposures, tmp_path: Path) -> None:
    exposed = door.expose(made, "nbd", [LOCAL])
    door.withdraw(NAME)
    door.withdraw(NAME)
    assert client(exposed, tmp_path).returncode != 0
    assert door.list() == []
    assert list((tmp_path / "exposed").iterdir()) == []


def test_the_key_is_in_files_of_the_owner_only_and_in_no_text(made: Volume, door: Exposures, tmp_path: Path) -> None:
    exposed = door.expose(made, "nbd", [LOCAL])
    key = exposed.settings["key"]
    assert key not in repr(exposed)
    holders = [path for path in (tmp_path / "exposed").iterdir() if key in path.read_text()]
    assert holders
    assert all(path.stat().st_mode & 0o077 == 0 for path in holders)
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _ours(path)]
    assert commands
    assert not any(key.encode() in words for words in commands)


def _ours(path: Path) -> bool:
    try:
        return NAME.encode() in path.read_bytes()
    except OSError:  # it ended just now
        return False


def test_an_exposure_that_dies_at_any_step_is_withdrawn_without_a_trace(made: Volume, tmp_path: Path) -> None:
    folder = tmp_path / "exposed"
    for step in range(20):
        door = open_exposures(folder, after=dying(step, Killed()))
        try:
            door.expose(made, "nbd", [LOCAL])
        except Killed:
            door.exposers["nbd"].stop(NAME)  # as the system does with the children of a process that ends
            open_exposures(folder).withdraw(NAME)
            assert list(folder.iterdir()) == []
        else:
            break
    assert 1 < step < 19
    with suppress(Killed):
        door.withdraw(NAME)
    open_exposures(folder).withdraw(NAME)


def test_a_ceiling_is_given_to_the_server(disk: Disk, tmp_path: Path, door: Exposures) -> None:
    disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP, ceiling=1e9)
    exposed = door.expose(disk.volumes().find()[0], "nbd", [LOCAL])
    assert client(exposed, tmp_path).returncode == 0
    words = b" ".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _ours(path))
    assert b"rate=8000000000" in words


def test_a_folder_is_not_exposed(tmp_path: Path, door: Exposures) -> None:
    with disk_of("directory", tmp_path) as disk:
        made = disk.volumes().make(NAME, disk.size, uid=os.geteuid(), gid=os.getegid())
        with pytest.raises(BadInput, match="is a folder on this node"):
            door.expose(made, "nbd", [LOCAL])


@pytest.mark.parametrize(("how", "hosts", "kind"), [("nbd", [], BadInput), ("iscsi", [LOCAL], UnknownName)])
def test_what_can_not_be_is_refused(
    made: Volume, door: Exposures, how: str, hosts: list[str], kind: type[UserError]
) -> None:
    with pytest.raises(kind):
        door.expose(made, how, hosts)
    assert door.list() == []


def test_another_host_on_the_same_volume_is_refused(made: Volume, door: Exposures) -> None:
    door.expose(made, "nbd", [LOCAL])
    with pytest.raises(BadInput, match=r"is already exposed by nbd to .*; withdraw it first"):
        door.expose(made, "nbd", ["192.0.2.7"])


def test_a_plan_that_can_not_be_read_is_told_and_withdrawn(made: Volume, door: Exposures, tmp_path: Path) -> None:
    door.expose(made, "nbd", [LOCAL])
    (tmp_path / "exposed" / f"{NAME}.exposed").write_text("{")
    assert [found.state for found in door.list()] == ["half"]
    with pytest.raises(BadInput, match="has an unreadable plan"):
        door.expose(made, "nbd", [LOCAL])
    door.withdraw(NAME)
    assert door.list() == []


def test_exposed_by_nothing_it_is_its_path(made: Volume, door: Exposures) -> None:
    assert door.expose(made, "none", []).settings == {"path": str(made.path)}
