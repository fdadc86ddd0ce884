"""What a batch system asks the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.control.api.nodes import tier_documents
from forebay.act.control.service.live_state import Live
from forebay.decide.grants import commands as co
from forebay.decide.grants.control import Control
from forebay.decide.grants.machine import DiskSpec
from support.control import GB, Running, running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as found:
        yield found


def disk(name: str, capacity: int = 100 * GB, **fields: str) -> dict[str, Any]:
    return {"name": name, "capacity": capacity, "read_bandwidth": 1e9, "write_bandwidth": 1e9, "fields": fields}


def hello(service: Running, node: str, *disks: dict[str, Any]) -> None:
    service.call("POST", f"/v1/nodes/{node}/hello", {"disks": disks, "volumes": [], "number": 1})


def tiers(service: Running) -> dict[str, tuple[int, ...]]:
    found = service.call("GET", "/v1/tiers")["tiers"]
    assert found[0]["name"] == "any"
    return {row["name"]: (row["disks"], row["total"] // GB, row["free"] // GB, row["largest"] // GB) for row in found}


def test_tiers_tell_what_is_there_and_what_is_free(service: Running) -> None:
    assert tiers(service) == {"any": (0, 0, 0, 0)}
    hello(service, "a", disk("d", tier="fast", expose="none"), disk("e", 50 * GB, tier="slow", expose="none"))
    hello(service, "b", disk("d", 70 * GB, expose="none"), disk("n", tier="fast", expose="nbd"))
    service.ask(30 * GB, tier="fast")
    assert tiers(service) == {"any": (3, 220, 190, 70), "fast": (1, 100, 70, 70), "slow": (1, 50, 50, 50)}


def test_a_drained_disk_is_not_counted_but_its_tier_stays(service: Running) -> None:
    hello(service, "a", disk("d", tier="fast"), disk("e", tier="slow"))
    service.call("POST", "/v1/nodes/a/drain", {"disk": "e"})
    assert tiers(service) == {"any": (1, 100, 100, 100), "fast": (1, 100, 100, 100), "slow": (0, 0, 0, 0)}


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["a", "b", ""]), st.booleans()), max_size=8))
def test_tiers_are_the_sums_of_their_open_disks(disks: list[tuple[int, str, bool]]) -> None:
    control = Control()

    def do(command: co.Command) -> None:
        for event in control.handle(command, 1.0):
            control.apply(event)

    said = [
        DiskSpec(
            name=f"d{at}",
            capacity=size * GB,
            write_bandwidth=1e9,
            read_bandwidth=1e9,
            fields={"tier": tier} if tier else {},
        )
        for at, (size, tier, _) in enumerate(disks)
    ]
    agent = co.Caller(role="agent", node="n")
    do(co.Register(caller=agent, node="n", network_bandwidth=1e9, disks=tuple(said), volumes=(), number=1))
    for at, (_, _, drained) in enumerate(disks):
        if drained:
            do(co.Drain(caller=co.SERVICE, what=f"n/d{at}"))
    for row in tier_documents(Live(control), 2.0):
        own = [s * GB for s, tier, drained in disks if not drained and row["name"] in ("any", tier)]
        assert (row["disks"], row["total"], row["free"]) == (len(own), sum(own), sum(own))
        assert row["largest"] == max(own, default=0)


def test_whether_a_request_fits_is_told_with_the_reason_and_nothing_is_asked_for(service: Running) -> None:
    hello(service, "a", disk("d", tier="fast"))
    assert service.call("GET", "/v1/fit?size=60GB") == {"answer": "now", "because": "", "reason": ""}
    service.ask(60 * GB)
    before = service.call("GET", "/v1/health")["journal"]
    assert service.call("GET", "/v1/fit?size=30GB")["answer"] == "now"
    later = service.call("GET", "/v1/fit?size=60GB")
    assert later["answer"] == "later" and later["because"].startswith("no room for 60.00 GB")
    assert later["reason"] == "no-room"
    never = service.call("GET", "/v1/fit?size=101GB&tier=fast")
    because = "the largest disk has 100.00 GB, less than 101.00 GB"
    assert never == {"answer": "never", "because": because, "reason": "too-large"}
    assert service.call("GET", "/v1/fit?size=1GB&tier=slow")["answer"] == "never"
    assert service.call("GET", "/v1/health")["journal"] == before
    assert len(service.call("GET", "/v1/grants")["grants"]) == 1


@pytest.mark.parametrize("words", ["size=0", "size=-1GB", "size=much", "size=1GB&seconds=0", "size=1GB&seconds=99999d"])
def test_what_makes_no_sense_is_refused(service: Running, words: str) -> None:
    assert service.error("GET", f"/v1/fit?{words}").partition(":")[0] in ("size", "seconds")


def test_grants_are_found_by_their_key_in_the_order_of_asking(service: Running) -> None:
    hello(service, "a", disk("d"))
    names = [service.ask(GB, key=key, uid=uid, gid=uid)["id"] for key, uid in
             (("k", 7), ("k.2", 7), ("k2", 7), ("k", 8), ("k.x", 7))]  # fmt: skip
    found = service.call("GET", "/v1/keys/k")["grants"]
    assert [grant["id"] for grant in found] == [names[0], names[1], names[3]]
    assert service.call("GET", "/v1/keys/none") == {"grants": []}


def test_users_find_only_their_own_grants_by_key(service: Running) -> None:
    hello(service, "a", disk("d"))
    token = service.token("seven", "user", uid=7, gid=7)
    own = service.ask(GB, key="k", uid=7, gid=7)["id"]
    service.ask(GB, key="k", uid=8, gid=8)
    assert [grant["id"] for grant in service.call("GET", "/v1/keys/k", token=token)["grants"]] == [own]
    assert service.call("GET", "/v1/fit?size=1GB", token=token)["answer"] == "now"


def test_an_administrators_token_may_ask_what_fits(service: Running) -> None:
    hello(service, "a", disk("d"))
    token = service.token("boss", "administrator")
    assert service.call("GET", "/v1/fit?size=1GB", token=token)["answer"] == "now"
