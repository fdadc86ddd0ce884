"""Calls of browsers: logins, the page's files, and the page's own calls, which are not part of the public API."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, cast

from fastapi import Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from forebay.act.control.api import routing
from forebay.act.control.api.description import document_response
from forebay.act.control.api.forms import LoginForm
from forebay.act.control.api.routing import Administrator, Answer, Caller, OfService, Routes
from forebay.act.control.auth.callers import Who
from forebay.act.control.auth.logins import COOKIE, Login, cookie_of, find_login, is_browser
from forebay.act.control.documents import LoginDocument, LoginLink, LogoutDocument
from forebay.act.control.errors import NotAuthenticated, error_code, error_document
from forebay.act.control.page.files import HEADERS, SHEET_POLICY, TYPES
from forebay.act.control.page.views import GROUPS, Eye, Line, eye_of, feed, list_grants, timeline
from forebay.act.control.service.service import Service
from forebay.act.forward.net.address import parse_address
from forebay.history.store.journal import list_entries
from forebay.model.errors import Refused, UnknownName
from forebay.model.grant import NotAllowed

routes = Routes()
page_routes = Routes(include_in_schema=False)
_ANY_HOST = ("0.0.0.0", "::")
_SMALL = 1400  # bytes that fit into one packet, so that compressing them gains nothing
_LARGE = 50_000  # bytes above which another thread compresses
_WINDOW = 1000  # events that the feed reads in one step
_STEPS = 20
_MOST_GRANTS = 100  # of a user, in the feed
_Name = Annotated[str, Path(max_length=100, description="The name.")]
_Begin = Annotated[float, Query(ge=-1e12, le=1e12, description="From when.")]
_End = Annotated[float, Query(ge=-1e12, le=1e12, description="Until when.")]
_Before = Annotated[int, Query(ge=0, lt=2**62, description="End before this number; 0: at the newest.")]
_Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]


@routes.post("/v1/login", responses={200: document_response(LoginDocument)})
async def log_in(request: Request, service: OfService, form: LoginForm) -> Answer:
    """Exchange a token or a one-time link for a cookie."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("the request comes from a page of another site")
    seat = routing.seat_of(request)
    host = seat.address if seat else ""
    login = await service.logins.log_in(form.secret.strip(), host)
    service.log.info("login", name=login.who.name, role=login.who.role, host=host)
    answer = Answer(_login_document(login))
    answer.set_cookie(
        COOKIE, login.cookie, max_age=int(login.until - service.clock()), path="/", secure=True, httponly=True,
        samesite="strict",
    )  # fmt: skip
    return answer


@routes.get("/v1/login")
async def show_login(request: Request) -> LoginDocument:
    """The visitor who is logged in."""
    return _login_document(await routing.login_of(request))


def _login_document(login: Login) -> LoginDocument:
    who = login.who
    role = cast(Literal["user", "administrator"], who.role)
    return {"role": role, "name": who.name, "uid": who.uid, "until": login.until, "proof": login.proof}


@routes.post("/v1/logout", responses={200: document_response(LogoutDocument)})
async def log_out(request: Request, service: OfService) -> Answer:
    """End the login. Its cookie stops working."""
    cookie = cookie_of(request.headers)
    if cookie:
        await find_login(service.logins, None, "POST", request.headers)
        service.logins.log_out(cookie)
    answer = Answer(LogoutDocument(done=1 if cookie else 0))
    answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return answer


@routes.post("/v1/login/link")
async def make_link(request: Request, service: OfService, who: Caller) -> LoginLink:
    """A link that logs the caller in once, for callers on the UNIX socket or with MUNGE."""
    if request.headers.get("authorization", "").lower().startswith("bearer") or is_browser(request.headers):
        raise Refused("log in with your token; links are for callers on the UNIX socket or with MUNGE")
    secret, until = service.logins.make_link(who)
    link = ""
    if service.settings.listen:
        address = parse_address(service.settings.listen, "service.listen")
        if address.host in _ANY_HOST:
            address = replace(address, host=await asyncio.to_thread(socket.getfqdn))  # a name server can be slow
        link = f"https://{address}/#login={secret}"  # browsers keep the fragment to themselves
    return {"secret": secret, "until": until, "link": link}


@page_routes.get("/")
async def index(request: Request, service: OfService) -> Response:
    return await file(request, service, "index.html")


@page_routes.get("/page/{name}")
async def file(request: Request, service: OfService, name: _Name) -> Response:
    """A file of the page. No login needed."""
    page = service.pages.files.get(name)
    if page is None:
        raise UnknownName("page", name, service.pages.files)
    headers = HEADERS | {"ETag": page.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == page.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(page.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=page.kind)
    return Response(page.content, headers=headers, media_type=page.kind)


@page_routes.get("/v1/page")
async def snapshot(request: Request, service: OfService) -> Response:
    """The machine and its totals as of one number of the journal, and the visitor.

    Opening the page without a login is not an error: `who` is then null, beside the `code` and sentence of the error.
    """
    try:
        who = await routing.identify_caller(request)
    except NotAuthenticated as error:
        if not routing.is_visitor(request):
            raise
        return await _answer(request, {"who": None, **error_document(error_code(error), str(error))})
    text = await service.updates.snapshot(eye_of(who))
    login = Login(who=who, cookie="", until=0.0, proof="")
    if routing.is_visitor(request):
        login = await routing.login_of(request)
    return await _answer(request, text[:-1] + b',"who":' + _encode(_login_document(login)) + b"}")


@page_routes.get("/v1/page/events")
async def events(
    request: Request,
    service: OfService,
    who: Caller,
    after: Annotated[int, Query(ge=0, lt=2**62, description="Begin after this number.")] = 0,
    last_event_id: Annotated[str, Header(max_length=30, description="Continue after this number.")] = "",
) -> StreamingResponse:
    """Server-sent events: what changed after a number."""
    resumed = routing.resume_after(last_event_id)
    headers = HEADERS | {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    updates = _follow(request, service, who, eye_of(who), after if resumed is None else resumed)
    return StreamingResponse(updates, media_type="text/event-stream", headers=headers)


async def _follow(request: Request, service: Service, who: Who, eye: Eye, after: int) -> AsyncIterator[str]:
    async def check_login() -> None:
        if routing.is_visitor(request):
            await routing.login_of(request)

    with service.waits.count_waiting(who, "page"):
        async for text in service.updates.follow(eye, after, check_login):
            yield text


@page_routes.get("/v1/page/grants")
async def grants(
    request: Request,
    service: OfService,
    who: Caller,
    state: Annotated[
        Literal["", *GROUPS],  # type: ignore[valid-type]
        Query(description="Only grants in this state, or group of states."),
    ] = "",
    owner: Annotated[str, Query(max_length=200, description="A uid, or a user's name.")] = "",
    disk: Annotated[str, Query(max_length=400, description="A node, or NODE/DISK.")] = "",
    text: Annotated[str, Query(max_length=200, description="Only grants with this text in them.")] = "",
    offset: Annotated[int, Query(ge=0, lt=2**62, description="How many to skip.")] = 0,
    limit: _Limit = 200,
) -> Response:
    """Some grants, the newest first, and their total number."""
    live = await service.writer.now()
    eye = eye_of(who)
    shown = list_grants(live, eye, state=state, owner=owner, disk=disk, text=text, offset=offset, limit=limit)
    return await _answer(request, shown)


@page_routes.get("/v1/page/timeline")
async def times(request: Request, service: OfService, who: Caller, begin: _Begin, end: _End) -> Response:
    """The times of grants, past, present and future."""
    return await _answer(request, timeline(await service.writer.now(), eye_of(who), begin, end))


@page_routes.get("/v1/page/decisions")
async def decisions(
    request: Request, service: OfService, who: Caller, before: _Before = 0, limit: _Limit = 100
) -> Response:
    """The decisions, the newest first. `next` is the `before` of the next call; 0 if there are no more."""
    eye = eye_of(who)
    last = (await service.writer.now()).last
    before = min(before or last + 1, last + 1)
    find = _find_lines(service, before, limit) if eye is None else _find_user_lines(service, eye, before, limit)
    lines, following = await find
    return await _answer(request, {"lines": lines, "next": following})


async def _find_lines(service: Service, before: int, limit: int) -> tuple[list[Line], int]:
    lines: list[Line] = []
    for _ in range(_STEPS):
        first = max(0, before - 1 - _WINDOW)
        entries = await service.writer.read_entries(first, before - 1 - first)
        lines += feed(await service.writer.now(), reversed(entries), None, limit - len(lines))
        before = lines[-1]["n"] if len(lines) == limit else max(1, before - _WINDOW)
        if before <= 1 or len(lines) == limit:
            break
    return lines, before if before > 1 else 0


async def _find_user_lines(service: Service, uid: int, before: int, limit: int) -> tuple[list[Line], int]:
    """The same for the newest grants of a user."""
    grants = (await service.writer.now()).control.tables.grants.values()
    newest = sorted((grant.order, grant.id) for grant in grants if grant.ask.uid == uid)[-_MOST_GRANTS:]
    entries = await service.writer.read(
        lambda connection: [each for _, name in newest for each in list_entries(connection, name)]
    )
    entries = sorted((each for each in entries if each.number < before), key=lambda each: -each.number)
    lines = feed(await service.writer.now(), entries, uid, limit)
    return lines, lines[-1]["n"] if len(lines) == limit else 0


@page_routes.get("/v1/page/looks/{name}")
async def look(
    request: Request,
    service: OfService,
    _: Administrator,
    name: _Name,
    of: Annotated[str, Query(max_length=500, description="The subject, such as an application's name.")] = "",
) -> Response:
    """Further views of the page: the history of applications, the forwarding layer."""
    show = service.pages.looks.get(name)
    if show is None:
        raise UnknownName("look", name, service.pages.looks)
    return await _answer(request, await asyncio.to_thread(show, {"of": of}))


@page_routes.get("/v1/page/sheets/{name}/{number}")
async def sheet(
    request: Request,
    service: OfService,
    _: Administrator,
    name: _Name,
    number: Annotated[int, Path(ge=0, lt=2**62, description="The number, such as that of a run.")],
) -> Response:
    """A page of its own, such as that of a run of the history."""
    make = service.pages.sheets.get(name)
    if make is None:
        raise UnknownName("sheet", name, service.pages.sheets)
    html = await asyncio.to_thread(make, number)
    return await _answer(request, html, TYPES[".html"], {"Content-Security-Policy": SHEET_POLICY})


def _encode(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


async def _answer(
    request: Request,
    document: Mapping[str, object] | bytes,
    kind: str = "application/json",
    more: Mapping[str, str] | None = None,
) -> Response:
    text = document if isinstance(document, bytes) else _encode(document)
    headers = HEADERS | {"Cache-Control": "no-store"} | dict(more or {})
    if len(text) > _SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        compress = partial(gzip.compress, text, 1, mtime=0)
        text = await asyncio.to_thread(compress) if len(text) > _LARGE else compress()
        headers |= {"Content-Encoding": "gzip"}
    return Response(text, headers=headers, media_type=kind)
