"""Logging in at the page, and out again."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from forebay.act.control.api.answers import Id, Moment
from forebay.act.control.api.dependencies import ERRORS, Caller, OfService, address_of, answer
from forebay.act.control.auth.browsers import cookie_of, from_browser, visitor
from forebay.act.control.auth.logins import COOKIE, Login
from forebay.act.control.errors import NotLoggedIn
from forebay.act.forward.net.address import parse_address
from forebay.history.toml import Field, Table
from forebay.model.errors import Refused
from forebay.model.grant import NotAllowed

routes = APIRouter(tags=["page"], responses=ERRORS)
_ANY_HOST = ("0.0.0.0", "::")


class LoginForm(Table):
    """A token, or the secret of a one-time link."""

    secret: str = Field(min_length=1, max_length=500)


class LoginAnswer(Table):
    """Who has logged in, and until when (0: by the kernel's word, as long as it lasts).

    `proof` goes into the header X-Forebay of all that the page changes.
    """

    role: Literal["user", "administrator"]
    name: str
    uid: Id
    until: Moment
    proof: str


class LinkAnswer(Table):
    """To open once, in a browser, until then; `link` is "" where the service does not listen on TCP."""

    secret: str
    until: Moment
    link: str


class Left(Table):
    """Whether there was a login to end."""

    done: Literal[0, 1]


@routes.post("/v1/login", response_model=None, responses={200: {"model": LoginAnswer}})
async def enter(request: Request, service: OfService, form: LoginForm) -> JSONResponse:
    """Change a token or a one-time link for a cookie."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("another page asked for this, not Forebay's own")
    host = address_of(request)
    login = await service.logins.enter(form.secret.strip(), host)
    service.log.info("login", name=login.who.name, role=login.who.role, host=host)
    answered = answer(told_of(login))
    answered.set_cookie(
        COOKIE, login.cookie, max_age=int(login.until - service.clock()), path="/", secure=True, httponly=True,
        samesite="strict",
    )  # fmt: skip
    return answered


@routes.get("/v1/login", response_model=None, responses={200: {"model": LoginAnswer}})
async def entered(request: Request, service: OfService) -> JSONResponse:
    """Who has logged in."""
    peer = getattr(request.state, "peer", None)
    if not from_browser(request.headers) and peer is None:
        raise NotLoggedIn("log in first")
    return answer(told_of(await visitor(service.logins, peer, "GET", request.headers)))


@routes.post("/v1/logout", response_model=None, responses={200: {"model": Left}})
async def leave(request: Request, service: OfService) -> JSONResponse:
    """From now on the cookie does not count."""
    cookie = cookie_of(request.headers)
    if cookie:
        await visitor(service.logins, None, "POST", request.headers)
        service.logins.leave(cookie)
    answered = answer({"done": int(bool(cookie))})
    answered.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return answered


@routes.post("/v1/login/link", response_model=None, responses={200: {"model": LinkAnswer}})
async def make_link(request: Request, service: OfService, who: Caller) -> JSONResponse:
    """A link that logs the caller in once; for those whom the kernel or MUNGE vouches for."""
    if request.headers.get("authorization", "").lower().startswith("bearer") or from_browser(request.headers):
        raise Refused("whoever has a token logs in with that; a link is for callers on the UNIX socket or by MUNGE")
    secret, until = service.logins.link(who)
    link = await asyncio.to_thread(_link, service.settings.listen, secret)  # whoever knows names may take its time
    return answer({"secret": secret, "until": until, "link": link})


def _link(listen: str, secret: str) -> str:
    """The secret stands where browsers keep it to themselves: it goes to no log and to no other page."""
    if not listen:
        return ""
    address = parse_address(listen, "service.listen")
    host = socket.getfqdn() if address.host in _ANY_HOST else address.host
    return f"https://{f'[{host}]' if ':' in host else host}:{address.port}/#login={secret}"


def told_of(login: Login) -> dict[str, Any]:
    """As the page is told."""
    who = login.who
    return {"role": who.role, "name": who.name, "uid": who.uid, "until": login.until, "proof": login.proof}
