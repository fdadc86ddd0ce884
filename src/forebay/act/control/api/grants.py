"""Grants: ask, look, wait, give back, extend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from forebay.act.control.api.answers import GrantAnswer, GrantsAnswer, StoryAnswer
from forebay.act.control.api.commands import ask_of
from forebay.act.control.api.dependencies import (
    ERRORS,
    Caller,
    GrantName,
    Maybe,
    OfService,
    Wait,
    answer,
    in_words,
    written,
)
from forebay.act.control.api.documents import grant_view
from forebay.act.control.api.forms import AskForm, ExtendForm, ReleaseForm, seconds_of
from forebay.act.control.auth.callers import Who
from forebay.act.control.service.grant_story import story_of
from forebay.act.control.service.live_state import Happened, Live
from forebay.act.control.service.service import Service
from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import ENDED, Ask, Grant, NotAllowed, State

_AT_ONCE = 50  # grants that are put into words: about two milliseconds

routes = APIRouter(prefix="/v1/grants", tags=["grants"], responses=ERRORS)


@routes.post(
    "", status_code=201, response_model=None, responses={200: {"model": GrantAnswer}, 201: {"model": GrantAnswer}}
)
async def ask(service: OfService, who: Caller, form: AskForm) -> JSONResponse:
    """Ask for space. With a key that is known it is the same request. A refusal is a grant in state `refused`."""
    wish, happened = await _asked(service, who, form)
    live = service.state()
    grant = live.control.by_key(wish.uid, wish.key)
    assert grant is not None
    mine = any(isinstance(one.event, ev.Asked) and one.event.ask.grant == grant.id for one in happened)
    return answer(service.keys.told(grant_view(live, grant)), 201 if mine else 200)


async def _asked(service: Service, who: Who, form: AskForm) -> tuple[Ask, list[Happened]]:
    """What is asked for, and what came of it.

    Where it arrives twice at the same time, neither knows of the other when it is read: the second is read again, as
    so long from now is then what it was for the first.
    """
    live = service.writer.latest or await service.writer.now()
    wish = ask_of(form, who, live.control, service.clock())
    try:
        return wish, await service.do(co.Request(caller=who.caller, ask=wish))
    except Refused:
        again = ask_of(form, who, (await service.writer.now()).control, service.clock())
        if again.is_again(wish):
            raise
    return again, await service.do(co.Request(caller=who.caller, ask=again))


@routes.get("", response_model=None, responses={200: {"model": GrantsAnswer}})
async def listed(
    service: OfService,
    who: Caller,
    state: Annotated[Literal[tuple(s.value for s in State)] | None, Query()] = None,  # type: ignore[valid-type]
    owner: Annotated[str, Query(max_length=200, description="A uid, or a user's name.")] = "",
    node: Annotated[str, Query(max_length=100)] = "",
    after: Annotated[str, Query(max_length=64, description="The last grant of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """Grants in the order in which they were asked for; users see their own."""
    live = await service.writer.now()
    grants = live.control.tables.grants
    since = grants[after].order if after in grants else 0
    found = [
        grant
        for grant in grants.values()
        if grant.order > since
        and (state is None or grant.state.value == state)
        and (not owner or owner in (str(grant.ask.uid), grant.ask.user))
        and _may_see(live, grant, who)
        and (not node or any(volume.node == node for volume in live.control.tables.volumes_of(grant)))
    ]
    found.sort(key=lambda grant: grant.order)
    told = [text async for text in _viewed(service, [grant.id for grant in found[:limit]])]
    return written(f'{{"grants":[{",".join(told)}],"more":{"true" if len(found) > limit else "false"}}}')


async def _viewed(service: Service, names: Sequence[str]) -> AsyncIterator[str]:
    """Grants as they are written, a few at a time, so that nobody else waits for a long list."""
    for first in range(0, len(names), _AT_ONCE):
        live = await service.writer.now()
        grants = live.control.tables.grants
        for name in names[first : first + _AT_ONCE]:
            if name in grants:  # else it was forgotten meanwhile
                yield in_words(grant_view(live, grants[name]))
        await asyncio.sleep(0)


@routes.get("/{grant}", response_model=None, responses={200: {"model": GrantAnswer}})
async def show(service: OfService, who: Caller, grant: GrantName) -> JSONResponse:
    """One grant, with its volumes."""
    live = await service.writer.now()
    return answer(_seen(service, live, _own(live, grant, who), who))


@routes.get("/{grant}/story", response_model=None, responses={200: {"model": StoryAnswer}})
async def story(service: OfService, who: Caller, grant: GrantName) -> JSONResponse:
    """All that happened to a grant, and what agents had to say of it, in its order."""
    live = await service.writer.now()
    _own(live, grant, who)
    return answer({"story": await service.writer.read(lambda connection: story_of(connection, grant))})


@routes.get("/{grant}/wait", response_model=None, responses={200: {"model": GrantAnswer}})
async def wait(
    service: OfService,
    who: Caller,
    grant: GrantName,
    seconds: Wait = 30.0,
    known: Annotated[str, Query(max_length=20, description="The state that you know; others are told at once.")] = "",
) -> JSONResponse:
    """The grant, once its state (or place in the queue) changes or the time is over."""
    live = await service.writer.now()
    before = _own(live, grant, who)
    was = (before.state.value, live.control.position(grant))
    clock = service.ticking()
    end = clock() + seconds
    service.waits.check(who)
    with service.waits.one_more(who):
        while was[0] == (known or was[0]) and before.state not in ENDED:
            heard = await service.bells.heard(f"grant {grant}", end - clock())
            live = await service.writer.now()
            if not heard or (_own(live, grant, who).state.value, live.control.position(grant)) != was:
                break
    return answer(_seen(service, live, _own(live, grant, who), who))


@routes.post("/{grant}/release", response_model=None, responses={200: {"model": GrantAnswer}})
async def release(service: OfService, who: Caller, grant: GrantName, form: ReleaseForm | None = Maybe) -> JSONResponse:
    """Give it back. To do so again changes nothing."""
    because = " ".join((form or ReleaseForm()).because.split())
    await service.do(co.Release(caller=who.caller, grant=grant, because=because))
    return _told(service, grant)


@routes.post("/{grant}/extend", response_model=None, responses={200: {"model": GrantAnswer}})
async def extend(service: OfService, who: Caller, grant: GrantName, form: ExtendForm) -> JSONResponse:
    """Let it end later, if the space stays free until then."""
    live = await service.writer.now()
    end = _own(live, grant, who).end + _longer(form) if form.until is None else form.until
    _check(await service.do(co.Extend(caller=who.caller, grant=grant, end=end)), grant)
    return _told(service, grant)


def _longer(form: ExtendForm) -> float:
    if form.seconds is None:
        raise BadInput("seconds", "is missing; or say until when")
    longer = seconds_of("seconds", form.seconds)
    if longer <= 0:
        raise BadInput("seconds", f"must be above 0, not {form.seconds!r:.40}")
    return longer


@routes.post("/{grant}/used", response_model=None, responses={200: {"model": GrantAnswer}})
async def used(service: OfService, who: Caller, grant: GrantName) -> JSONResponse:
    """Somebody works with it."""
    _check(await service.do(co.Use(caller=who.caller, grant=grant)), grant)
    return _told(service, grant)


def _check(happened: list[Happened], grant: str) -> None:
    for one in happened:
        if isinstance(one.event, ev.Declined) and one.event.grant == grant:
            raise Refused(f"can't {one.event.what}: {one.event.because}")


def _told(service: Service, grant: str) -> JSONResponse:
    """To somebody who may change it."""
    live = service.state()
    return answer(service.keys.told(grant_view(live, live.control.grant(grant))))


def _seen(service: Service, live: Live, grant: Grant, who: Who) -> dict[str, Any]:
    """By somebody who may see it; agents have the keys of their own volumes with what they are to do."""
    view = grant_view(live, grant)
    return view if who.role == "agent" else service.keys.told(view)


def _own(live: Live, name: str, who: Who) -> Grant:
    """The grant, if the caller may see it."""
    grant = live.control.grant(name)
    if not _may_see(live, grant, who):
        raise NotAllowed("only its owner or an administrator may see this grant")
    return grant


def _may_see(live: Live, grant: Grant, who: Who) -> bool:
    if who.role == "agent":
        return any(volume.node == who.node for volume in live.control.tables.volumes_of(grant))
    return who.role == "administrator" or who.uid == grant.ask.uid
