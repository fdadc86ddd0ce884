"""What a batch system asks around its jobs: free space, whether a request fits, and which grants carry a key."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from forebay.act.control.agent.disks import FIELD as EXPOSE
from forebay.act.control.api.commands import ask_of
from forebay.act.control.api.dependencies import Caller, OfService, answer
from forebay.act.control.api.description import ERRORS, returns
from forebay.act.control.api.forms import AskForm
from forebay.act.control.documents import FitDocument, KeyDocument, TierDocument, TierList
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.views import grant_document
from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.machine import field_value

routes = APIRouter(prefix="/v1", tags=["tiers"], responses=ERRORS)
ANY = "any"
"""The name of all disks together, whatever their tier."""
_Key = Annotated[str, Path(max_length=200, description="The key that the request was sent with.")]


@routes.get("/tiers", **returns(TierList))
async def tiers(service: OfService, _: Caller) -> JSONResponse:
    """The tiers of all disks whose volumes are mounted on their nodes, `any` first."""
    return answer(TierList(tiers=tier_documents(await service.writer.now(), service.clock())))


def tier_documents(live: Live, now: float) -> list[TierDocument]:
    """A tier whose disks are all closed is listed with nothing in it: it may come back."""
    tables = live.control.tables
    tiers: dict[str, TierDocument] = {}
    mounted = "none" if any(EXPOSE in disk.spec.fields for disk in tables.disks.values()) else None
    _tier(tiers, ANY)
    for key, disk in tables.disks.items():
        node = tables.nodes[disk.node]
        if field_value(disk, node, EXPOSE) != mounted:
            continue
        is_open = disk.there and not (disk.drained or node.drained or node.silent)
        for name in dict.fromkeys((ANY, field_value(disk, node, "tier") or ANY)):
            tier = _tier(tiers, name)
            if is_open:
                free = max(0, tables.space.free(key, now, now))
                tier["disks"] += 1
                tier["total"] += disk.spec.capacity
                tier["free"] += free
                tier["largest"] = max(tier["largest"], free)
    return list(tiers.values())


def _tier(tiers: dict[str, TierDocument], name: str) -> TierDocument:
    return tiers.setdefault(name, TierDocument(name=name, disks=0, total=0, free=0, largest=0))


@routes.get("/fit", **returns(FitDocument))
async def fit(
    service: OfService,
    who: Caller,
    size: Annotated[str, Query(max_length=100, description="Bytes, or text with a unit.")],
    tier: Annotated[str, Query(max_length=200, description="The kind of disks. Default: any.")] = "",
    seconds: Annotated[str, Query(max_length=100, description="For how long.")] = "1h",
) -> JSONResponse:
    """How the service would decide a request. Nothing is requested or reserved."""
    live, now = await service.writer.now(), service.clock()
    owner = {} if who.uid >= 0 else {"uid": 0, "gid": 0}  # a token that belongs to no user may look, too
    form = AskForm(size=size, seconds=seconds, tier=tier, **owner)  # type: ignore[arg-type]
    ask = ask_of(form, who, live.control, now)
    for event in live.control.handle(co.Request(caller=who.caller, ask=ask), now):
        if isinstance(event, ev.TurnedDown | ev.Queued) and event.grant == ask.grant:
            when: Literal["never", "later"] = "never" if isinstance(event, ev.TurnedDown) else "later"
            return answer(FitDocument(answer=when, because=event.because, reason=event.reason))
    return answer(FitDocument(answer="now", because="", reason=""))


@routes.get("/keys/{key}", **returns(KeyDocument))
async def by_key(service: OfService, who: Caller, key: _Key) -> JSONResponse:
    """Grants with this key, or with this key, a dot and a number, in order. Users see their own."""
    live = await service.writer.now()
    control = live.control
    # A batch system does not always know whose key it is. To test for the substring first is ten times as fast.
    near = [(text.partition(":")[2], name) for text, name in control.tables.keys.items() if key in text]
    grants = [control.grant(name) for text, name in near if _belongs_to(text, key)]
    seen = [grant for grant in grants if who.is_administrator or who.uid == grant.ask.uid]
    seen.sort(key=lambda grant: grant.order)
    return answer(KeyDocument(grants=[grant_document(live, grant) for grant in seen]))


def _belongs_to(text: str, key: str) -> bool:
    """
    >>> [_belongs_to(text, "slurm-a-7") for text in ("slurm-a-7", "slurm-a-7.2", "slurm-a-70", "slurm-a-7.x")]
    [True, True, False, False]
    """
    return text.startswith(key) and (text == key or (text[len(key)] == "." and text[len(key) + 1 :].isdecimal()))
