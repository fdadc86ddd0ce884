"""What a batch system asks before and between its jobs: how much there is, whether a request could ever be granted,
and which grants carry a key. All of it only looks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from forebay.act.control.agent.disks import FIELD as EXPOSE
from forebay.act.control.api.answers import Bytes, Count, GrantAnswer, ReasonCode
from forebay.act.control.api.commands import ask_of
from forebay.act.control.api.dependencies import ERRORS, Caller, OfService, answer
from forebay.act.control.api.documents import grant_view
from forebay.act.control.api.forms import AskForm
from forebay.act.control.service.live_state import Live
from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.machine import LiveDisk, value_of
from forebay.history.toml import Table

routes = APIRouter(prefix="/v1", tags=["tiers"], responses=ERRORS)
ANY = "any"
"""The name of all disks together, whichever tier they are of."""


class TierAnswer(Table):
    """Bytes of the disks that are open now: in all, not held by anybody, and on the disk with the most of them."""

    name: str
    disks: Count
    total: Bytes
    free: Bytes
    largest: Bytes


class TiersAnswer(Table):
    """All tiers."""

    tiers: list[TierAnswer]


class FitAnswer(Table):
    """`now`, `later` or `never`, and why it is not now."""

    answer: Literal["now", "later", "never"]
    because: str
    reason: ReasonCode


class KeyAnswer(Table):
    """Grants that carry a key."""

    grants: list[GrantAnswer]


@routes.get("/tiers", response_model=None, responses={200: {"model": TiersAnswer}})
async def tiers(service: OfService, _: Caller) -> JSONResponse:
    """Tiers as plain requests find them: those of all disks whose volumes are mounted on their nodes, `any` first."""
    return answer({"tiers": tiers_view(await service.writer.now(), service.clock())})


def tiers_view(live: Live, now: float) -> list[dict[str, Any]]:
    """A tier without an open disk is there, with nothing in it: it may come back."""
    tables = live.control.tables
    found: dict[str, dict[str, Any]] = {ANY: _tier(ANY)}
    mounted = "none" if any(EXPOSE in disk.said.fields for disk in tables.disks.values()) else None
    for key, disk in tables.disks.items():
        node = tables.nodes[disk.node]
        if value_of(disk, node, EXPOSE) == mounted:
            free = max(0, tables.space.free(key, now, now)) if _is_open(live, disk) else -1
            for name in dict.fromkeys((ANY, value_of(disk, node, "tier") or ANY)):
                _add(found.setdefault(name, _tier(name)), disk.said.capacity, free)
    return list(found.values())


def _tier(name: str) -> dict[str, Any]:
    return {"name": name, "disks": 0, "total": 0, "free": 0, "largest": 0}


def _is_open(live: Live, disk: LiveDisk) -> bool:
    node = live.control.tables.nodes[disk.node]
    return disk.there and not (disk.drained or node.drained or node.silent)


def _add(tier: dict[str, Any], capacity: int, free: int) -> None:
    if free >= 0:
        tier["disks"] += 1
        tier["total"] += capacity
        tier["free"] += free
        tier["largest"] = max(tier["largest"], free)


@routes.get("/fit", response_model=None, responses={200: {"model": FitAnswer}})
async def fit(
    service: OfService,
    who: Caller,
    size: Annotated[str, Query(max_length=100, description="Bytes, or text with a unit.")],
    tier: Annotated[str, Query(max_length=200)] = "",
    seconds: Annotated[str, Query(max_length=100)] = "1h",
) -> JSONResponse:
    """What a request would be told now. Nothing is asked for, and nothing is held."""
    live, now = await service.writer.now(), service.clock()
    own = {} if who.uid >= 0 else {"uid": 0, "gid": 0}  # a token of nobody's may look, too
    form = AskForm(size=size, seconds=seconds, tier=tier, **own)  # type: ignore[arg-type]
    wish = ask_of(form, who, live.control, now)
    for event in live.control.handle(co.Request(caller=who.caller, ask=wish), now):
        if isinstance(event, ev.TurnedDown | ev.Queued) and event.grant == wish.grant:
            when = "never" if isinstance(event, ev.TurnedDown) else "later"
            return answer({"answer": when, "because": event.because, "reason": event.reason})
    return answer({"answer": "now", "because": "", "reason": ""})


@routes.get("/keys/{key}", response_model=None, responses={200: {"model": KeyAnswer}})
async def by_key(service: OfService, who: Caller, key: Annotated[str, Path(max_length=200)]) -> JSONResponse:
    """Grants that carry this key, or this key and a dot and a number, as asked for; users see their own."""
    live = await service.writer.now()
    control = live.control
    # Whose key it is, a batch system does not always know. That it is part of another is seen ten times as fast.
    near = [(own.partition(":")[2], name) for own, name in control.tables.keys.items() if key in own]
    found = [control.grant(name) for own, name in near if _is_of(own, key)]
    seen = [grant for grant in found if who.role == "administrator" or who.uid == grant.ask.uid]
    return answer({"grants": [grant_view(live, grant) for grant in sorted(seen, key=lambda grant: grant.order)]})


def _is_of(own: str, key: str) -> bool:
    """
    >>> [_is_of(own, "slurm-a-7") for own in ("slurm-a-7", "slurm-a-7.2", "slurm-a-70", "slurm-a-7.x")]
    [True, True, False, False]
    """
    return own.startswith(key) and (own == key or (own[len(key)] == "." and own[len(key) + 1 :].isdecimal()))
