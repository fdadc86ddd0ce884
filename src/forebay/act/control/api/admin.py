"""Policy, rules, journal, events, tokens, health, metrics, and the description of the API."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, cast

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from forebay import __version__
from forebay.act.control.api.commands import rules_of
from forebay.act.control.api.dependencies import (
    METRICS,
    Administrator,
    Caller,
    Limit,
    Number,
    OfService,
    answer,
    resume_after,
)
from forebay.act.control.api.description import ERRORS, STREAM, TEXT, describe_api, returns
from forebay.act.control.api.event_stream import stream
from forebay.act.control.api.forms import PolicyForm, RulesForm, TokenForm
from forebay.act.control.auth.tokens import new_token
from forebay.act.control.auth.volume_keys import public
from forebay.act.control.documents import (
    Done,
    HealthDocument,
    JournalDocument,
    JournalEvent,
    NewToken,
    PolicyDocument,
    Role,
    RulesDocument,
    TokenDocument,
    TokenList,
)
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.metrics import numbers
from forebay.act.control.service.views import mode
from forebay.act.control.service.warm_up import warm_up
from forebay.act.metrics import format_metrics
from forebay.decide.grants import commands as co
from forebay.decide.registry import find
from forebay.history.store.journal import read_after
from forebay.history.store.tokens import Token, list_tokens, remove_token
from forebay.model.errors import UnknownName

routes = APIRouter(responses=ERRORS)
_DAY = 86_400.0


@routes.get("/v1/health", **returns(HealthDocument))
async def health(service: OfService) -> JSONResponse:
    """Whether the service works. Anybody may call this."""
    live = service.writer.latest
    status = "the store does not answer" if live is None else "ready"
    return answer(_health(status, live or Live(), "" if live is None else mode(live)))


def _health(status: str, live: Live, mode: str) -> HealthDocument:
    tables = live.control.tables
    return {
        "status": status,
        "version": __version__,
        "mode": mode,
        "policy": live.control.policy if mode else "",
        "journal": live.last,
        "nodes": len(tables.nodes),
        "silent": sum(node.silent for node in tables.nodes.values()),
        "kept": tables.kept_count(),
    }


@routes.get("/v1/policy", **returns(PolicyDocument))
async def policy(service: OfService, _: Caller) -> JSONResponse:
    """The storage policy in use."""
    return answer(PolicyDocument(policy=(await service.writer.now()).control.policy))


@routes.put("/v1/policy", **returns(PolicyDocument))
async def change_policy(service: OfService, who: Administrator, form: PolicyForm) -> JSONResponse:
    """Use another policy from now on. Existing grants stay."""
    name = find("storage", form.policy).name
    await asyncio.to_thread(warm_up, name)
    await service.do(co.ChangePolicy(caller=who.caller, policy=name))
    return answer(PolicyDocument(policy=service.state().control.policy))


@routes.get("/v1/rules", **returns(RulesDocument))
async def rules(service: OfService, _: Caller) -> JSONResponse:
    """The rules in force."""
    return answer(asdict((await service.writer.now()).control.rules))


@routes.put("/v1/rules", **returns(RulesDocument))
async def change_rules(service: OfService, who: Administrator, form: RulesForm) -> JSONResponse:
    """Change some of the rules. The others stay as they are."""
    live = await service.writer.now()
    await service.do(co.ChangeRules(caller=who.caller, rules=rules_of(form, live.control.rules)))
    return answer(asdict(service.state().control.rules))


@routes.get("/v1/journal", **returns(JournalDocument))
async def journal(service: OfService, _: Administrator, after: Number = 0, limit: Limit = 1000) -> JSONResponse:
    """Events after a number, as in the journal."""
    entries = await service.writer.read(lambda connection: list(read_after(connection, after, limit)))
    events = [JournalEvent(number=entry.number, event=json.loads(public(entry.line))) for entry in entries]
    return answer(JournalDocument(events=events, last=events[-1]["number"] if events else after))


@routes.get("/v1/events", response_class=StreamingResponse, responses=STREAM)
async def events(
    service: OfService,
    who: Caller,
    after: Annotated[int | None, Query(ge=0, lt=2**62, description="Begin after this number. Default: now.")] = None,
    seconds: Annotated[float, Query(ge=0, le=_DAY, description="For how long.")] = _DAY,
    last_event_id: Annotated[str, Header(max_length=30, description="Continue after this number.")] = "",
) -> StreamingResponse:
    """Server-sent events: everything that is written to the journal. Users see the events of their grants."""
    service.waits.check(who)
    resumed = resume_after(last_event_id)
    live = await service.writer.now()
    start = resumed if resumed is not None else live.last if after is None else after
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(service, who, start, seconds), media_type="text/event-stream", headers=headers)


@routes.get(METRICS, response_class=Response, responses=TEXT)
async def metrics(service: OfService, _: Caller) -> Response:
    """Metrics for Prometheus."""
    measured = list(numbers(await service.writer.settled(), service))
    text = await asyncio.to_thread(format_metrics, measured)  # slow on a large machine, and others must not wait
    return Response(text, media_type="text/plain; version=0.0.4")


@routes.get("/v1/tokens", **returns(TokenList))
async def tokens(service: OfService, _: Administrator) -> JSONResponse:
    """Who has a token. The service does not store the tokens themselves."""
    stored = await service.writer.read(list_tokens)
    return answer(TokenList(tokens=[_token_document(token) for token in stored]))


def _token_document(token: Token) -> TokenDocument:
    role = cast(Role, token.role)
    return {"name": token.name, "role": role, "uid": token.uid, "node": token.node, "made": token.made}


@routes.post("/v1/tokens", status_code=201, **returns(NewToken, 201))
async def make_token(service: OfService, _: Administrator, form: TokenForm) -> JSONResponse:
    """A new token. It replaces a token of the same name, which stops working."""
    secret, token, keep = new_token(form, service.clock())
    await service.writer.write(keep)
    await service.authenticator.refresh()
    service.log.info("token made", name=token.name, role=token.role, node=token.node)
    return answer(NewToken(name=token.name, role=form.role, node=token.node, uid=token.uid, token=secret), 201)


@routes.delete("/v1/tokens/{name}", **returns(Done))
async def drop_token(
    service: OfService, _: Administrator, name: Annotated[str, Path(max_length=100, description="The token's name.")]
) -> JSONResponse:
    """Remove a token. It stops working at once."""
    known = [token.name for token in await service.writer.read(list_tokens)]
    if name not in known:
        raise UnknownName("token", name, known)
    await service.writer.write(lambda connection: remove_token(connection, name))
    await service.authenticator.refresh()
    service.log.info("token removed", name=name)
    return answer(Done(done=1))


@routes.get("/openapi.json", response_model=None, include_in_schema=False)
async def description(request: Request, service: OfService, _: Caller) -> JSONResponse:
    return answer(describe_api(request.app, service.settings))
