"""An agent and a service, both real, in one process: what the one says the other understands."""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.agent import agent as agents
from forebay.act.control.agent.agent import Agent
from forebay.act.control.agent.settings import read_agent
from forebay.act.volumes import kinds
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.loop import Loop
from forebay.act.volumes.volume import Record
from support.control import AGENT_FILE, Running, running
from support.processes import wait_until
from support.volumes import MIB, sh, small_loop_disk

pytestmark = pytest.mark.processes


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "d").mkdir(mode=0o711)
    (tmp_path / "agent.toml").write_text(AGENT_FILE.format(folder=tmp_path))
    with running(tmp_path) as found, working(found, tmp_path):
        yield found


@contextmanager
def working(service: Running, folder: Path) -> Iterator[None]:
    """The agent, until the end."""
    agent = Agent(read_agent(folder / "agent.toml"), lambda _: None)
    agent.start()
    try:
        wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no agent came")
        yield
    finally:
        agent.stop()


def ended(service: Running, grant: str, state: str) -> Any:
    wait_until(lambda: service.grant(grant)["state"] == state, f"{grant} is not {state}")
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
    assert "exists without Forebay's mark" in found["because"]
    assert (tmp_path / "d" / f"{found['id']}.0").is_dir()


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Running]:
    """Without an agent yet; its disk is one of 100 MiB, for images."""
    (tmp_path / "agent.toml").write_text(AGENT_FILE.format(folder=tmp_path).replace("directory", "loop"))
    with small_loop_disk(tmp_path / "d"), running(tmp_path) as found:
        yield found


def slow(monkeypatch: pytest.MonkeyPatch, after: Callable[[str], None]) -> None:
    """Images are set aside only after the volume was handed over."""
    monkeypatch.setattr(kinds, "Loop", partial(Loop, at_once=0.0, piece=MIB, after=after))


@pytest.mark.filterwarnings("ignore:Exception in thread reservation:pytest.PytestUnhandledThreadExceptionWarning")
def test_space_that_an_agent_could_not_set_aside_to_the_end_is_by_the_next_one(
    images: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(step: str) -> None:
        if step.startswith("reserve"):
            raise SystemExit  # of this thread

    slow(monkeypatch, die)
    with working(images, tmp_path):
        grant = images.ask(8 * 10**6)["id"]
        path = Path(ended(images, grant, "ready")["path"])
    (path / "result").write_text("42")
    unfinished = tmp_path / "d" / ".forebay" / f"{grant}.0.unfinished"
    assert unfinished.exists()
    slow(monkeypatch, lambda _: None)
    with working(images, tmp_path):
        wait_until(lambda: not unfinished.exists(), f"{unfinished} is left")
        assert (path / "result").read_text() == "42"
        images.call("POST", f"/v1/grants/{grant}/release")
        ended(images, grant, "released")


def test_a_disk_that_others_fill_before_all_is_set_aside_fails_the_grant_and_says_why(
    images: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(step: str) -> None:
        if step.startswith("reserve"):
            sh("sh", "-c", f"cat /dev/zero > {tmp_path}/d/greedy || true")

    slow(monkeypatch, fill)
    monkeypatch.setattr(agents, "_TRIES", 1)
    with working(images, tmp_path):
        found = ended(images, images.ask(8 * 10**6)["id"], "failed")
    assert re.search("was lost: .* cannot reserve its space: no space left on device", found["because"])
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [".forebay", "greedy"]
