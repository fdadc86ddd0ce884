"""Volumes that nobody owns, or whose time may not be over: kept where a node's agent knows another journal."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from forebay.act.control.api.answers import StraysAnswer
from forebay.act.control.api.dependencies import ERRORS, Administrator, OfService, answer
from forebay.act.control.api.documents import Document
from forebay.act.control.api.forms import AdoptForm, DiscardForm, seconds_of
from forebay.act.control.auth.callers import user_name
from forebay.act.control.service.live_state import Live
from forebay.decide.grants import commands as co
from forebay.model.grant import node_of

routes = APIRouter(prefix="/v1/strays", tags=["strays"], responses=ERRORS)


@routes.get("", response_model=None, responses={200: {"model": StraysAnswer}})
async def strays(service: OfService, _: Administrator) -> JSONResponse:
    """All that is on disks and belongs to no grant that lives; `kept` is what an administrator has to decide about."""
    return answer({"strays": list(_strays(await service.writer.now()))})


@routes.post("/discard", response_model=None, responses={200: {"model": StraysAnswer}})
async def discard(service: OfService, who: Administrator, form: DiscardForm) -> JSONResponse:
    """What is kept of a grant, or all that is kept on a node, may be removed; what is left."""
    await service.do(co.Discard(caller=who.caller, what=form.what))
    return answer({"strays": list(_strays(service.state()))})


@routes.post("/adopt", response_model=None, responses={200: {"model": StraysAnswer}})
async def adopt(service: OfService, who: Administrator, form: AdoptForm) -> JSONResponse:
    """What is kept of a grant, or on a node, is its owner's grant again, from now on for so long; what is left."""
    seconds = seconds_of("seconds", form.seconds)
    await service.do(co.Adopt(caller=who.caller, what=form.what, seconds=seconds))
    return answer({"strays": list(_strays(service.state()))})


def _strays(live: Live) -> Iterator[Document]:
    tables = live.control.tables
    for _, stray in sorted(tables.strays.items()):
        removing = f"it can't be removed: {stray.because}" if stray.because else "it is being removed"
        why = "the journal does not know it" if stray.held else removing
        yield _view(stray.name, stray.disk, stray.size, stray.uid, stray.since, stray.path, why, stray.held)
    for volume in tables.kept_volumes():
        grant = tables.grants[volume.grant]
        why = f"as far as the journal knows, {grant.because}"
        yield _view(volume.name, volume.disk, volume.size, grant.ask.uid, grant.start, volume.path, why, True)


def _view(
    name: str, place: str, size: int, uid: int, since: float, path: str, why: str, kept: bool
) -> Document:  # fmt: skip
    node = node_of(place)
    return {
        "name": name,
        "grant": name.partition(".")[0],
        "node": node,
        "disk": place[len(node) + 1 :],
        "size": size,
        "uid": uid,
        "user": user_name(uid) if uid >= 0 else "",
        "since": since,
        "path": path,
        "why": why,
        "kept": kept,
    }
