"""An agent and a service, both real, in one process: what the one says the other understands."""

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.agent import Agent
from forebay.act.control.agent_file import read_agent
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.record import Record
from support.control import AGENT_FILE, Running, running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "d").mkdir(mode=0o711)
    (tmp_path / "agent.toml").write_text(AGENT_FILE.format(folder=tmp_path))
    with running(tmp_path) as found:
        agent = Agent(read_agent(tmp_path / "agent.toml"), lambda _: None)
        agent.start()
        eventually(lambda: found.call("GET", "/v1/nodes")["nodes"])
        yield found
        agent.stop()


def eventually(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def ended(service: Running, grant: str, state: str) -> Any:
    eventually(lambda: service.grant(grant)["state"] == state)
    return service.grant(grant)


def test_space_comes_and_goes(service: Running, tmp_path: Path) -> None:
    grant = service.ask(10**6)["id"]
    assert Path(ended(service, grant, "ready")["path"]).parent == tmp_path / "d"
    service.call("POST", f"/v1/grants/{grant}/release")
    ended(service, grant, "released")
    assert [path.name for path in (tmp_path / "d").iterdir()] == [".forebay"]


def test_a_disk_that_is_full_fails_the_grant_and_says_why(service: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Directory, record: Record) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", record.name)

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "_create", full)
        found = ended(service, service.ask(10**6)["id"], "failed")
    assert "no space left on device" in found["because"]
    assert ended(service, service.ask(10**6)["id"], "ready")["because"]


def test_a_folder_in_the_way_is_not_touched_and_told(
    service: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Directory._check_vacant

    def in_the_way(own: Directory, record: Record) -> None:
        own.path(record.name).mkdir()
        begin(own, record)

    monkeypatch.setattr(Directory, "_check_vacant", in_the_way)
    found = ended(service, service.ask(10**6)["id"], "failed")
    assert "does not carry Forebay's mark" in found["because"]
    assert (tmp_path / "d" / f"{found['id']}.0").is_dir()
