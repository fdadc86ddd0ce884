"""Grants: request, list, show, wait, release, extend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from forebay.act.control.api.commands import ask_of
from forebay.act.control.api.dependencies import (
    Caller,
    GrantName,
    Limit,
    Maybe,
    OfService,
    Wait,
    answer,
    answer_encoded,
    encode,
)
from forebay.act.control.api.description import ERRORS, returns
from forebay.act.control.api.forms import AskForm, ExtendForm, ReleaseForm, seconds_of
from forebay.act.control.auth.callers import Who
from forebay.act.control.documents import GrantDocument, GrantList, StoryDocument
from forebay.act.control.service.grant_story import story_of
from forebay.act.control.service.live_state import EventRecord, Live
from forebay.act.control.service.service import Service
from forebay.act.control.service.views import grant_document
from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import ENDED, Ask, Grant, NotAllowed, State

_AT_ONCE = 50  # grants that are encoded before others get their turn: about two milliseconds

routes = APIRouter(prefix="/v1/grants", tags=["grants"], responses=ERRORS)


@routes.post("", status_code=201, **returns(GrantDocument, 200, 201))
async def request_grant(service: OfService, who: Caller, form: AskForm) -> JSONResponse:
    """Request space. A known key makes it the same request. A refusal is a grant in state `refused`."""
    ask, records = await _request(service, who, form)
    live = service.state()
    grant = live.control.by_key(ask.uid, ask.key)
    assert grant is not None
    is_new = any(isinstance(r.event, ev.Asked) and r.event.ask.grant == grant.id for r in records)
    return answer(service.keys.add_keys(grant_document(live, grant)), 201 if is_new else 200)


async def _request(service: Service, who: Who, form: AskForm) -> tuple[Ask, list[EventRecord]]:
    """The request and what came of it.

    If it arrives twice at the same time, neither knows the other when it is read. The second is then read again,
    because a start relative to now must mean what it meant for the first.
    """
    live = service.writer.latest or await service.writer.now()
    ask = ask_of(form, who, live.control, service.clock())
    try:
        return ask, await service.do(co.Request(caller=who.caller, ask=ask))
    except Refused:
        again = ask_of(form, who, (await service.writer.now()).control, service.clock())
        if again.is_again(ask):
            raise
    return again, await service.do(co.Request(caller=who.caller, ask=again))


@routes.get("", **returns(GrantList))
async def list_grants(
    service: OfService,
    who: Caller,
    state: Annotated[
        Literal[tuple(s.value for s in State)] | None,  # type: ignore[valid-type]
        Query(description="Only grants in this state."),
    ] = None,
    owner: Annotated[str, Query(max_length=200, description="A uid, or a user's name.")] = "",
    node: Annotated[str, Query(max_length=100, description="Only grants on this node.")] = "",
    after: Annotated[str, Query(max_length=64, description="The last grant of the previous page.")] = "",
    limit: Limit = 1000,
) -> Response:
    """Grants in the order of their requests. Users see their own."""
    live = await service.writer.now()
    grants = live.control.tables.grants
    since = grants[after].order if after in grants else 0
    selected = [
        grant
        for grant in grants.values()
        if grant.order > since
        and (state is None or grant.state.value == state)
        and (not owner or owner in (str(grant.ask.uid), grant.ask.user))
        and _may_see(live, grant, who)
        and (not node or any(volume.node == node for volume in live.control.tables.volumes_of(grant)))
    ]
    selected.sort(key=lambda grant: grant.order)
    texts = [text async for text in _encoded(service, [grant.id for grant in selected[:limit]])]
    return answer_encoded(f'{{"grants":[{",".join(texts)}],"more":{"true" if len(selected) > limit else "false"}}}')


async def _encoded(service: Service, names: Sequence[str]) -> AsyncIterator[str]:
    """Grants as JSON, a few at a time, so that nobody else waits for a long list."""
    for first in range(0, len(names), _AT_ONCE):
        live = await service.writer.now()
        grants = live.control.tables.grants
        for name in names[first : first + _AT_ONCE]:
            if name in grants:  # else it was forgotten meanwhile
                yield encode(grant_document(live, grants[name]))
        await asyncio.sleep(0)


@routes.get("/{grant}", **returns(GrantDocument))
async def show(service: OfService, who: Caller, grant: GrantName) -> JSONResponse:
    """One grant with its volumes."""
    live = await service.writer.now()
    return _answer(service, live, grant, who)


@routes.get("/{grant}/story", **returns(StoryDocument))
async def story(service: OfService, who: Caller, grant: GrantName) -> JSONResponse:
    """Everything that happened to a grant, and what agents logged about it, by time."""
    _find(await service.writer.now(), grant, who)
    return answer({"story": await service.writer.read(lambda connection: story_of(connection, grant))})


@routes.get("/{grant}/wait", **returns(GrantDocument))
async def wait(
    service: OfService,
    who: Caller,
    grant: GrantName,
    seconds: Wait = 30.0,
    known: Annotated[str, Query(max_length=20, description="The state that you know; another returns at once.")] = "",
) -> JSONResponse:
    """The grant, as soon as its state or its place in the queue changes or the time is over."""
    live = await service.writer.now()
    before = _find(live, grant, who)
    was = (before.state.value, live.control.position(grant))
    end = service.monotonic() + seconds
    service.waits.check(who)
    with service.waits.one_more(who):
        while was[0] == (known or was[0]) and before.state not in ENDED:
            changed = await service.changes.wait(f"grant {grant}", end - service.monotonic())
            live = await service.writer.now()
            if not changed or (_find(live, grant, who).state.value, live.control.position(grant)) != was:
                break
    return _answer(service, live, grant, who)


@routes.post("/{grant}/release", **returns(GrantDocument))
async def release(service: OfService, who: Caller, grant: GrantName, form: ReleaseForm | None = Maybe) -> JSONResponse:
    """Release a grant. To repeat this changes nothing."""
    because = " ".join((form or ReleaseForm()).because.split())
    return await _change(service, who, co.Release(caller=who.caller, grant=grant, because=because))


@routes.post("/{grant}/extend", **returns(GrantDocument))
async def extend(service: OfService, who: Caller, grant: GrantName, form: ExtendForm) -> JSONResponse:
    """Let a grant end later, if its space stays free until then."""
    live = await service.writer.now()
    end = _find(live, grant, who).end + _longer(form) if form.until is None else form.until
    return await _change(service, who, co.Extend(caller=who.caller, grant=grant, end=end))


def _longer(form: ExtendForm) -> float:
    if form.seconds is None:
        raise BadInput("seconds", "is missing; give seconds or until")
    longer = seconds_of("seconds", form.seconds)
    if longer <= 0:
        raise BadInput("seconds", f"must be above 0, not {form.seconds!r:.40}")
    return longer


@routes.post("/{grant}/used", **returns(GrantDocument))
async def use(service: OfService, who: Caller, grant: GrantName) -> JSONResponse:
    """Mark a grant as in use."""
    return await _change(service, who, co.Use(caller=who.caller, grant=grant))


async def _change(service: Service, who: Who, command: co.Release | co.Extend | co.Use) -> JSONResponse:
    for record in await service.do(command):
        if isinstance(record.event, ev.Declined) and record.event.grant == command.grant:
            raise Refused(record.event.sentence())
    return _answer(service, service.state(), command.grant, who)


def _answer(service: Service, live: Live, name: str, who: Who) -> JSONResponse:
    """The grant, if the caller may see it. An agent gets the keys of its own volumes with its actions."""
    document = grant_document(live, _find(live, name, who))
    return answer(document if who.role == "agent" else service.keys.add_keys(document))


def _find(live: Live, name: str, who: Who) -> Grant:
    grant = live.control.grant(name)
    if not _may_see(live, grant, who):
        raise NotAllowed("only its owner or an administrator may see this grant")
    return grant


def _may_see(live: Live, grant: Grant, who: Who) -> bool:
    if who.role == "agent":
        return any(volume.node == who.node for volume in live.control.tables.volumes_of(grant))
    return who.is_administrator or who.uid == grant.ask.uid
