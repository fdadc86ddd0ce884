"""The HTTP API as an application: bodies and connections are bounded, calls counted, and errors told in one line."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from forebay import __version__
from forebay.act.control.api import admin, grants, nodes, page
from forebay.act.control.api.dependencies import Answer, identify_caller, service_of
from forebay.act.control.api.forms import AskForm
from forebay.act.control.api.limits import Calls, Seat
from forebay.act.control.errors import (
    ErrorCode,
    TooLarge,
    Unavailable,
    code_of_status,
    encode_error,
    error_code,
    error_document,
)
from forebay.act.control.service.service import Service
from forebay.act.control.service.settings import Limits
from forebay.history.toml import ValidationError
from forebay.model.errors import ForebayError
from forebay.model.units import format_size

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
OTHER = "other"
"""A path that leads nowhere, or a method that nobody knows: callers must not make up names for us to keep."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_REQUESTS = "/v1/grants"
_BODY = "forebay.body"  # where a call's scope has the whole body


def build(service: Service) -> FastAPI:
    """The application over a service that is started and stopped by others."""
    app = FastAPI(title="Forebay", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.service = service
    for routes in (
        grants.routes,
        grants.batch_routes,
        nodes.routes,
        nodes.tier_routes,
        nodes.stray_routes,
        admin.routes,
        page.login_routes,
        page.routes,
    ):
        app.include_router(routes)
    app.add_middleware(_ShortWay)
    app.add_exception_handler(RequestValidationError, _answer_malformed)
    app.add_exception_handler(ValidationError, _answer_malformed)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(ForebayError, _answer_refusal)
    app.add_exception_handler(Exception, _answer_defect)
    return app


def _answer(code: ErrorCode, sentence: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if code.status == 401 else None
    return Answer(error_document(code, sentence), code.status, headers)


async def _answer_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, ForebayError)
    return _answer(error_code(error), str(error))


async def _answer_malformed(_: Request, error: Exception) -> Response:
    """The first thing that is wrong with a request, and where it stands."""
    assert isinstance(error, RequestValidationError | ValidationError)
    first: Any = error.errors()[0]
    kind = first["type"]
    if kind == "json_invalid":
        return _answer(ErrorCode.MALFORMED, "request body is not valid JSON")
    where = ".".join(str(step) for step in first["loc"] if step not in ("body", "query", "path")) or "body"
    reason = {"missing": "is missing", "extra_forbidden": "unknown field"}.get(kind)
    if kind == "value_error":
        reason = str(first["ctx"]["error"])  # our own, which includes the value
    elif reason is None:
        text = json.dumps(first.get("input"), default=str)
        got = text if len(text) <= 60 else f"{text[:57]}..."
        reason = f"{first['msg'][0].lower()}{first['msg'][1:]}, not {got}"
    return _answer(ErrorCode.MALFORMED, f"{where}: {reason}")


async def _answer_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    document = error_document(code_of_status(error.status_code), str(error.detail).lower())
    return Answer(document, error.status_code, error.headers)


async def _answer_defect(request: Request, error: Exception) -> Response:
    service = await service_of(request)
    service.log.error("internal error", path=request.url.path, because=repr(error)[:500])
    return _answer(ErrorCode.INTERNAL, "internal error; see the service log")


class _ShortWay:
    """A short way for the most frequent call, a request for space: the general way takes longer than to decide it.

    Whatever is wrong with a call goes the general way, which knows how to say so.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        form = _read_form(scope)
        if form is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer: Response = await grants.request_grant(
                await service_of(request), await identify_caller(request), form
            )
        except ForebayError as error:
            answer = await _answer_refusal(request, error)
        await answer(scope, receive, send)


def _read_form(scope: Message) -> AskForm | None:
    """The requested space, if the call is a clear request."""
    is_request = _BODY in scope and scope["path"] == _REQUESTS and scope["method"] == "POST"
    if not is_request or (b"content-type", b"application/json") not in scope["headers"]:
        return None
    try:
        return AskForm.model_validate(json.loads(scope[_BODY]))
    except (ValueError, RecursionError):
        return None


class Bounded:
    """Counts all answers, and gives the application bodies of a size that it can bear, each as a whole."""

    def __init__(self, app: App, limits: Limits, calls: Calls) -> None:
        self._app, self._limits, self._calls, self._held = app, limits, calls, 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", _REQUESTS if scope["path"] == _REQUESTS else OTHER)
                method = scope["method"] if scope["method"] in _METHODS else OTHER
                self._calls[route, method, message["status"]] += 1
            await send(message)

        seat: Seat | None = scope.get("state", {}).get("seat")
        body = bytearray()
        try:
            if seat is not None:
                seat.begin_call(scope["headers"])
            if (length := _length(scope)) != 0:
                if not await self._read_body(body, length, self._limits.body_of(scope["path"]), receive):
                    return
                scope[_BODY] = bytes(body)
                receive = _receive_again(scope[_BODY], receive)
            await self._app(scope, receive, count)
        except ForebayError as error:
            await _refuse(count, error)
        finally:
            self._held -= len(body)
            if seat is not None:
                seat.end_call()

    async def _read_body(self, body: bytearray, length: int | None, most: float, receive: Receive) -> bool:
        """Whether it came as a whole; else the caller hung up."""
        too_large = TooLarge(f"request body too large (limit {format_size(most)})")
        if length is not None and length > most:
            raise too_large
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return False
            more, part = message.get("more_body", False), message.get("body", b"")
            body += part
            self._held += len(part)
            if len(body) > most:
                raise too_large
            if self._held > self._limits.bodies:
                raise Unavailable("too much data is being sent at once; try again")
        return True


def _length(scope: Message) -> int | None:
    """Bytes of the body, 0 without one, None if the caller does not say."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
        if name == b"transfer-encoding":
            return None
    return 0


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """Receive a body once more, then whether the caller hung up."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


async def _refuse(send: Send, error: ForebayError) -> None:
    body = encode_error(error_code(error), str(error))
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": error_code(error).status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
