"""Volumes that no grant owns, and volumes that are kept because their agent knows another journal."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from forebay.act.control.api.dependencies import Administrator, OfService, answer
from forebay.act.control.api.description import ERRORS, returns
from forebay.act.control.api.forms import AdoptForm, DiscardForm, seconds_of
from forebay.act.control.auth.callers import user_name
from forebay.act.control.documents import StrayDocument, StrayList
from forebay.act.control.service.live_state import Live
from forebay.decide.grants import commands as co
from forebay.model.grant import node_of

routes = APIRouter(prefix="/v1/strays", tags=["strays"], responses=ERRORS)


@routes.get("", **returns(StrayList))
async def list_strays(service: OfService, _: Administrator) -> JSONResponse:
    """All volumes that belong to no live grant. An administrator has to decide about those that are `kept`."""
    return _answer(await service.writer.now())


@routes.post("/discard", **returns(StrayList))
async def discard(service: OfService, who: Administrator, form: DiscardForm) -> JSONResponse:
    """Let the kept volumes of a grant or a node be removed; answers with the strays that are left."""
    await service.do(co.Discard(caller=who.caller, what=form.what))
    return _answer(service.state())


@routes.post("/adopt", **returns(StrayList))
async def adopt(service: OfService, who: Administrator, form: AdoptForm) -> JSONResponse:
    """Make the kept volumes of a grant or a node their owner's grant again; answers with the strays that are left."""
    seconds = seconds_of("seconds", form.seconds)
    await service.do(co.Adopt(caller=who.caller, what=form.what, seconds=seconds))
    return _answer(service.state())


def _answer(live: Live) -> JSONResponse:
    return answer(StrayList(strays=list(_strays(live))))


def _strays(live: Live) -> Iterator[StrayDocument]:
    tables = live.control.tables
    for _, stray in sorted(tables.strays.items()):
        removing = f"it cannot be removed: {stray.because}" if stray.because else "it is being removed"
        why = "the journal does not know it" if stray.held else removing
        yield _document(stray.name, stray.disk, stray.size, stray.uid, stray.since, stray.path, why, stray.held)
    for volume in tables.kept_volumes():
        grant = tables.grants[volume.grant]
        why = f"as far as the journal knows, {grant.because}"
        yield _document(volume.name, volume.disk, volume.size, grant.ask.uid, grant.start, volume.path, why, True)


def _document(
    name: str, place: str, size: int, uid: int, since: float, path: str, why: str, kept: bool
) -> StrayDocument:
    return {
        "name": name,
        "grant": name.partition(".")[0],
        "node": node_of(place),
        "disk": place[len(node_of(place)) + 1 :],
        "size": size,
        "uid": uid,
        "user": user_name(uid) if uid >= 0 else "",
        "since": since,
        "path": path,
        "why": why,
        "kept": kept,
    }
