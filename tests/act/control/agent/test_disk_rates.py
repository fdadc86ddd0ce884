"""Bandwidth in use: counted by the kernel, told by agents, shown for a while."""

import os
import threading
from pathlib import Path

import pytest

from forebay.act.control.agent.disk import AgentDisk
from forebay.act.control.agent.disk_rates import RateReporter, count_bytes, differ, rates
from forebay.act.control.page.updates import Rates
from forebay.act.volumes.kinds import open_volumes
from forebay.model.errors import UserError
from support.control import running


def disk(root: Path, name: str = "d") -> AgentDisk:
    return AgentDisk(
        name=name,
        volumes=open_volumes("directory", root, local=True),
        read_bandwidth=1.0,
        write_bandwidth=1.0,
        root=root,
    )


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """As the kernel shows block devices, with the one that this folder is on."""
    device = tmp_path.stat().st_dev
    folder = tmp_path / "block" / f"{os.major(device)}:{os.minor(device)}"
    folder.mkdir(parents=True)
    (folder / "stat").write_text("  10  0  4  0  20  0  6  0  0  0  0\n")
    return tmp_path / "block"


def test_sectors_of_the_device_under_a_disk_are_counted_as_bytes(tmp_path: Path, blocks: Path) -> None:
    (tmp_path / "root").mkdir()
    assert count_bytes([disk(tmp_path / "root")], blocks) == {"d": (6 * 512, 4 * 512)}
    shared = [disk(tmp_path / "root"), disk(tmp_path / "root", "e")]
    assert count_bytes(shared, blocks) == {"d": (3 * 512, 2 * 512), "e": (3 * 512, 2 * 512)}


def test_a_disk_that_can_not_be_counted_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    assert count_bytes([disk(tmp_path / "root")], tmp_path / "nowhere") == {}


def test_a_count_that_began_anew_says_nothing() -> None:
    assert rates({"a": (100, 100), "b": (0, 0)}, {"a": (50, 200), "b": (300, 0), "c": (9, 9)}, 3.0) == {
        "b": (100.0, 0.0)
    }


def test_small_changes_are_not_told() -> None:
    assert not differ({"d": (100.0, 0.0)}, {"d": (103.0, 0.0)}) and not differ({}, {})
    assert differ({"d": (100.0, 0.0)}, {"d": (110.0, 0.0)}) and differ({"d": (0.0, 0.0)}, {"d": (0.0, 1.0)})
    assert differ({}, {"d": (0.0, 0.0)})


def test_it_tells_in_the_background_and_a_service_that_is_away_does_not_end_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, enough = [], threading.Event()
    bytes_so_far = iter(range(0, 10**9, 1000))
    monkeypatch.setattr("forebay.act.control.agent.disk_rates.count_bytes", lambda _: {"d": (next(bytes_so_far), 0)})

    def tell(found: dict[str, tuple[float, float]]) -> None:
        told.append(found)
        if len(told) >= 3:
            enough.set()
        raise UserError("the service is away")

    teller = RateReporter({"d": disk(tmp_path)}, tell, every=0.001)
    teller.start()
    assert enough.wait(60)
    teller.stop()
    assert all(write > 0 and read == 0 for found in told for write, read in found.values())


def test_what_was_told_is_forgotten_unless_it_is_told_again() -> None:
    now = [0.0]
    known = Rates(clock=lambda: now[0])
    known.update("a", {"a/x": (1.4, 2.0)})
    now[0] = 100.0
    known.update("b", {"b/y": (3.0, 0.0)})
    assert known.now() == {"a/x": (1, 2), "b/y": (3, 0)} and known.version == 2
    now[0] = 121.0
    assert known.now() == {"b/y": (3, 0)}


def test_only_a_nodes_own_agent_tells_and_only_of_disks_that_there_are(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.hello("n", "d")
        told = [{"disk": "d", "write": 5, "read": 7}, {"disk": "other", "write": 1, "read": 1}]
        own, other = service.token("n", "agent", node="n"), service.token("m", "agent", node="m")
        service.call("POST", "/v1/nodes/n/rates", told, token=own)
        assert "only the agent of node 'n'" in service.error("POST", "/v1/nodes/n/rates", told, token=other, status=403)
        assert service.call("GET", "/v1/page")["rates"] == {"n/d": [5, 7]}
        service.error("POST", "/v1/nodes/n/rates", [{"disk": "d", "write": -1, "read": 0}], token=own)
