"""How many calls there were, by route, method and status, for those who watch."""

from __future__ import annotations

from collections import Counter

from forebay.act.control.api.limits import App, Message, Receive, Send

Calls = Counter[tuple[str, str, int]]
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_LANE = "/v1/grants"
OTHER = "other"
"""A path that leads nowhere, or a method that nobody knows: callers must not make up names for us to keep."""


class Counted:
    """Counts an answer when its first line goes out."""

    def __init__(self, app: App, calls: Calls) -> None:
        self._app, self._calls = app, calls

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._calls[_route(scope), _method(scope), message["status"]] += 1
            await send(message)

        await self._app(scope, receive, counted)


def _route(scope: Message) -> str:
    """The path as it is declared, so that all grants are one."""
    route = scope.get("route")
    if route is not None:
        return str(route.path)
    return _LANE if scope["path"] == _LANE else OTHER


def _method(scope: Message) -> str:
    return scope["method"] if scope["method"] in _METHODS else OTHER
