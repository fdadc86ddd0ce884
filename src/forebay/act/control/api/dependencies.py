"""What all parts of the API share: the service, who calls, and what errors look like in the description."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from forebay.act.control.api.limits import Seat
from forebay.act.control.auth.browsers import from_browser, visitor
from forebay.act.control.auth.callers import ONLY_METRICS, Who, only_administrators
from forebay.act.control.auth.munge import call_of
from forebay.act.control.errors import ErrorCode
from forebay.act.control.service.service import Service
from forebay.history.toml import Field, Table
from forebay.model.grant import NotAllowed

LONGEST_WAIT = 60.0
METRICS = "/metrics"


class Error(Table):
    """What went wrong: a sentence for people, and a code for programs."""

    error: str
    code: Annotated[str, Field(json_schema_extra={"enum": [code.value for code in ErrorCode]})]


def _described(status: int) -> dict[str, Any]:
    codes = [code for code in ErrorCode if code.status == status]
    return {"model": Error, "description": " ".join(f"`{code.value}`: {code.meaning}" for code in codes)}


ERRORS: dict[int | str, dict[str, Any]] = {code.status: _described(code.status) for code in ErrorCode}


def told(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


# Those that are not async would each be run in another thread.
async def _service(request: Request) -> Service:
    return told(request)


async def who_calls(request: Request) -> Who:
    service, peer, shown = told(request), getattr(request.state, "peer", None), request.headers
    if "authorization" not in shown and from_browser(shown):
        return _seated(request, (await visitor(service.logins, peer, request.method, shown)).who)
    who = await service.doorman.who(peer, shown.get("authorization", ""), lambda: _called(request))
    if who.role == "metrics" and request.scope["path"] != METRICS:
        raise NotAllowed(ONLY_METRICS)
    return _seated(request, who)


def _seated(request: Request, who: Who) -> Who:
    """Its connection counts as this caller's from now on, unless the kernel has told already whose it is."""
    seat: Seat | None = getattr(request.state, "seat", None)
    if seat is not None and not who.local:
        seat.claim(who)
    return who


def address_of(request: Request) -> str:
    """Where a call comes from; "" on a UNIX socket."""
    seat: Seat | None = getattr(request.state, "seat", None)
    return "" if seat is None else seat.address


async def _called(request: Request) -> str:
    """What is called, as a MUNGE credential has it."""
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    return call_of(request.method, target.decode("latin-1"), await request.body())


async def _administrator(who: Caller) -> Who:
    only_administrators(who)
    return who


OfService = Annotated[Service, Depends(_service)]
Caller = Annotated[Who, Depends(who_calls)]
Administrator = Annotated[Who, Depends(_administrator)]
NodeName = Annotated[str, Path(max_length=100)]
GrantName = Annotated[str, Path(max_length=64)]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait at most.")]
Maybe = Body(default=None)


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def in_words(document: Any) -> str:
    return _ENCODER.encode(document)


class Plain(JSONResponse):
    """In ASCII, as free-form fields may have letters that there is no UTF-8 for."""

    def render(self, content: Any) -> bytes:
        return in_words(content).encode()


def answer(document: Any, status: int = 200) -> JSONResponse:
    """As it is: what it looks like is declared, not checked again for every answer."""
    return Plain(document, status)


def written(text: str) -> Response:
    """What is JSON already."""
    return Response(text.encode(), media_type="application/json")
