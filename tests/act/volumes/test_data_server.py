"""Data servers on volumes: real ones, which are killed, blocked and moved away."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.command import CommandFailed
from forebay.act.forward.clients.sync import Client
from forebay.act.forward.net.address import parse_address
from forebay.act.volumes.data_server import FOLDER, DataServers
from forebay.act.volumes.exposure import Exposure, Exposures
from forebay.act.volumes.volume import Volume
from support.processes import wait_until

pytestmark = pytest.mark.processes
NAME = f"{1:032x}.0"
ALONE = {"index": "0", "servers": "1"}


@pytest.fixture
def servers() -> Iterator[DataServers]:
    made = DataServers()
    yield made
    made.close()


@pytest.fixture
def exposures(tmp_path: Path, servers: DataServers) -> Exposures:
    return Exposures(folder=tmp_path / "plans", exposers={"shared": servers})


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    path = tmp_path / "volume"
    path.mkdir(mode=0o700)
    return Volume(
        name=NAME, size=1 << 20, path=path, enforced=False, state="whole", uid=os.getuid(), gid=os.getgid(), mode=0o700,
        asked_ceiling=0.0,
    )  # fmt: skip


def server_of(volume: Volume) -> int:
    """The process id of its data server; 0 if there is none."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(volume.path / FOLDER) in words:
            return int(entry.parent.name)
    return 0


def connects(plan: Exposure) -> bool:
    address = parse_address(plan.settings["address"])
    with socket.socket() as door:
        return door.connect_ex((address.host, address.port)) == 0


def test_a_server_that_is_killed_runs_again_at_the_same_address(
    exposures: Exposures, servers: DataServers, volume: Volume
) -> None:
    lines: list[str] = []
    servers.log = lambda level, text, name: lines.append(f"{level} {name[-2:]} {text}")
    plan = exposures.expose(volume, "shared", (), key="k" * 32, more=ALONE)
    assert (plan.state, plan.settings["key"], plan.hosts) == ("whole", "k" * 32, ())
    first = server_of(volume)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: any("runs again" in line for line in lines), "the server stays away")
    assert exposures.expose(volume, "shared", (), key="k" * 32, more=ALONE) == plan
    assert server_of(volume) not in (0, first)
    assert connects(plan)
    assert lines[0] == f"warning .0 data server 0 of volume {NAME}: ended by SIGKILL; it is started again"
    exposures.withdraw(NAME)
    assert not connects(plan)
    assert (server_of(volume), exposures.list()) == (0, [])


def test_a_server_that_does_not_start_says_why_and_keeps_its_address_if_it_ran_before(
    exposures: Exposures, servers: DataServers, volume: Volume
) -> None:
    (volume.path / FOLDER).mkdir()
    (volume.path / FOLDER / "mine").touch()
    with pytest.raises(CommandFailed, match="contains 'mine', but is not a server's folder"):
        exposures.expose(volume, "shared", (), more=ALONE)
    assert exposures.list() == []  # it never ran
    (volume.path / FOLDER / "mine").unlink()
    plan = exposures.expose(volume, "shared", (), more=ALONE)
    servers.stop(NAME)
    (volume.path / FOLDER / "server.json").write_text("damaged")
    with pytest.raises(CommandFailed, match=r"server\.json: is unreadable or damaged"):
        exposures.expose(volume, "shared", (), more=ALONE)
    [known] = exposures.list()
    assert (known.state, known.settings) == ("half", plan.settings)


def test_a_server_is_not_started_again_on_what_was_below_its_volume(
    exposures: Exposures, volume: Volume, servers: DataServers
) -> None:
    plan = exposures.expose(volume, "shared", (), more=ALONE)
    volume.path.rename(volume.path.with_name("moved"))
    volume.path.mkdir()
    found = next(entry for entry in Path("/proc").glob("[0-9]*/cmdline") if _listens(entry, plan))
    os.kill(int(found.parent.name), signal.SIGKILL)
    wait_until(lambda: not servers.serves(plan), "it still counts as served")
    servers.stop(NAME)
    assert list(volume.path.iterdir()) == []


def _listens(entry: Path, plan: Exposure) -> bool:
    try:
        return os.fsencode(plan.settings["address"]) in entry.read_bytes().split(b"\0")
    except OSError:
        return False


def test_only_the_key_admits(exposures: Exposures, volume: Volume) -> None:
    plan = exposures.expose(volume, "shared", (), key="k" * 32, more=ALONE)
    stranger = Client([parse_address(plan.settings["address"])], b"x" * 32, patience=0.2)
    with stranger, pytest.raises(OSError, match="key"):
        stranger.stat("/")
