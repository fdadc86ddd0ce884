"""The service's store is put back to an earlier copy, or is a new one: nobody loses what was made since."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.agent.agent import Agent
from forebay.act.control.agent.settings import read_agent
from support.control import AGENT_FILE, Running, running
from support.processes import wait_until

MB = 10**6
# The HTTP library leaves a socket to the collector where nobody listens.
pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir(mode=0o711)
    (tmp_path / "agent.toml").write_text(AGENT_FILE.format(folder=tmp_path))
    return tmp_path


@contextmanager
def agent(folder: Path) -> Iterator[Agent]:
    own = Agent(read_agent(folder / "agent.toml"), lambda _: None)
    own.start()
    try:
        yield own
    finally:
        own.stop(0.2)


def copied(source: Path, target: Path) -> None:
    """As SQLite's own backup does."""
    target.unlink(missing_ok=True)
    for ending in ("-wal", "-shm"):
        target.with_name(target.name + ending).unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def made(service: Running, seconds: float = 600.0) -> Path:
    """A grant with something in it; where it is."""
    grant = service.ask(MB, seconds)["id"]
    wait_until(lambda: service.grant(grant)["state"] == "ready", "it is not made")
    path = Path(service.grant(grant)["path"])
    (path / "result").write_text("precious")
    return path


def is_whole(path: Path) -> bool:
    return (path / "result").exists() and (path / "result").read_text() == "precious"


def node_of(service: Running) -> Any:
    return service.call("GET", "/v1/nodes")["nodes"][0]


def looked_again(service: Running) -> None:
    """The agent has said what it has, and heard what is to be done, once more."""
    before = node_of(service)["report"]
    wait_until(lambda: node_of(service)["report"] > before, "the agent does not look")


@pytest.fixture
def restored(folder: Path) -> Iterator[tuple[Running, Path, Path]]:
    """A service whose store is as it was before the second of two grants was made, with an agent that made both."""
    with agent(folder):
        with running(folder) as service:
            wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no node")
            known = made(service)
            copied(folder / "journal.db", folder / "copy.db")
            unknown = made(service)
        copied(folder / "copy.db", folder / "journal.db")
        with running(folder) as service:
            wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no node")
            wait_until(lambda: node_of(service)["doubted"], "nobody noticed")
            looked_again(service)
            assert is_whole(known) and is_whole(unknown)
            yield service, known, unknown


def test_what_was_made_after_the_copy_was_taken_is_kept_and_told_and_its_space_is_nobodys(
    restored: tuple[Running, Path, Path],
) -> None:
    service, known, unknown = restored
    assert node_of(service)["doubted"] and node_of(service)["disks"][0]["used"] == 2 * MB
    [stray] = service.call("GET", "/v1/strays")["strays"]
    about = {"name": unknown.name, "node": "n", "disk": "d", "size": MB, "uid": os.getuid(), "path": str(unknown)}
    assert stray.items() >= (about | {"kept": True, "why": "the journal does not know it"}).items()
    assert 0 < stray["since"] < time.time()
    assert service.call("GET", "/v1/health")["kept"] == 1
    assert any(
        line["event"] == "NodeDoubted" and "acted on another journal" in line["because"] for line in service.lines
    )
    assert service.ask(9 * MB)["state"] == "queued"
    # What its owner gives back goes as ever.
    service.call("POST", f"/v1/grants/{known.name.partition('.')[0]}/release")
    wait_until(lambda: not known.exists(), "it is still there")
    assert is_whole(unknown)


def test_an_administrator_has_it_removed_and_the_node_is_trusted_again(restored: tuple[Running, Path, Path]) -> None:
    service, known, unknown = restored
    [left] = service.call("POST", "/v1/strays/discard", {"what": "n"})["strays"]
    assert (left["why"], left["kept"]) == ("it is being removed", False)
    wait_until(lambda: not unknown.exists() and not service.call("GET", "/v1/strays")["strays"], "it is still there")
    looked_again(service)
    assert is_whole(known) and not node_of(service)["doubted"]


def test_an_administrator_makes_it_a_grant_again(restored: tuple[Running, Path, Path]) -> None:
    service, _, unknown = restored
    grant = unknown.name.partition(".")[0]
    assert service.call("POST", "/v1/strays/adopt", {"what": grant, "seconds": "24h"})["strays"] == []
    wait_until(lambda: service.grant(grant)["state"] == "ready", "it is not ready")
    found = service.grant(grant)
    assert (found["uid"], found["size"], found["path"]) == (os.getuid(), MB, str(unknown))
    assert is_whole(unknown)
    service.call("POST", f"/v1/grants/{grant}/release")
    wait_until(lambda: not unknown.exists(), "it is still there")


def test_words_that_name_nothing_that_is_kept(folder: Path) -> None:
    with running(folder) as service:
        service.hello("n")
        grant = service.ask(MB)["id"]
        assert "are kept; `forebay storage strays`" in service.error(
            "POST", "/v1/strays/discard", {"what": grant}, status=409
        )
        adopt = {"what": grant, "seconds": 60}
        assert "there is nothing to adopt" in service.error("POST", "/v1/strays/adopt", adopt, status=409)
        assert "no grant" in service.error("POST", "/v1/strays/adopt", adopt | {"what": "f" * 32}, status=404)
        assert "seconds: must be" in service.error("POST", "/v1/strays/adopt", {"what": "n", "seconds": -1})


def test_a_grant_that_may_have_been_extended_is_not_removed_when_its_time_is_over(folder: Path) -> None:
    with agent(folder):
        with running(folder) as service:
            wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no node")
            path = made(service, seconds=3.0)
            copied(folder / "journal.db", folder / "copy.db")
            grant = path.name.partition(".")[0]
            service.call("POST", f"/v1/grants/{grant}/extend", {"seconds": 3600})
            looked_again(service)
        copied(folder / "copy.db", folder / "journal.db")
        with running(folder) as service:
            wait_until(lambda: service.grant(grant)["state"] == "releasing", "its time is not over")
            looked_again(service)
            assert is_whole(path)
            assert "is kept until an administrator decides" in service.grant(grant)["marks"][0]
            [stray] = service.call("GET", "/v1/strays")["strays"]
            assert stray["name"] == path.name and "according to the journal: its time" in stray["why"]
            service.call("POST", "/v1/strays/discard", {"what": grant})
            wait_until(lambda: service.grant(grant)["state"] == "expired", "it is still there")
            assert not path.exists()


def test_a_journal_that_has_as_many_entries_again_is_still_another(folder: Path) -> None:
    with running(folder) as service:
        with agent(folder):
            wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no node")
            copied(folder / "journal.db", folder / "copy.db")
            path = made(service)
        last = service.call("GET", "/v1/health")["journal"]
    copied(folder / "copy.db", folder / "journal.db")
    with running(folder) as service:
        while service.call("GET", "/v1/health")["journal"] <= last:
            service.ask(MB)
        with agent(folder):
            wait_until(lambda: node_of(service)["doubted"], "nobody noticed")
            looked_again(service)
        assert is_whole(path)


@pytest.mark.parametrize("lost", ["journal.db", "state/journal"])
def test_a_new_store_or_an_agent_without_memory_costs_nothing(folder: Path, lost: str) -> None:
    with running(folder) as service, agent(folder):
        wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no node")
        path = made(service)
    for name in ("journal.db", lost):  # an agent without memory has nothing to tell from a store that it knows
        for file in folder.glob(f"{name}*"):
            file.unlink()
    with running(folder) as service, agent(folder):
        wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no node")
        looked_again(service)
        assert is_whole(path) and node_of(service)["doubted"]


def test_a_service_that_only_starts_again_is_trusted(folder: Path) -> None:
    with agent(folder):
        for _ in range(2):
            with running(folder, checkpoint=3) as service:
                wait_until(lambda: service.call("GET", "/v1/nodes")["nodes"], "no node")
                path = made(service)
                assert not node_of(service)["doubted"] and is_whole(path)
