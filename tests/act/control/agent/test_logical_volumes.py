"""An agent with logical volumes, in a virtual machine; its service runs on the machine outside (tests/system)."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.processes import wait_until
from support.volumes import IN_THE_VM, ONLY_IN_THE_VM, connected, make_volume_group, mounted, sh

if not IN_THE_VM:
    pytest.skip(ONLY_IN_THE_VM, allow_module_level=True)

from forebay.act.control.agent.agent import Agent
from forebay.act.control.agent.settings import read_agent
from forebay.act.control.client import Client, parse_service
from forebay.act.control.documents import GrantDocument
from forebay.act.volumes.mounts import list_mounts
from forebay.act.volumes.nvme import CONFIGFS

FILES = Path(os.environ.get("FOREBAY_TEST_FILES", "."))
SERVICE = os.environ.get("FOREBAY_TEST_SERVICE", "")
USER, SIZE = 1000, 16 << 20
NQN = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000b"
AGENT = """
[agent]
node = "vm"
service = "{service}"
token = "{files}/agent"
authority = "{files}/service.pem"
folder = "state"
heartbeat = "1 s"
{disks}
"""
DISK = """
[[disk]]
name = "{kind}"
kind = "{kind}"
root = "{kind}"
group = "{group}"
read_bandwidth = "1 GB/s"
write_bandwidth = "1 GB/s"
"""


def second_group() -> None:
    Path("/run/others").touch()
    os.truncate("/run/others", 64 << 20)
    sh("vgcreate", "others", sh("losetup", "--find", "--show", "/run/others").strip())


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    make_volume_group()
    second_group()
    groups = {"lvm": "testers", "nvmet": "others"}
    for kind in groups:
        (tmp_path / kind).mkdir(mode=0o711)
    disks = "".join(DISK.format(kind=kind, group=group) for kind, group in groups.items())
    file = tmp_path / "agent.toml"
    file.write_text(AGENT.format(service=SERVICE, files=FILES, disks=disks))
    own = Agent(read_agent(file), print)
    own.start()
    yield own
    own.stop()


def left() -> list[str]:
    """Everything on the machine that came with volumes."""
    volumes = sh("lvs", "--noheadings", "-o", "lv_name").split()
    exposed = [str(path) for kind in ("subsystems", "hosts", "ports") for path in (CONFIGFS / kind).iterdir()]
    return volumes + exposed + [str(mount.point) for mount in list_mounts() if "/dev/mapper" in str(mount)]


def test_space_is_asked_for_used_and_given_back(agent: Agent, tmp_path: Path) -> None:
    assert agent is not None
    with Client(parse_service(SERVICE), token=FILES / "user", authority=FILES / "service.pem") as client:
        wait_until(lambda: any(node["disks"] for node in client.nodes()), "no node has a disk")
        plain = client.request(SIZE, 600, fields={"kind": "lvm"})
        far = client.request(SIZE, 600, fields={"kind": "nvmet"}, expose="nvmet", hosts=[NQN])
        ready = [wait_until(partial(_ready, client, one["id"]), "it is not ready") for one in (plain, far)]
        path = Path(ready[0]["path"])
        found = path.stat()
        assert (path.parent, found.st_uid, found.st_mode & 0o777) == (tmp_path / "lvm", USER, 0o700)
        assert os.statvfs(path).f_bavail * os.statvfs(path).f_frsize >= SIZE
        assert ready[1]["path"] == ""
        with connected(ready[1]["volumes"][0]["settings"], NQN) as device, mounted(device) as top:
            assert top.stat().st_uid == USER
            (top / "result").write_text("42")
        for one in (plain, far):
            client.mark_used(one["id"])
            client.release(one["id"])
        for one in (plain, far):
            wait_until(partial(_is_released, client, one["id"]), "it is not released")
    assert left() == []


def _ready(client: Client, grant: str) -> GrantDocument | None:
    found = client.grant(grant)
    assert found["state"] in ("granted", "making", "ready"), found
    return found if found["state"] == "ready" else None


def _is_released(client: Client, grant: str) -> bool:
    return client.grant(grant)["state"] == "released"
