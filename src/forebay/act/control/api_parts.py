"""What all parts of the API share: the service, who calls, and what errors look like in the description."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query, Request
from fastapi.responses import JSONResponse

from forebay.act.control.auth import Who, only_administrators
from forebay.act.control.service import Service
from forebay.history.toml import Table

LONGEST_WAIT = 60.0


class Trouble(Table):
    """What is wrong, in one line."""

    error: str


_WORDS = {400: "makes no sense", 401: "nobody known", 403: "not allowed", 404: "not there", 409: "can't be now"}
ERRORS: dict[int | str, dict[str, Any]] = {
    **{status: {"model": Trouble, "description": words} for status, words in _WORDS.items()},
    405: {"model": Trouble, "description": "no such method"},
    503: {"model": Trouble, "description": "the store does not answer; ask again"},
}


def told(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


# Those that are not async would each be run in another thread.
async def _service(request: Request) -> Service:
    return told(request)


async def _who(request: Request) -> Who:
    peer = getattr(request.state, "peer", None)
    return await told(request).doorman.who(peer, request.headers.get("authorization", ""))


async def _administrator(who: Caller) -> Who:
    only_administrators(who)
    return who


OfService = Annotated[Service, Depends(_service)]
Caller = Annotated[Who, Depends(_who)]
Administrator = Annotated[Who, Depends(_administrator)]
NodeName = Annotated[str, Path(max_length=100)]
GrantName = Annotated[str, Path(max_length=64)]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait at most.")]
Maybe = Body(default=None)


class Plain(JSONResponse):
    """In ASCII, as free-form fields may have letters that there is no UTF-8 for."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def answer(document: Any, status: int = 200) -> JSONResponse:
    """As it is: what it looks like is declared, not checked again for every answer."""
    return Plain(document, status)
