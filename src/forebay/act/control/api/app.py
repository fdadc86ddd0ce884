"""The HTTP API: who calls, what is wrong in one line, and the description of it all."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from forebay import __version__
from forebay.act.control.api import admin, grants, login, nodes, page, strays, tiers
from forebay.act.control.api.dependencies import Ascii, identify_caller, service_of
from forebay.act.control.api.forms import AskForm
from forebay.act.control.api.limits import App, Message, Receive, Send, whole
from forebay.act.control.errors import ErrorCode, code_of_status, error_code, error_document
from forebay.act.control.service.service import Service
from forebay.model.errors import ForebayError


def build(service: Service) -> FastAPI:
    """The application over a service that is started and stopped by others."""
    app = FastAPI(title="Forebay", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.service = service
    for routes in (
        grants.routes,
        nodes.routes,
        strays.routes,
        tiers.routes,
        admin.routes,
        login.routes,
        page.routes,
    ):
        app.include_router(routes)
    app.add_middleware(_Lane)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(ForebayError, _refused)
    app.add_exception_handler(Exception, _broken)
    return app


def _answer(code: ErrorCode, sentence: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if code.status == 401 else None
    return Ascii(error_document(code, sentence), code.status, headers)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, ForebayError)
    return _answer(error_code(error), str(error))


async def _malformed(_: Request, error: Exception) -> Response:
    """The first thing that is wrong with a request, and where it stands."""
    assert isinstance(error, RequestValidationError)
    first: Any = error.errors()[0]
    where = ".".join(str(step) for step in first["loc"] if step not in ("body", "query", "path"))
    if first["type"] == "json_invalid":
        return _answer(ErrorCode.MALFORMED, "request body is not valid JSON")
    got = "" if first["type"] in ("missing", "extra_forbidden") else f", not {_short(first.get('input'))}"
    words = {"missing": "is missing", "extra_forbidden": "unknown field"}.get(first["type"], first["msg"])
    return _answer(ErrorCode.MALFORMED, f"{where or 'body'}: {words[0].lower()}{words[1:]}{got}")


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    document = error_document(code_of_status(error.status_code), str(error.detail).lower())
    return Ascii(document, error.status_code, error.headers)


async def _broken(request: Request, error: Exception) -> Response:
    service_of(request).log.error("internal error", path=request.url.path, because=repr(error)[:500])
    return _answer(ErrorCode.INTERNAL, "internal error; see the service log")


class _Lane:
    """A way of its own for what is asked most, a request for space: the general one takes longer than to decide it.

    Whatever is not as it should be goes the general way, which knows how to say so.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/v1/grants" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        again = whole(body or b"", receive)
        form = None if body is None else _form(scope, body)
        if form is None:
            await self._app(scope, again, send)
            return
        request = Request(scope, again)
        try:
            response: Response = await grants.request_grant(service_of(request), await identify_caller(request), form)
        except ForebayError as error:
            response = await _refused(request, error)
        await response(scope, again, send)


async def _body(receive: Receive) -> bytes | None:
    """All of it; None if the caller hung up."""
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _form(scope: Message, body: bytes) -> AskForm | None:
    """What is asked for; None if it is not clear."""
    if (b"content-type", b"application/json") not in scope["headers"]:
        return None
    try:
        return AskForm.model_validate(json.loads(body))
    except (ValueError, RecursionError):
        return None
