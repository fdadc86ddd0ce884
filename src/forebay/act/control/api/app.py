"""The HTTP API as an application: it limits bodies, counts calls, and reports each error in one line."""

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from forebay import __version__
from forebay.act.control import errors
from forebay.act.control.api import admin, grants, nodes, page
from forebay.act.control.api.connection_limits import Calls, Seat
from forebay.act.control.api.forms import AskForm
from forebay.act.control.api.routing import Answer, identify_caller, service_of
from forebay.act.control.service.service import Service
from forebay.act.control.service.settings import Limits
from forebay.history.toml import ValidationError, describe_requirement
from forebay.model.errors import ForebayError
from forebay.model.units import format_size

OTHER = "other"
"""The label of unknown paths and methods in the metrics, so that callers cannot invent labels."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_REQUESTS = "/v1/grants"
_BODY = "forebay.body"  # the key of the whole body in a call's scope


def build(service: Service) -> FastAPI:
    """The application of a service. The caller starts and stops the service."""
    app = FastAPI(title="Forebay", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.service = service
    for routes in (grants.routes, nodes.routes, admin.routes, page.routes, page.page_routes):
        app.include_router(routes)
    app.add_middleware(_ShortWay)
    for kind in (RequestValidationError, ValidationError, HTTPException, ForebayError, Exception):
        app.add_exception_handler(kind, _answer_error)
    return app


async def _answer_error(request: Request, error: Exception) -> Response:
    status, headers = 0, None
    if isinstance(error, ForebayError):
        code, sentence = errors.error_code(error), str(error)
    elif isinstance(error, RequestValidationError | ValidationError):
        code, sentence = errors.ErrorCode.MALFORMED, _describe_mistake(error.errors()[0])
    elif isinstance(error, HTTPException):
        code, sentence = errors.code_of_status(error.status_code), str(error.detail).lower()
        status, headers = error.status_code, error.headers
    else:
        service = await service_of(request)
        service.log.error("internal error", path=request.url.path, because=repr(error)[:500])
        code, sentence = errors.ErrorCode.INTERNAL, "internal error; see the service log"
    if code.status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    return Answer(errors.error_document(code, sentence), status or code.status, headers)


def _describe_mistake(mistake: Any) -> str:
    if mistake["type"] == "json_invalid":
        return "request body is not valid JSON"
    if mistake["loc"] == ("body",) and mistake["type"] == "model_attributes_type":
        return "request body must be a JSON object, sent with Content-Type: application/json"
    where = ".".join(str(step) for step in mistake["loc"] if step not in ("body", "query", "path")) or "body"
    reason = {"missing": "is missing", "extra_forbidden": "unknown field"}.get(mistake["type"])
    if mistake["type"] == "value_error":
        reason = str(mistake["ctx"]["error"])  # our own message, which includes the value
    elif reason is None:
        text = json.dumps(mistake.get("input"), default=str)
        got = text if len(text) <= 60 else f"{text[:57]}..."
        reason = f"{describe_requirement(mistake)}, not {got}"
    return f"{where}: {reason}"


class _ShortWay:
    """A short path for the most frequent call, a request for space: FastAPI's routing takes longer than the decision.

    Invalid calls take FastAPI's path, which describes their errors.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            answer = await _answer_error(request, error)
        await answer(scope, receive, send)


def _read_form(scope: Scope) -> AskForm | None:
    """The form of a call that is a valid request for space; None for other calls."""
    is_request = _BODY in scope and scope["path"] == _REQUESTS and scope["method"] == "POST"
    if not is_request or (b"content-type", b"application/json") not in scope["headers"]:
        return None
    try:
        return AskForm.model_validate(json.loads(scope[_BODY]))
    except (ValueError, RecursionError):
        return None


class Bounded:
    """Counts all answers, limits the size of bodies, and passes each body as a whole."""

    def __init__(self, app: ASGIApp, limits: Limits, calls: Calls) -> None:
        self._app, self._limits, self._calls, self._held = app, limits, calls, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
            code = errors.error_code(error)
            await Answer(errors.error_document(code, str(error)), code.status)(scope, receive, count)
        finally:
            self._held -= len(body)
            if seat is not None:
                seat.end_call()

    async def _read_body(self, body: bytearray, length: int | None, most: float, receive: Receive) -> bool:
        """Read a body; returns False if the caller disconnected before its end."""
        too_large = errors.TooLarge(f"request body too large (limit {format_size(most)})")
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
                raise errors.Unavailable("callers are sending too much data at once; try again")
        return True


def _length(scope: Scope) -> int | None:
    """The length of the body in bytes, 0 without a body, None if unknown."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
        if name == b"transfer-encoding":
            return None
    return 0


def _receive_again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that repeats a body that was read, then continues with the original."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again
