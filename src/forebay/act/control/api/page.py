"""The page and what it asks for. These calls are the page's own: they change with it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from forebay.act.control.api.dependencies import Administrator, Caller, OfService, who_calls
from forebay.act.control.api.login import told_of
from forebay.act.control.auth.browsers import from_browser, visitor
from forebay.act.control.auth.callers import Peer, Who
from forebay.act.control.auth.logins import Login
from forebay.act.control.errors import NotAuthenticated, error_code, error_document
from forebay.act.control.page.files import HEADERS, File
from forebay.act.control.page.views import GROUPS, Eye, Which, eye_of, feed, listed, timeline
from forebay.act.control.service.service import Service
from forebay.history.store.journal import Entry, list_entries, read_after
from forebay.model.errors import UnknownName

routes = APIRouter(include_in_schema=False)
_SMALL = 1400  # bytes that are not worth packing: they fit into one packet
_LARGE = 50_000  # bytes that are packed while others are served
_WINDOW = 1000  # events that are looked at in one step for the feed
_STEPS = 20
_OWN_GRANTS = 100
Count = Annotated[int, Query(ge=0, lt=2**62)]


@routes.get("/")
async def index(request: Request, service: OfService) -> Response:
    return await file(request, service, "index.html")


@routes.get("/page/{name}")
async def file(request: Request, service: OfService, name: Annotated[str, Path(max_length=100)]) -> Response:
    """A file of the page; anybody may have those."""
    found = service.pages.files.get(name)
    if found is None:
        raise UnknownName("page", name, service.pages.files)
    headers = HEADERS | {"ETag": found.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return _file(request, found, headers)


def _file(request: Request, found: File, headers: dict[str, str]) -> Response:
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(found.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=found.kind)
    return Response(found.content, headers=headers, media_type=found.kind)


@routes.get("/v1/page")
async def snapshot(request: Request, service: OfService) -> Response:
    """The machine and its totals, as of one number of the journal; and who looks.

    To open the page without a login is not an error: `who` is null then, beside the error's `code` and sentence.
    """
    try:
        who = await who_calls(request)
    except NotAuthenticated as error:
        if not is_visitor(request):
            raise
        return await _packed(request, _said({"who": None, **error_document(error_code(error), str(error))}))
    text = await service.frames.snapshot(eye_of(who))
    login = Login(who=who, cookie="", until=0.0, proof="")
    if is_visitor(request):
        login = await visitor(service.logins, peer_in(request), "GET", request.headers)
    return await _packed(request, text[:-1] + b',"who":' + _said(told_of(login)) + b"}")


@routes.get("/v1/page/events")
async def events(
    request: Request, service: OfService, who: Caller, after: Count = 0,
    last_event_id: Annotated[str, Header(max_length=30)] = "",
) -> StreamingResponse:  # fmt: skip
    """Server-sent events: what changed after a number."""
    if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19:
        after = int(last_event_id)
    headers = HEADERS | {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    frames = _followed(request, service, who, eye_of(who), after)
    return StreamingResponse(frames, media_type="text/event-stream", headers=headers)


async def _followed(request: Request, service: Service, who: Who, eye: Eye, after: int) -> AsyncIterator[str]:
    async def still() -> None:
        if is_visitor(request):
            await visitor(service.logins, peer_in(request), "GET", request.headers)

    with service.waits.one_more(who, "page"):
        async for text in service.frames.follow(eye, after, still):
            yield text


@routes.get("/v1/page/grants")
async def grants(
    request: Request,
    service: OfService,
    who: Caller,
    state: Annotated[Literal["", *GROUPS], Query()] = "",  # type: ignore[valid-type]
    owner: Annotated[str, Query(max_length=200)] = "",
    disk: Annotated[str, Query(max_length=400, description="A node, or NODE/DISK.")] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    offset: Count = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 200,
) -> Response:
    """Some grants, the newest first, and how many there are."""
    live = await service.writer.now()
    which = Which(state=state, owner=owner, disk=disk, text=text, offset=offset, limit=limit)
    return await _packed(request, _said(listed(live, eye_of(who), which)))


@routes.get("/v1/page/timeline")
async def times(
    request: Request, service: OfService, who: Caller, begin: Annotated[float, Query(ge=-1e12, le=1e12)],
    end: Annotated[float, Query(ge=-1e12, le=1e12)],
) -> Response:  # fmt: skip
    """When grants are, were, or are planned to be there."""
    live = await service.writer.now()
    return await _packed(request, _said(timeline(live, eye_of(who), begin, end)))


@routes.get("/v1/page/decisions")
async def decisions(
    request: Request, service: OfService, who: Caller, before: Count = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:  # fmt: skip
    """What was decided before a number (0: all), the newest first; `next` is where to go on, 0 at the beginning."""
    eye = eye_of(who)
    last = (await service.writer.now()).last
    before = min(before or last + 1, last + 1)
    if eye is not None:
        return await _packed(request, _said(await _own(service, eye, before, limit)))
    lines: list[dict[str, Any]] = []
    for _ in range(_STEPS):
        entries = await _before(service, before)
        live = await service.writer.now()
        lines += feed(live, entries, eye, limit - len(lines))
        before = lines[-1]["n"] if len(lines) == limit else max(1, before - _WINDOW)
        if before <= 1 or len(lines) == limit:
            break
    return await _packed(request, _said({"lines": lines, "next": before if before > 1 else 0}))


async def _before(service: Service, number: int) -> list[Entry]:
    """Some events before a number, the newest first."""
    first = max(0, number - 1 - _WINDOW)
    count = number - 1 - first
    if count <= 0:
        return []
    return await service.writer.read(lambda connection: list(read_after(connection, first, count))[::-1])


async def _own(service: Service, eye: int, before: int, limit: int) -> dict[str, Any]:
    """The same of a user's own newest grants."""
    live = await service.writer.now()
    own = sorted((g.order, g.id) for g in live.control.tables.grants.values() if g.ask.uid == eye)[-_OWN_GRANTS:]
    found = await service.writer.read(lambda connection: [e for _, name in own for e in list_entries(connection, name)])
    entries = sorted((e for e in found if e.number < before), key=lambda e: -e.number)
    lines = feed(await service.writer.now(), entries, eye, limit)
    return {"lines": lines, "next": lines[-1]["n"] if len(lines) == limit else 0}


@routes.get("/v1/page/looks/{name}")
async def look(
    request: Request, service: OfService, _: Administrator, name: Annotated[str, Path(max_length=100)],
    of: Annotated[str, Query(max_length=500)] = "",
) -> Response:  # fmt: skip
    """What the page shows besides: the history of applications, the forwarding layer."""
    found = service.pages.looks.get(name)
    if found is None:
        raise UnknownName("look", name, service.pages.looks)
    return await _packed(request, _said(await asyncio.to_thread(found, {"of": of})))


def is_visitor(request: Request) -> bool:
    """Whether it is somebody with a login."""
    return from_browser(request.headers) and "authorization" not in request.headers


def peer_in(request: Request) -> Peer | None:
    return getattr(request.state, "peer", None)


def _said(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


async def _packed(request: Request, text: bytes) -> Response:
    headers = HEADERS | {"Cache-Control": "no-store"}
    if len(text) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        text = await asyncio.to_thread(_gzip, text) if len(text) > _LARGE else _gzip(text)
        headers |= {"Content-Encoding": "gzip"}
    return Response(text, headers=headers, media_type="application/json")


def _gzip(text: bytes) -> bytes:
    return gzip.compress(text, 1, mtime=0)
