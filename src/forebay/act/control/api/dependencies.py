"""What all routes share: the service, the caller, parameters, and answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

from fastapi import Body, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from forebay.act.control.api.limits import Seat
from forebay.act.control.auth.browsers import find_login, is_browser
from forebay.act.control.auth.callers import ONLY_METRICS, Peer, Who, check_administrator
from forebay.act.control.auth.logins import Login
from forebay.act.control.auth.munge import call_line
from forebay.act.control.service.service import Service
from forebay.model.grant import NotAllowed

METRICS = "/metrics"
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


# FastAPI runs a dependency that is not async in another thread.
async def _service(request: Request) -> Service:
    return service_of(request)


async def identify_caller(request: Request) -> Who:
    if is_visitor(request):
        return _claim_seat(request, (await login_of(request)).who)
    shown = request.headers.get("authorization", "")
    who = await service_of(request).authenticator.identify(peer_of(request), shown, lambda: _called(request))
    if who.role == "metrics" and request.scope["path"] != METRICS:
        raise NotAllowed(ONLY_METRICS)
    return _claim_seat(request, who)


def is_visitor(request: Request) -> bool:
    """Whether a browser calls, or a program that shows a browser's login."""
    return "authorization" not in request.headers and is_browser(request.headers)


async def login_of(request: Request, method: str = "") -> Login:
    """The login of a browser; `method` is the request's own unless given."""
    logins = service_of(request).logins
    return await find_login(logins, peer_of(request), method or request.method, request.headers)


def peer_of(request: Request) -> Peer | None:
    return getattr(request.state, "peer", None)


def _seat_of(request: Request) -> Seat | None:
    return getattr(request.state, "seat", None)


def _claim_seat(request: Request, who: Who) -> Who:
    """Count the connection as this caller's, unless the kernel has already said whose it is."""
    seat = _seat_of(request)
    if seat is not None and not who.local:
        seat.claim(who)
    return who


def address_of(request: Request) -> str:
    """Where a call comes from; "" on a UNIX socket."""
    seat = _seat_of(request)
    return "" if seat is None else seat.address


async def _called(request: Request) -> str:
    """The call, as a MUNGE credential contains it."""
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    return call_line(request.method, target.decode("latin-1"), await request.body())


async def _require_administrator(who: Caller) -> Who:
    check_administrator(who)
    return who


OfService = Annotated[Service, Depends(_service)]
Caller = Annotated[Who, Depends(identify_caller)]
Administrator = Annotated[Who, Depends(_require_administrator)]
NodeName = Annotated[str, Path(max_length=100, description="The node's name.")]
GrantName = Annotated[str, Path(max_length=64, description="The grant's name.")]
Wait = Annotated[float, Query(ge=0, le=60, description="Seconds to wait at most.")]
Number = Annotated[int, Query(ge=0, lt=2**62, description="A number of the journal.")]
Limit = Annotated[int, Query(ge=1, le=10_000, description="How many at most.")]
Maybe = Body(default=None)


def resume_after(last_event_id: str) -> int | None:
    """The number at which a browser continues a stream; None if it does not say."""
    is_number = last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19
    return int(last_event_id) if is_number else None


def encode(document: object) -> str:
    return _ENCODER.encode(document)


class Ascii(JSONResponse):
    """JSON in ASCII: fields of users can contain characters that UTF-8 cannot encode."""

    def render(self, content: object) -> bytes:
        return encode(content).encode()


def answer(document: Mapping[str, object], status: int = 200) -> JSONResponse:
    """The document as it is; types check its shape, so that it need not be checked in every call."""
    return Ascii(document, status)


def answer_encoded(text: str) -> Response:
    return Response(text.encode(), media_type="application/json")
