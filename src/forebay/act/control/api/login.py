"""Logging in on the page, and out again."""

from __future__ import annotations

import asyncio
import socket
from typing import Literal, cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from forebay.act.control.api.dependencies import Caller, OfService, address_of, answer, login_of, peer_of
from forebay.act.control.api.description import ERRORS, returns
from forebay.act.control.api.forms import LoginForm
from forebay.act.control.auth.browsers import cookie_of, find_login, is_browser
from forebay.act.control.auth.logins import COOKIE, Login
from forebay.act.control.documents import LoginDocument, LoginLink, LogoutDocument
from forebay.act.control.errors import NotLoggedIn
from forebay.act.forward.net.address import parse_address
from forebay.model.errors import Refused
from forebay.model.grant import NotAllowed

routes = APIRouter(tags=["page"], responses=ERRORS)
_ANY_HOST = ("0.0.0.0", "::")


@routes.post("/v1/login", **returns(LoginDocument))
async def log_in(request: Request, service: OfService, form: LoginForm) -> JSONResponse:
    """Exchange a token or a one-time link for a cookie."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("the request comes from another site's page")
    host = address_of(request)
    login = await service.logins.log_in(form.secret.strip(), host)
    service.log.info("login", name=login.who.name, role=login.who.role, host=host)
    response = answer(login_document(login))
    response.set_cookie(
        COOKIE, login.cookie, max_age=int(login.until - service.clock()), path="/", secure=True, httponly=True,
        samesite="strict",
    )  # fmt: skip
    return response


@routes.get("/v1/login", **returns(LoginDocument))
async def show_login(request: Request) -> JSONResponse:
    """Who has logged in."""
    if not is_browser(request.headers) and peer_of(request) is None:
        raise NotLoggedIn("log in first")
    return answer(login_document(await login_of(request)))


@routes.post("/v1/logout", **returns(LogoutDocument))
async def log_out(request: Request, service: OfService) -> JSONResponse:
    """End the login. Its cookie stops working."""
    cookie = cookie_of(request.headers)
    if cookie:
        await find_login(service.logins, None, "POST", request.headers)
        service.logins.log_out(cookie)
    response = answer(LogoutDocument(done=1 if cookie else 0))
    response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    return response


@routes.post("/v1/login/link", **returns(LoginLink))
async def make_link(request: Request, service: OfService, who: Caller) -> JSONResponse:
    """A link that logs the caller in once, for callers on the UNIX socket or with MUNGE."""
    if request.headers.get("authorization", "").lower().startswith("bearer") or is_browser(request.headers):
        raise Refused("log in with your token; links are for callers on the UNIX socket or with MUNGE")
    secret, until = service.logins.make_link(who)
    link = await asyncio.to_thread(_link, service.settings.listen, secret)  # a name server can be slow
    return answer(LoginLink(secret=secret, until=until, link=link))


def _link(listen: str, secret: str) -> str:
    """The secret is in the fragment, which browsers send to nobody."""
    if not listen:
        return ""
    address = parse_address(listen, "service.listen")
    host = socket.getfqdn() if address.host in _ANY_HOST else address.host
    return f"https://{f'[{host}]' if ':' in host else host}:{address.port}/#login={secret}"


def login_document(login: Login) -> LoginDocument:
    who = login.who
    role = cast(Literal["user", "administrator"], who.role)
    return {"role": role, "name": who.name, "uid": who.uid, "until": login.until, "proof": login.proof}
