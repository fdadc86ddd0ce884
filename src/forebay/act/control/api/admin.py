"""Policy, rules, journal, events, tokens, health, metrics, and the description of the API."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Annotated, cast

from fastapi import Header, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from forebay import __version__
from forebay.act.control import documents
from forebay.act.control.api.description import STREAMED, describe_api, response
from forebay.act.control.api.forms import PolicyForm, RulesForm, TokenForm
from forebay.act.control.api.routing import METRICS, Administrator, Caller, Limit, OfService, Routes, resume_after
from forebay.act.control.auth.callers import Who
from forebay.act.control.auth.tokens import new_token
from forebay.act.control.auth.volume_keys import public
from forebay.act.control.page.views import entries_after, may_see
from forebay.act.control.service.live_documents import mode
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.metrics import numbers
from forebay.act.control.service.service import Service
from forebay.act.metrics import format_metrics
from forebay.decide.grants import commands as co
from forebay.decide.grants.control import warm_up
from forebay.decide.grants.machine import Role
from forebay.decide.registry import find
from forebay.history.store.tokens import Token, list_tokens, remove_token, save_token
from forebay.model.errors import UnknownName

routes = Routes()
Number = Annotated[int, Query(ge=0, lt=2**62, description="The number of an event in the journal.")]
_DAY = 86_400.0
_AT_ONCE = 1000
_QUIET = 15.0  # seconds without an event before a comment shows that the service is alive
_EVENTS = "Server-sent events. A line that begins with a colon keeps the connection alive."
_STREAM = response(_EVENTS, "text/event-stream", STREAMED)


@routes.get("/v1/health")
async def health(service: OfService) -> documents.HealthDocument:
    """Whether the service works. No authentication needed."""
    latest = service.writer.latest
    live = latest or Live()
    tables = live.control.tables
    return {
        "status": "ready" if latest else "the store does not answer",
        "version": __version__,
        "mode": mode(latest) if latest else "",
        "policy": live.control.policy if latest else "",
        "journal": live.last, "nodes": len(tables.nodes), "kept": tables.kept_count(),
        "silent": sum(node.silent for node in tables.nodes.values()),
    }  # fmt: skip


@routes.get("/v1/policy")
async def policy(service: OfService, _: Caller) -> documents.PolicyDocument:
    """The storage policy in use."""
    return {"policy": (await service.writer.now()).control.policy}


@routes.put("/v1/policy")
async def change_policy(service: OfService, who: Administrator, form: PolicyForm) -> documents.PolicyDocument:
    """Use another policy from now on. Existing grants stay."""
    name = find("storage", form.policy).name
    await asyncio.to_thread(warm_up, name)
    await service.do(co.ChangePolicy(caller=who, policy=name))
    return {"policy": service.state().control.policy}


@routes.get("/v1/rules")
async def rules(service: OfService, _: Caller) -> documents.RulesDocument:
    """The rules in force."""
    return cast(documents.RulesDocument, asdict((await service.writer.now()).control.rules))


@routes.put("/v1/rules")
async def change_rules(service: OfService, who: Administrator, form: RulesForm) -> documents.RulesDocument:
    """Change some of the rules. The others stay as they are."""
    live = await service.writer.now()
    changed = replace(live.control.rules, **form.model_dump(exclude_none=True))
    await service.do(co.ChangeRules(caller=who, rules=changed))
    return cast(documents.RulesDocument, asdict(service.state().control.rules))


@routes.get("/v1/journal")
async def journal(
    service: OfService, _: Administrator, after: Number = 0, limit: Limit = 1000
) -> documents.JournalDocument:
    """Events after a number, as in the journal."""
    entries = await service.writer.read_entries(after, limit)
    events = [documents.JournalEvent(number=entry.number, event=json.loads(public(entry.line))) for entry in entries]
    return {"events": events, "last": events[-1]["number"] if events else after}


@routes.get("/v1/events", response_class=StreamingResponse, responses={200: _STREAM})
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
    return StreamingResponse(_stream(service, who, start, seconds), media_type="text/event-stream", headers=headers)


async def _stream(service: Service, who: Who, after: int, seconds: float) -> AsyncIterator[str]:
    """Stream the events after a number, for up to `seconds`."""
    end, eye = service.monotonic() + seconds, None if who.is_administrator else who.uid
    with service.waits.count_waiting(who, "events"):
        yield ": forebay\n\n"
        while not service.changes.is_closed:
            live = await service.writer.now()
            entries = entries_after(live, after) if live.last > after else ()
            if entries is None:  # memory does not reach back that far
                entries = await service.writer.read_entries(after, _AT_ONCE)
            for entry in entries[:_AT_ONCE]:
                after = entry.number
                if may_see(live, entry, eye):
                    kind = json.loads(entry.line)["kind"]
                    yield f"id: {entry.number}\nevent: {kind}\ndata: {public(entry.line)}\n\n"
            if entries:
                continue
            if service.monotonic() >= end:
                return
            if not await service.wait_for_change(min(_QUIET, end - service.monotonic())):
                yield ":\n\n"


@routes.get(
    METRICS, response_class=Response, responses={200: response("Text in the format of Prometheus.", "text/plain")}
)
async def metrics(service: OfService, _: Caller) -> Response:
    """Metrics for Prometheus."""
    measured = list(numbers(await service.writer.now(look=False), service))
    text = await asyncio.to_thread(format_metrics, measured)  # slow on a large machine, so other calls go on meanwhile
    return Response(text, media_type="text/plain; version=0.0.4")


@routes.get("/v1/tokens")
async def tokens(service: OfService, _: Administrator) -> documents.TokenList:
    """The owners of tokens. The service stores no tokens, only their digests."""
    stored = await service.writer.read(list_tokens)
    return {"tokens": [_token_document(token) for token in stored]}


def _token_document(token: Token) -> documents.TokenDocument:
    role = cast(Role, token.role)
    return {"name": token.name, "role": role, "uid": token.uid, "node": token.node, "made": token.made}


@routes.post("/v1/tokens", status_code=201)
async def make_token(service: OfService, _: Administrator, form: TokenForm) -> documents.NewToken:
    """Make a token. It replaces the token of the same name, which stops working."""
    secret, token = new_token(form, service.clock())
    await service.writer.write(lambda connection: save_token(connection, token))
    await service.authenticator.refresh()
    service.log.info("token made", name=token.name, role=token.role, node=token.node)
    return {"name": token.name, "role": form.role, "node": token.node, "uid": token.uid, "token": secret}


@routes.delete("/v1/tokens/{name}")
async def drop_token(
    service: OfService, _: Administrator, name: Annotated[str, Path(max_length=100, description="The token's name.")]
) -> documents.Done:
    """Remove a token. It stops working at once."""
    known = [token.name for token in await service.writer.read(list_tokens)]
    if name not in known:
        raise UnknownName("token", name, known)
    await service.writer.write(lambda connection: remove_token(connection, name))
    await service.authenticator.refresh()
    service.log.info("token removed", name=name)
    return {"done": 1}


@routes.get("/openapi.json", include_in_schema=False)
async def description(request: Request, service: OfService, _: Caller) -> JSONResponse:
    return JSONResponse(describe_api(request.app, service.settings))
