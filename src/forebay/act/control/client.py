"""The control service as a caller sees it: over its UNIX socket or by https, one call a question."""

from __future__ import annotations

import os
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from forebay.act.control.auth.munge import NoMunge, call_of, credential, is_installed
from forebay.act.control.errors import ErrorCode, code_of_status
from forebay.act.forward.net.key import read_key
from forebay.model.errors import BadInput, UserError
from forebay.model.grant import ENDED, State

SERVICE = "unix:/run/forebay/service.sock"
"""Where the service is, if nobody says otherwise."""
_ANSWER = 30.0
"""Seconds that an answer may take, besides those that a call is asked to wait."""
_LONGEST = 25.0
"""Seconds of one long call."""
_PAUSES = (0.05, 0.1, 0.2, 0.5)
"""Seconds between tries to reach a service that is away; the last is kept."""
_SETTLED = frozenset({State.READY, State.IN_USE, State.RELEASING, *ENDED})

Document = dict[str, Any]


class ServiceAway(UserError):
    """Nobody answers, or not as the service would."""


class TurnedAway(UserError):
    """The service refused a call."""

    def __init__(self, code: ErrorCode, because: str) -> None:
        super().__init__(because)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the service listens, and how it is reached: exactly one of `socket` and `url` is set."""

    socket: str = ""
    url: str = ""

    def __str__(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.url


def parse_service(text: str, where: str = "service") -> Address:
    """
    >>> str(parse_service("unix:/run/forebay/service.sock")), str(parse_service("https://control.example.org:7443/"))
    ('unix:/run/forebay/service.sock', 'https://control.example.org:7443')
    """
    if text.startswith("unix:") and len(text) > 5:
        return Address(socket=text[5:])
    try:
        parts = urlsplit(text)
        fine = parts.scheme == "https" and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise BadInput(where, f"must be like 'unix:/path' or 'https://host:port', not {text!r}")
    return Address(url=text.rstrip("/"))


def service_of(service: str | None, environment: Mapping[str, str] = os.environ) -> Address:
    """The address that was given, or else that of $FOREBAY_SERVICE, or else the usual one."""
    if service:
        return parse_service(service, "--service")
    return parse_service(environment.get("FOREBAY_SERVICE") or SERVICE, "$FOREBAY_SERVICE")


class Client:
    """One caller. Calls may come from any thread.

    `token` is a file with the caller's token, for callers that the socket does not tell; without one, a call by https
    carries a MUNGE credential where MUNGE is installed (`munge` is its socket, if not the usual one). A service that
    can't be reached is tried again for `patience` seconds; every call is such that it can be sent twice.
    """

    def __init__(
        self, service: Address, *, token: Path | None = None, authority: Path | None = None, patience: float = 5.0,
        munge: Path | None = None,
    ) -> None:  # fmt: skip
        self.service, self.patience = service, patience
        headers = {} if token is None else {"Authorization": f"Bearer {read_key(token).decode('ascii', 'replace')}"}
        self._munge = service.url != "" and token is None and is_installed()
        self._munge_socket = munge
        # A socket needs no certificates, which take longer to read than most calls.
        tls = False if service.socket else _tls(authority)
        way = httpx.HTTPTransport(uds=service.socket or None, verify=tls)
        self._http = httpx.Client(transport=way, base_url=service.url or "http://forebay", headers=headers)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def health(self) -> Document:
        return self._document("GET", "/v1/health")

    def request(self, size: int | str, seconds: float | str, *, key: str = "", **more: Any) -> Document:
        """Ask for space; `more` as in the service's API: start, tier, fields, job, expose, uid, gid.

        What comes back may be granted, queued or refused. The same `key` again is the same request.
        """
        told = {name: value for name, value in more.items() if value}
        body = {"size": size, "seconds": seconds, "key": key or secrets.token_hex(16), **told}
        return self._document("POST", "/v1/grants", body)

    def grant(self, grant: str) -> Document:
        return self._document("GET", _of(grant))

    def story(self, grant: str) -> list[Document]:
        """All that happened to it, in order."""
        return self._list("GET", f"{_of(grant)}/story", "story")

    def grants(self, **which: str) -> Iterator[Document]:
        """Those with this `state`, `owner` or `node`; page by page."""
        told = {name: value for name, value in which.items() if value}
        while True:
            page = self._document("GET", "/v1/grants", params=told)
            yield from page["grants"]
            if not page.get("more"):
                return
            told["after"] = page["grants"][-1]["id"]

    def wait(self, grant: str, seconds: float = _LONGEST, *, known: str = "") -> Document:
        """The grant, once its state (or its place in the queue) has changed or the time is over.

        Where its state is another than the `known` one already, at once.
        """
        params = {"seconds": f"{min(seconds, _LONGEST):g}", **({"known": known} if known else {})}
        return self._document("GET", f"{_of(grant)}/wait", params=params, wait=_LONGEST)

    def settled(self, grant: Document, seconds: float = float("inf")) -> Iterator[Document]:
        """The grant as it is now and after each change, until it is ready or has ended or the time is over."""
        end = time.monotonic() + seconds
        yield grant
        while grant["state"] not in _SETTLED and (left := end - time.monotonic()) > 0:
            grant = self.wait(grant["id"], left, known=grant["state"])
            yield grant

    def release(self, grant: str) -> Document:
        return self._document("POST", f"{_of(grant)}/release", {})

    def extend(self, grant: str, seconds: float) -> Document:
        """Let it end so much later. The new end is told, so that to send it again does not extend it twice."""
        return self._document("POST", f"{_of(grant)}/extend", {"until": self.grant(grant)["until"] + seconds})

    def used(self, grant: str) -> Document:
        """Say that somebody works with it."""
        return self._document("POST", f"{_of(grant)}/used", {})

    def nodes(self) -> list[Document]:
        return self._list("GET", "/v1/nodes", "nodes")

    def drain(self, node: str, disk: str = "") -> Document:
        return self._document("POST", f"{_node(node)}/drain", {"disk": disk} if disk else {})

    def undrain(self, node: str, disk: str = "") -> Document:
        return self._document("POST", f"{_node(node)}/undrain", {"disk": disk} if disk else {})

    def give_up(self, node: str, disk: str = "") -> None:
        """It will not come back: what it held is lost."""
        self._call("DELETE", _node(node), params={"disk": disk} if disk else None)

    def login_link(self) -> Document:
        """A link that logs us in at the page, once."""
        return self._document("POST", "/v1/login/link")

    def policy(self, name: str = "") -> str:
        """The policy that decides; from now on this one, if one is named."""
        found = self._document("PUT" if name else "GET", "/v1/policy", {"policy": name} if name else None)
        return str(found["policy"])

    def rules(self, change: Mapping[str, Any] | None = None) -> Document:
        """The rules; from now on with this change."""
        return self._document("PUT" if change else "GET", "/v1/rules", dict(change) if change else None)

    def strays(self) -> list[Document]:
        """What is on disks and belongs to no grant that lives."""
        return self._list("GET", "/v1/strays", "strays")

    def discard(self, what: str) -> list[Document]:
        """What is kept of a grant, or on a node, may be removed; what is left."""
        return self._list("POST", "/v1/strays/discard", "strays", {"what": what})

    def adopt(self, what: str, seconds: float) -> list[Document]:
        """What is kept of a grant, or on a node, is its owner's grant again; what is left."""
        return self._list("POST", "/v1/strays/adopt", "strays", {"what": what, "seconds": seconds})

    def hello(self, node: str, told: Document) -> Document:
        """An agent says what its node has; what it is to do."""
        return self._document("POST", f"{_node(node)}/hello", told)

    def actions(self, node: str, seconds: float, seen: str = "") -> Document:
        """What an agent is to do, once there is something or the time is over."""
        params = {"seconds": f"{seconds:g}", "seen": seen}
        return self._document("GET", f"{_node(node)}/actions", params=params, wait=seconds)

    def report(self, node: str, reports: Sequence[Document]) -> None:
        self._call("POST", f"{_node(node)}/reports", list(reports))

    def rates(self, node: str, rates: Mapping[str, tuple[float, float]]) -> None:
        """Bytes per second written and read, by disk."""
        body = [{"disk": disk, "write": write, "read": read} for disk, (write, read) in rates.items()]
        self._call("POST", f"{_node(node)}/rates", body)

    def log(self, node: str, lines: Sequence[Document]) -> None:
        self._call("POST", f"{_node(node)}/log", list(lines))

    def _document(self, method: str, path: str, body: object = None, **how: Any) -> Document:
        found = self._call(method, path, body, **how)
        if not isinstance(found, dict):
            raise ServiceAway(f"{self.service}: the answer is not one of Forebay's service")
        return found

    def _list(self, method: str, path: str, name: str, body: object = None, **how: Any) -> list[Document]:
        """A list, be it the answer itself or under its name."""
        found = self._call(method, path, body, **how)
        rows = found.get(name) if isinstance(found, dict) else found
        if not isinstance(rows, list):
            raise ServiceAway(f"{self.service}: the answer is not one of Forebay's service")
        return rows

    def _call(
        self, method: str, path: str, body: object = None, *,
        params: Mapping[str, str] | None = None, wait: float = 0.0,
    ) -> Any:  # fmt: skip
        """The answer. One that does not come is asked for again as long as there is patience."""
        end, tried = time.monotonic() + self.patience, 0
        timeout = httpx.Timeout(_ANSWER + wait, connect=5.0)
        while True:
            try:
                request = self._http.build_request(method, path, json=body, params=params, timeout=timeout)
                trouble = self._sign(request) if self._munge else ""
                answer = self._http.send(request)
                if answer.status_code not in (502, 503, 504):
                    return _read(self.service, answer, trouble)
                _, because = _error(answer)
            except httpx.HTTPError as error:
                because = _words(error)
            pause = _PAUSES[min(tried, len(_PAUSES) - 1)]
            if time.monotonic() + pause > end:
                raise ServiceAway(f"the service at {self.service} is away: {because}")
            time.sleep(pause)
            tried += 1

    def _sign(self, request: httpx.Request) -> str:
        """Say who we are by MUNGE, good for this call, once; why that can't be, if its daemon does not answer."""
        call = call_of(request.method, request.url.raw_path.decode("ascii"), request.read())
        try:
            request.headers["Authorization"] = f"MUNGE {credential(call, self._munge_socket)}"
        except NoMunge as error:
            return str(error)
        return ""


def _tls(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if authority is None else str(authority))
    except (OSError, ssl.SSLError) as error:
        raise BadInput(str(authority), f"is no certificate authority: {error}") from None


def _words(error: httpx.HTTPError) -> str:
    """What a socket says of itself, in a few words."""
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    text = str(error)
    for sign, words in (("Errno 2]", "there is no such socket"), ("Errno 111]", "nobody listens there"),
                        ("Errno 13]", "the socket may not be opened")):  # fmt: skip
        if sign in text:
            return words
    return " ".join(text.split()) or type(error).__name__


def _read(service: Address, answer: httpx.Response, trouble: str) -> Any:
    """The document; `trouble` is why the call could not be signed."""
    if not answer.is_success:
        code, because = _error(answer)
        raise TurnedAway(code, f"{because} ({trouble})" if trouble and code.status == 401 else because)
    try:
        return answer.json() if answer.content else {}
    except ValueError:
        raise ServiceAway(f"{service}: the answer is not one of Forebay's service") from None


def _error(answer: httpx.Response) -> tuple[ErrorCode, str]:
    """What an answer that is an error says; a proxy may have made it."""
    try:
        document = answer.json()
        because = str(document["error"])
    except (ValueError, KeyError, TypeError):
        return code_of_status(answer.status_code), f"the service answers {answer.status_code}"
    known = (code for code in ErrorCode if code.value == document.get("code"))
    return next(known, code_of_status(answer.status_code)), because


def _of(grant: str) -> str:
    return f"/v1/grants/{quote(grant, safe='')}"


def _node(node: str) -> str:
    return f"/v1/nodes/{quote(node, safe='')}"
