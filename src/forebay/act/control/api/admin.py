"""Policy, rules, journal, tokens, health, numbers, and the description of the API."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from forebay import __version__
from forebay.act.control.api.answers import (
    Done,
    HealthAnswer,
    JournalAnswer,
    PolicyAnswer,
    RulesAnswer,
    TokenAnswer,
    TokensAnswer,
)
from forebay.act.control.api.commands import rules_of
from forebay.act.control.api.dependencies import ERRORS, METRICS, Administrator, Caller, OfService, answer
from forebay.act.control.api.description import STREAM, TEXT, describe_api
from forebay.act.control.api.documents import mode
from forebay.act.control.api.event_stream import stream
from forebay.act.control.api.forms import PolicyForm, RulesForm, TokenForm
from forebay.act.control.auth.tokens import new_token
from forebay.act.control.auth.volume_keys import public
from forebay.act.control.service.metrics import numbers
from forebay.act.control.service.warm_up import warm_up
from forebay.act.metrics import text_of
from forebay.decide.grants import commands as co
from forebay.decide.registry import find
from forebay.history.store.journal import read_after
from forebay.history.store.tokens import list_tokens, remove_token
from forebay.model.errors import UnknownName

routes = APIRouter(responses=ERRORS)
_LONGEST_STREAM = 86_400.0
Number = Annotated[int, Query(ge=0, lt=2**62)]


@routes.get("/v1/health", response_model=None, responses={200: {"model": HealthAnswer}})
async def health(service: OfService) -> JSONResponse:
    """Whether it works; the one thing that anybody may ask."""
    live = service.writer.latest
    if live is None:
        return answer({"status": "the store does not answer", "version": __version__} | _NOTHING)
    nodes = live.control.tables.nodes.values()
    told = {
        "status": "ready",
        "version": __version__,
        "mode": mode(live),
        "policy": live.control.policy,
        "journal": live.last,
        "nodes": len(nodes),
        "silent": sum(node.silent for node in nodes),
        "kept": live.control.tables.kept_count(),
    }
    return answer(told)


_NOTHING: dict[str, Any] = {"mode": "", "policy": "", "journal": 0, "nodes": 0, "silent": 0, "kept": 0}


@routes.get("/v1/policy", response_model=None, responses={200: {"model": PolicyAnswer}})
async def policy(service: OfService, _: Caller) -> JSONResponse:
    """By which policy it is decided now."""
    return answer({"policy": (await service.writer.now()).control.policy})


@routes.put("/v1/policy", response_model=None, responses={200: {"model": PolicyAnswer}})
async def change_policy(service: OfService, who: Administrator, form: PolicyForm) -> JSONResponse:
    """From now on decide by another policy; what was granted stays."""
    name = find("storage", form.policy).name
    await asyncio.to_thread(warm_up, name)
    await service.do(co.ChangePolicy(caller=who.caller, policy=name))
    return answer({"policy": service.state().control.policy})


@routes.get("/v1/rules", response_model=None, responses={200: {"model": RulesAnswer}})
async def rules(service: OfService, _: Caller) -> JSONResponse:
    """The rules by which it is decided now."""
    return answer(asdict((await service.writer.now()).control.rules))


@routes.put("/v1/rules", response_model=None, responses={200: {"model": RulesAnswer}})
async def change_rules(service: OfService, who: Administrator, form: RulesForm) -> JSONResponse:
    """Change some of the rules; the others stay."""
    live = await service.writer.now()
    await service.do(co.ChangeRules(caller=who.caller, rules=rules_of(form, live.control.rules)))
    return answer(asdict(service.state().control.rules))


@routes.get("/v1/journal", response_model=None, responses={200: {"model": JournalAnswer}})
async def journal(
    service: OfService, _: Administrator, after: Number = 0, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000
) -> JSONResponse:
    """Events after a number, as they are in the journal."""
    found = await service.writer.read(lambda connection: list(read_after(connection, after, limit)))
    events = [{"number": entry.number, "event": json.loads(public(entry.line))} for entry in found]
    return answer({"events": events, "last": events[-1]["number"] if events else after})


@routes.get("/v1/events", response_class=StreamingResponse, responses=STREAM)
async def events(
    service: OfService,
    who: Caller,
    after: Annotated[int | None, Query(ge=0, lt=2**62, description="Begin after this number [now].")] = None,
    seconds: Annotated[float, Query(ge=0, le=_LONGEST_STREAM)] = _LONGEST_STREAM,
    last_event_id: Annotated[str, Header(max_length=30)] = "",
) -> StreamingResponse:
    """Server-sent events: all that is written to the journal (users: of their grants); Last-Event-ID goes on there."""
    service.waits.check(who)
    seen = last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19
    live = await service.writer.now()
    start = int(last_event_id) if seen else live.last if after is None else after
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(service, who, start, seconds), media_type="text/event-stream", headers=headers)


@routes.get(METRICS, response_class=Response, responses=TEXT)
async def metrics(service: OfService, _: Caller) -> Response:
    """Numbers for Prometheus."""
    found = list(numbers(await service.writer.settled(), service))
    text = await asyncio.to_thread(text_of, found)  # of many disks it is long; others go on meanwhile
    return Response(text, media_type="text/plain; version=0.0.4")


@routes.get("/v1/tokens", response_model=None, responses={200: {"model": TokensAnswer}})
async def tokens(service: OfService, _: Administrator) -> JSONResponse:
    """Who has a token; the tokens themselves are kept nowhere."""
    found = await service.writer.read(list_tokens)
    return answer(
        {"tokens": [{"name": t.name, "role": t.role, "uid": t.uid, "node": t.node, "made": t.made} for t in found]}
    )


@routes.post("/v1/tokens", status_code=201, response_model=None, responses={201: {"model": TokenAnswer}})
async def make_token(service: OfService, _: Administrator, form: TokenForm) -> JSONResponse:
    """A new token, which is told once. One of that name does not count any more."""
    secret, token, keep = new_token(form, service.clock())
    await service.writer.write(keep)
    await service.doorman.look_again()
    service.log.info("token made", name=token.name, role=token.role, node=token.node)
    return answer({"name": token.name, "role": token.role, "node": token.node, "uid": token.uid, "token": secret}, 201)


@routes.delete("/v1/tokens/{name}", response_model=None, responses={200: {"model": Done}})
async def drop_token(service: OfService, _: Administrator, name: Annotated[str, Path(max_length=100)]) -> JSONResponse:
    """From now on the token does not count."""
    known = [token.name for token in await service.writer.read(list_tokens)]
    if name not in known:
        raise UnknownName("token", name, known)
    await service.writer.write(lambda connection: remove_token(connection, name))
    await service.doorman.look_again()
    service.log.info("token removed", name=name)
    return answer({"done": 1})


@routes.get("/openapi.json", response_model=None, include_in_schema=False)
async def description(request: Request, service: OfService, _: Caller) -> JSONResponse:
    return answer(describe_api(request.app, service.settings))
