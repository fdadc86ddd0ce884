"""Browsers as callers: identified by the cookie of a login, or by the kernel through a tunnel to the UNIX socket.

A browser sends its cookies, and gets through a tunnel, whichever page makes the call. So every change must come from
our own page, which proves it with a header that no other page can send.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from forebay.act.control.auth.callers import Peer
from forebay.act.control.auth.logins import COOKIE, Login, Logins
from forebay.act.control.errors import NotLoggedIn
from forebay.model.grant import NotAllowed

PROOF = "x-forebay"
"""The header of changes from the page."""
TUNNEL = "tunnel"
"""What it says where there is no login, as the kernel tells who calls."""
_SAFE = ("GET", "HEAD")
_OWN = ("same-origin", "none")
_HERE = ("localhost", "127.0.0.1", "::1")


def is_browser(headers: Mapping[str, str]) -> bool:
    """Whether a browser calls, or somebody with a login."""
    return "sec-fetch-site" in headers or "origin" in headers or COOKIE in headers.get("cookie", "")


async def find_login(logins: Logins, peer: Peer | None, method: str, headers: Mapping[str, str]) -> Login:
    """Who it is; NotAuthenticated or NotAllowed in words otherwise."""
    if headers.get("sec-fetch-site", "none") not in _OWN and method not in _SAFE:
        raise NotAllowed("the request comes from another site's page")
    cookie = cookie_of(headers)
    if cookie:
        login = await logins.check(cookie)
    elif peer is not None:
        _check_host(headers.get("host", ""))
        login = Login(who=logins.local(peer), cookie="", until=0.0, proof=TUNNEL)
    else:
        raise NotLoggedIn("log in first")
    if method not in _SAFE and not hmac.compare_digest(headers.get(PROOF, "").encode(), login.proof.encode()):
        raise NotAllowed(f"a browser's changes need the header {PROOF} of Forebay's own page; load the page again")
    return login


def cookie_of(headers: Mapping[str, str]) -> str:
    """The login's cookie, "" for none."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _check_host(host: str) -> None:
    """Through a tunnel the service is at this machine; any other name is that of a page which only pretends to be."""
    if urlsplit(f"//{host}").hostname not in _HERE:
        raise NotAllowed("through a tunnel the service's page is at http://localhost:PORT")
