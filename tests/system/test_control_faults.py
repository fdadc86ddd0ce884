"""Kill -9 of the service and of agents in the middle of everything: nothing is lost, doubled or left behind."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from forebay.act.control.client import Client, TurnedAway
from forebay.act.control.documents import GrantDocument
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.control import Control
from forebay.model.grant import ENDED
from support.control_processes import MB, Process, System, control_system
from support.grants import fold, used_bytes
from support.processes import PATIENCE, wait_until

KIND = "loop" if os.geteuid() == 0 else "directory"
ENDS = {state.value for state in ENDED}
# The HTTP library leaves a socket to the collector where nobody listens.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def system() -> Iterator[System]:
    with control_system() as made:
        yield made


def journal(system: System) -> Control:
    """What the journal, read from the store, leads to."""
    with sqlite3.connect(system.folder / "db") as store:
        lines = [row[0] for row in store.execute("SELECT line FROM journal ORDER BY number")]
    return fold(from_line(line) for line in lines)


def check(system: System, most: int) -> None:
    """No disk over its capacity, and on the disks what the journal says there is: one that waited may just be made."""
    assert all(used <= most for used in used_bytes(journal(system)).values())
    wait_until(lambda: agrees(system), "the disks and the journal don't agree")


def agrees(system: System) -> bool:
    tables = journal(system).tables
    told = sorted(name for name, volume in tables.volumes.items() if volume.state in ("made", "making"))
    return sorted(made.name for made in system.on_disks()) == told and not tables.strays


def busy(client: Client, chance: random.Random, mine: list[str], over: threading.Event) -> None:
    """Ask, extend and give back at random, whoever is being killed meanwhile."""
    while not over.wait(0.05):
        grant = client.request(chance.randint(5, 60) * MB, chance.choice(["1s", "1h"]))
        mine.append(grant["id"])
        chosen = chance.choice(mine)
        if chance.random() < 0.5:
            client.release(chosen)
        elif chance.random() < 0.3:
            try:
                client.extend(chosen, 3600.0)
            except TurnedAway as error:
                assert error.code.status in (404, 409), error


@pytest.mark.parametrize("seed", range(3))
def test_random_kills_leave_nothing_lost_doubled_or_behind(system: System, seed: int) -> None:
    chance = random.Random(seed)
    system.add_agent("n1", KIND, KIND)
    system.add_agent("n2", KIND)
    system.start()
    over = threading.Event()
    mine: list[list[str]] = [[], []]
    troubles: list[BaseException] = []
    with system.client() as client:
        work = [partial(busy, client, random.Random(chance.random()), own, over) for own in mine]
        threads = [threading.Thread(target=_noted(troubles, each)) for each in work]
        for thread in threads:
            thread.start()
        for _ in range(4):
            process: Process = chance.choice([system.service, *system.agents.values()])
            over.wait(chance.uniform(0.1, 1.0))
            process.kill()
            process.start()
        over.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert not troubles, troubles
        grants = [grant for own in mine for grant in own]
        assert len(set(grants)) == len(grants) > 4
        system.registered()
        settle(client)
        check(system, 100 * MB)
        for grant in grants:
            client.release(grant)
        wait_until(lambda: all(grant["state"] in ENDS for grant in client.grants()), "some did not end")
        assert {grant["id"] for grant in client.grants()} == set(grants)
    assert system.on_disks() == []
    check(system, 100 * MB)


def _noted(troubles: list[BaseException], work: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            work()
        except BaseException as error:
            troubles.append(error)

    return run


def settle(client: Client) -> None:
    """Until nothing is being made or removed."""
    wait_until(
        lambda: not any(grant["state"] in ("making", "releasing") for grant in client.grants()), "there is still work"
    )


def test_a_request_that_the_service_dies_over_is_granted_once(system: System) -> None:
    """The client asks again with its key, whatever became of the first time."""
    system.add_agent("n1", "directory")
    system.start()
    with system.client() as client:
        done: list[GrantDocument] = []
        threads = [threading.Thread(target=lambda: done.append(client.request(10 * MB, "1h"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        system.service.kill()
        system.service.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(done) == 4 == len(list(client.grants()))
        settle(client)
    assert len(system.on_disks()) == 4


def test_what_was_asked_while_the_agent_was_dead_is_done_when_it_is_back(system: System) -> None:
    agent = system.add_agent("n1", KIND)
    system.start()
    with system.client() as client:
        *_, kept = client.follow(client.request(20 * MB, "1h"))
        agent.kill()
        client.release(kept["id"])
        asked = client.request(20 * MB, "1h")
        assert client.grant(kept["id"])["state"] == "releasing"
        agent.start()
        *_, made = client.follow(asked)
        wait_until(lambda: client.grant(kept["id"])["state"] == "released", "it is not released")
        assert made["state"] == "ready"
    assert [volume.name for volume in system.on_disks()] == [f"{asked['id']}.0"]


def test_a_new_service_with_an_empty_journal_keeps_what_it_does_not_know_until_it_is_told(system: System) -> None:
    agent = system.add_agent("n1", KIND)
    system.start()
    with system.client() as client:
        *_, made = client.follow(client.request(20 * MB, "1h"))
    (precious := system.folder / "n1-d0" / "precious").mkdir()
    agent.kill()
    system.service.kill()
    for file in system.folder.glob("db*"):
        file.unlink()
    system.service.start()
    agent.start()
    with system.client() as client:
        wait_until(lambda: [stray["kept"] for stray in client.strays()] == [True], "it is not kept")
        assert [volume.name for volume in system.on_disks()] == [f"{made['id']}.0"]
        client.discard("n1")
    wait_until(lambda: system.on_disks() == [], "something is left")
    assert precious.is_dir()
