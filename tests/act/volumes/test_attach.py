"""Volumes of other nodes: connected and mounted for real by NBD, by NVMe as far as files and words go."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.act.volumes.attach import Attachments, check_unused, open_connection
from forebay.act.volumes.exposure import Exposure, Exposures
from forebay.act.volumes.kinds import open_exposures
from forebay.act.volumes.mounts import mounted_below
from forebay.act.volumes.nvme import NvmeConnection
from forebay.act.volumes.volume import Volume
from forebay.model.errors import BadInput, Refused, UnknownName, UserError
from support.volumes import GROUP, NAME, USER, Disk, disk_of

GRANT = NAME.partition(".")[0]
NQN = "nqn.2026-11.org.forebay:3f"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    for command in ("nbdkit", "nbdfuse", "fusermount3"):
        if not shutil.which(command):
            pytest.skip(f"{command} is not installed (Debian: nbdkit libnbd-bin fuse3)")
    if not Path("/dev/fuse").exists():
        pytest.skip("this kernel has no FUSE")
    with disk_of("loop-unmounted", tmp_path) as made:
        yield made


@pytest.fixture
def made(disk: Disk) -> Volume:
    return disk.volumes().make(NAME, disk.size, uid=USER, gid=GROUP)


@pytest.fixture
def exposed(made: Volume, tmp_path: Path) -> Iterator[Exposure]:
    door: Exposures = open_exposures(tmp_path / "exposed")
    yield door.expose(made, "nbd", ["127.0.0.1"])
    door.withdraw(NAME)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Attachments]:
    yield from _node(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Attachments]:
    yield from _node(tmp_path / "there")


def _node(folder: Path) -> Iterator[Attachments]:
    node = Attachments(folder=folder)
    yield node
    for name in node.list_names():
        node.detach(name)
    assert mounted_below(folder) == []


def attach(node: Attachments, exposed: Exposure, *, used: bool = False, force: bool = False) -> Path:
    return node.attach(NAME, "nbd", exposed.settings, used=used, force=force).path


def test_the_user_writes_to_it_and_finds_it_again(exposed: Exposure, here: Attachments, there: Attachments) -> None:
    path = attach(here, exposed)
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777) == (USER, GROUP, 0o700)
    (path / "file").write_text("kept")
    assert here.detach(NAME)
    assert not path.exists()
    assert (attach(there, exposed, used=True) / "file").read_text() == "kept"


def test_attached_again_it_is_the_same(exposed: Exposure, here: Attachments) -> None:
    assert attach(here, exposed) == attach(here, exposed, used=True)
    assert here.list_names() == here.list_names(grant=GRANT) == [NAME]
    assert here.list_names(grant="0" * 32) == []


def test_a_second_node_is_refused_as_long_as_the_first_has_it(
    exposed: Exposure, here: Attachments, there: Attachments
) -> None:
    path = attach(here, exposed)
    with pytest.raises(Refused, match="is in use on another node"):
        attach(there, exposed)
    assert there.list_names() == []
    (path / "file").write_text("still there")
    here.detach(NAME)
    attach(there, exposed)


def test_nothing_is_left_and_again_is_harmless(exposed: Exposure, here: Attachments) -> None:
    attach(here, exposed)
    assert here.detach(NAME)
    assert not here.detach(NAME)
    assert list(here.folder.iterdir()) == []
    assert _servers(here.folder) == []


def test_one_that_is_in_use_is_detached_all_the_same(exposed: Exposure, here: Attachments) -> None:
    file = os.open(attach(here, exposed) / "file", os.O_CREAT | os.O_WRONLY)
    try:
        assert here.detach(NAME)
        assert list(here.folder.iterdir()) == []
        with pytest.raises(OSError, match="Input/output error"):
            os.write(file, b"x" * (1 << 20))
            os.fsync(file)
    finally:
        os.close(file)


def test_whoever_has_no_key_gets_words_and_leaves_nothing(exposed: Exposure, here: Attachments) -> None:
    wrong = replace(exposed, settings={**exposed.settings, "key": "00" * 32})
    with pytest.raises(UserError, match=r"127.0.0.1 port \d+: "):
        attach(here, wrong)
    assert list(here.folder.iterdir()) == []


def test_the_key_is_in_no_file_of_others_and_in_no_command(exposed: Exposure, here: Attachments) -> None:
    attach(here, exposed)
    key = exposed.settings["key"].encode()
    own = here.folder / f".{NAME}"
    assert own.stat().st_mode & 0o077 == 0
    assert [path.name for path in own.iterdir() if path.is_file() and key in path.read_bytes()] == ["key"]
    assert _servers(here.folder)
    assert not any(key in words for words in _servers(here.folder))


def test_a_node_that_went_down_half_way_can_be_cleaned(here: Attachments) -> None:
    (here.folder / f".{NAME}").mkdir(parents=True)
    (here.folder / NAME).mkdir()
    assert here.list_names() == [NAME]
    assert here.detach(NAME)
    assert list(here.folder.iterdir()) == []


def test_of_other_file_systems_only_its_use_is_known(tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.write_bytes(b"XFSB".ljust(4096, b"\0"))
    check_unused(NAME, device, used=False)
    with pytest.raises(Refused, match="is in use on another node"):
        check_unused(NAME, device, used=True)


def test_what_is_no_way_to_a_volume_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="only mounted on its storage node"):
        open_connection("none", tmp_path, {}).connect()
    with pytest.raises(UnknownName, match="no kind of connection 'iscsi'"):
        open_connection("iscsi", tmp_path, {})


@pytest.fixture
def nvme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvmeConnection:
    """A kernel that connects: what `nvme` would make of it, in files."""
    script = tmp_path / "nvme"
    script.write_text(f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
cd {tmp_path}/sys
case $1 in
connect) mkdir -p nvme-subsys3/nvme3n1 && echo {NQN} > nvme-subsys3/subsysnqn && touch {tmp_path}/dev/nvme3n1;;
disconnect) rm -r nvme-subsys3 {tmp_path}/dev/nvme3n1;;
esac
""")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("sys/nvme-subsys0/nvme0n1", "dev"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sys/nvme-subsys0/subsysnqn").write_text("nqn.of-another\n")
    settings = {"nqn": NQN, "transport": "tcp", "address": "10.0.0.7", "service": "4420"}
    return NvmeConnection(settings, subsystems=tmp_path / "sys", devices=tmp_path / "dev")


def test_a_device_is_found_by_its_subsystem_and_connected_once(nvme: NvmeConnection, tmp_path: Path) -> None:
    assert nvme.connect() == nvme.connect() == tmp_path / "dev" / "nvme3n1"
    nvme.disconnect()
    nvme.disconnect()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"connect -t tcp -a 10.0.0.7 -s 4420 -n {NQN}", f"disconnect -n {NQN}"]


def _servers(folder: Path) -> list[bytes]:
    """Commands of processes that serve a device under the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        if words.startswith(b"nbdfuse") and str(folder).encode() in words:
            found.append(words)
    return found


def test_sessions_end_with_no_loop_device_left(exposed: Exposure, here: Attachments) -> None:
    attach(here, exposed)
    here.detach(NAME)
    loops = subprocess.run(("losetup", "-l"), capture_output=True, text=True, check=True, timeout=60).stdout
    assert str(here.folder) not in loops
