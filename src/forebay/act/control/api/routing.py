"""Shared by all routes: documents as answers, the service, the caller, and parameters."""

import functools
import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, is_typeddict

from fastapi import APIRouter, Body, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from forebay.act.control.api.connection_limits import Seat
from forebay.act.control.api.description import ERRORS, document_response
from forebay.act.control.auth.callers import ONLY_METRICS, Peer, Who, check_administrator
from forebay.act.control.auth.logins import Login, find_login, is_browser
from forebay.act.control.auth.munge import call_line
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.service import Service
from forebay.model.grant import NotAllowed

METRICS = "/metrics"
encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Answer(JSONResponse):
    """JSON in ASCII, because text from callers can contain characters that UTF-8 cannot encode."""

    def render(self, content: object) -> bytes:
        return encode(content).encode()


class Routes(APIRouter):
    """Routes whose functions return documents. Mypy checks the shape of documents, so that no call has to."""

    def __init__(self, **options: Any) -> None:
        super().__init__(responses=ERRORS, **options)

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        document = inspect.signature(endpoint).return_annotation
        if not is_typeddict(document):
            super().add_api_route(path, endpoint, **options)
            return
        status = options.get("status_code") or 200

        @functools.wraps(endpoint)
        async def answer(**values: Any) -> Response:
            return Answer(await endpoint(**values), status)

        options |= {"response_model": None, "responses": {status: document_response(document)}}
        super().add_api_route(path, answer, **options)


async def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def identify_caller(request: Request) -> Who:
    if is_visitor(request):
        who = (await login_of(request)).who
    else:
        shown = request.headers.get("authorization", "")
        authenticator = (await service_of(request)).authenticator
        who = await authenticator.identify(peer_of(request), shown, lambda: _call_of(request))
        if who.role == "metrics" and request.scope["path"] != METRICS:
            raise NotAllowed(ONLY_METRICS)
    seat = seat_of(request)
    if seat is not None and not who.local:  # else the kernel has already identified the connection's owner
        seat.claim(who)
    return who


def is_visitor(request: Request) -> bool:
    """Whether the caller is a browser, or a program with a browser's login."""
    return "authorization" not in request.headers and is_browser(request.headers)


async def login_of(request: Request) -> Login:
    logins = (await service_of(request)).logins
    return await find_login(logins, peer_of(request), request.method, request.headers)


def peer_of(request: Request) -> Peer | None:
    return getattr(request.state, "peer", None)


def seat_of(request: Request) -> Seat | None:
    return getattr(request.state, "seat", None)


async def _call_of(request: Request) -> str:
    """The call as a line, as a MUNGE credential contains it."""
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    return call_line(request.method, target.decode("latin-1"), await request.body())


OfService = Annotated[Service, Depends(service_of)]
Caller = Annotated[Who, Depends(identify_caller)]


async def _require_administrator(who: Caller) -> Who:
    check_administrator(who)
    return who


Administrator = Annotated[Who, Depends(_require_administrator)]
NodeName = Annotated[str, Path(max_length=100, description="The node's name.")]
Wait = Annotated[float, Query(ge=0, le=60, description="The longest wait, in seconds.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="The largest number of results.")]
Maybe = Body(default=None)


async def wait_until(service: Service, who: Who, name: str, seconds: float, is_over: Callable[[Live], bool]) -> Live:
    """Wait for changes of this name until `is_over`, or until the time is over; returns the state."""
    live, end = await service.writer.now(), service.monotonic() + seconds
    service.waits.check(who)
    with service.waits.count_waiting(who):
        while not is_over(live):
            changed = await service.changes.wait(name, end - service.monotonic())
            live = await service.writer.now()
            if not changed:
                break
    return live


def resume_after(last_event_id: str) -> int | None:
    """The number after which a browser continues a stream; None if it names none."""
    is_number = last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19
    return int(last_event_id) if is_number else None
