"""Logins of browsers: by a cookie, or by the kernel through a tunnel to the UNIX socket.

A visitor exchanges a token or a one-time link for a cookie that expires. The cookie contains its owner and its end and
is signed, so that logins survive a restart of the service. The service checks the token at each call: removing the
token ends the login.

A browser sends its cookies, and reaches a tunnel, for every page that makes a call. So every change must come from our
own page, which proves it with a header that no other page can send.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from forebay.act.control.auth.callers import ONLY_METRICS, Authenticator, Peer, Who
from forebay.act.control.errors import LoginEnded, NotAuthenticated, NotLoggedIn, TooMany
from forebay.history.store.tokens import digest_token
from forebay.model.grant import NotAllowed

COOKIE = "__Host-forebay"
"""The prefix makes browsers accept the cookie only over TLS, for this host and for all its paths."""
PROOF = "x-forebay"  # the header of changes from the page
TUNNEL = "tunnel"  # the header's value without a login, where the kernel identifies the caller
_SAFE = ("GET", "HEAD")
_OUR_SITE = ("same-origin", "none")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
LASTS = 12 * 3600.0  # seconds that a login lasts
_LINK = 300.0  # seconds that a one-time link lasts
_FREE = 5  # wrong secrets from one host before it must wait
_LONGEST = 60.0  # seconds between tries
_MOST_HOSTS = 10_000
_MOST_LINKS = 1000
_ENDED = "your login has ended; log in again"


class Login(NamedTuple):
    """A visitor who is logged in: the cookie, its end, and the proof that our own page makes a call."""

    who: Who
    cookie: str
    until: float
    proof: str


def signing_key(key: Path | None) -> bytes:
    """The key that signs cookies: derived from the key of the service's certificate, or random without one."""
    return secrets.token_bytes(32) if key is None else hashlib.sha256(b"forebay page\0" + key.read_bytes()).digest()


class Logins:
    """Creates and checks logins; `clock` gives seconds since 1970."""

    def __init__(self, authenticator: Authenticator, key: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._authenticator, self._key, self._clock = authenticator, key, clock
        self._links: OrderedDict[str, tuple[Who, float]] = OrderedDict()
        self._left: dict[str, float] = {}
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()  # wrong secrets by host, and its next try

    def make_link(self, who: Who) -> tuple[str, float]:
        """A one-time secret to log this caller in, and its end. The kernel or MUNGE has identified the caller."""
        if who.role == "agent":
            raise NotAllowed("the page is for people, not for agents")
        code, until = secrets.token_urlsafe(24), self._clock() + _LINK
        self._links[digest_token(code)] = who, until
        while len(self._links) > _MOST_LINKS:
            self._links.popitem(last=False)
        return code, until

    async def log_in(self, secret: str, host: str) -> Login:
        """Log in with a token or a one-time link. Each failure makes the host wait longer."""
        wait = self._failed.get(host, (0, 0.0))[1] - self._clock()
        if wait > 0:
            raise TooMany(f"too many failed logins; try again in {wait:.0f} s")
        try:
            payload = await self._exchange(secret)
        except NotAuthenticated:
            count = self._failed.pop(host, (0, 0.0))[0] + 1
            pause = min(_LONGEST, 2.0 ** (count - _FREE)) if count >= _FREE else 0.0
            self._failed[host] = count, self._clock() + pause
            while len(self._failed) > _MOST_HOSTS:
                self._failed.popitem(last=False)
            raise
        self._failed.pop(host, None)
        payload |= {"n": secrets.token_hex(8), "e": round(self._clock() + LASTS)}
        text = base64.urlsafe_b64encode(json.dumps(payload, separators=(",", ":")).encode()).decode().rstrip("=")
        return await self.check(f"{text}.{self._sign('cookie', text)}")

    async def _exchange(self, secret: str) -> dict[str, Any]:
        """The owner of a new cookie: a user, or a token."""
        digest = digest_token(secret)
        who, until = self._links.pop(digest, (None, 0.0))
        if who is not None and until > self._clock():
            return {"u": who.uid, "g": who.gid}
        try:
            who = await self._authenticator.by_digest(digest)
        except NotAuthenticated:
            raise NotAuthenticated("the token is unknown, or the link has expired") from None
        if who.role == "agent":
            raise NotAllowed("this is an agent's token; the page is for people")
        if who.role == "metrics":
            raise NotAllowed(ONLY_METRICS)
        return {"d": digest}

    async def check(self, cookie: str) -> Login:
        """The login of a cookie; raises LoginEnded if it is no longer valid."""
        text, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("cookie", text).encode()) or text in self._left:
            raise LoginEnded(_ENDED)
        payload = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if payload["e"] <= self._clock():
            raise LoginEnded(_ENDED)
        if "u" in payload:
            who = self._authenticator.user(payload["u"], payload["g"])
        else:
            try:
                who = await self._authenticator.by_digest(payload["d"])
            except NotAuthenticated:
                raise LoginEnded("your token was removed; ask an administrator for a new one") from None
        return Login(who=who, cookie=cookie, until=payload["e"], proof=self._sign("proof", text))

    def local(self, peer: Peer) -> Login:
        """The login of the user at the other end of the UNIX socket, through a tunnel."""
        return Login(who=self._authenticator.user(peer.uid, peer.gid), cookie="", until=0.0, proof=TUNNEL)

    def log_out(self, cookie: str) -> None:
        now = self._clock()
        self._left = {text: until for text, until in self._left.items() if until > now}
        self._left[cookie.partition(".")[0]] = now + LASTS

    def _sign(self, use: str, text: str) -> str:
        return hmac.new(self._key, f"{use} {text}".encode(), hashlib.sha256).hexdigest()


def is_browser(headers: Mapping[str, str]) -> bool:
    """Whether the caller is a browser, or has a login."""
    return "sec-fetch-site" in headers or "origin" in headers or COOKIE in headers.get("cookie", "")


async def find_login(logins: Logins, peer: Peer | None, method: str, headers: Mapping[str, str]) -> Login:
    """The login of a browser's call; raises NotAuthenticated or NotAllowed without one."""
    if headers.get("sec-fetch-site", "none") not in _OUR_SITE and method not in _SAFE:
        raise NotAllowed("the request comes from a page of another site")
    cookie = cookie_of(headers)
    if cookie:
        login = await logins.check(cookie)
    elif peer is None:
        raise NotLoggedIn("you are not logged in; log in first")
    elif urlsplit(f"//{headers.get('host', '')}").hostname in _THIS_MACHINE:
        login = logins.local(peer)
    else:  # another host name means that another site's page calls
        raise NotAllowed("open the page at http://localhost:PORT; a tunnel serves no other host name")
    if method not in _SAFE and not hmac.compare_digest(headers.get(PROOF, "").encode(), login.proof.encode()):
        raise NotAllowed(f"the header {PROOF} of Forebay's page is missing or wrong; load the page again")
    return login


def cookie_of(headers: Mapping[str, str]) -> str:
    """The cookie of a login; "" for none."""
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")
