"""A client of the control service, over its UNIX socket or https."""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from forebay.act.control.auth.munge import NoMunge, call_line, credential, is_installed
from forebay.act.control.connections import Address, Answer, Connections, Failure, describe_failure, tls_context
from forebay.act.control.documents import (
    ActionList,
    GrantDocument,
    GrantList,
    HealthDocument,
    KeyDocument,
    LoginLink,
    NodeDocument,
    NodeList,
    PolicyDocument,
    RulesDocument,
    StoryDocument,
    StoryLine,
    StrayDocument,
    StrayList,
    TierDocument,
    TierList,
)
from forebay.act.control.errors import ErrorCode, code_of_status
from forebay.act.forward.net.key import read_key
from forebay.model.errors import BadInput, UserError
from forebay.model.grant import ENDED, LIVE, State

SERVICE = "unix:/run/forebay/service.sock"
"""Where the service is by default."""
_ANSWER = 30.0
"""Seconds that an answer may take, beside those that a call waits."""
_LONGEST = 25.0
"""Seconds that one call waits at most."""
_PAUSES = (0.05, 0.1, 0.2, 0.5)
"""Seconds between tries to reach a service; the last repeats."""
Document = TypeVar("Document")
_SETTLED = frozenset({State.READY, State.IN_USE, State.RELEASING, *ENDED})


class ServiceAway(UserError):
    """No answer, or not one of the service."""


class TurnedAway(UserError):
    """The service refused a call."""

    def __init__(self, code: ErrorCode, because: str) -> None:
        super().__init__(because)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, str(self))


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
    """The given address, else that of $FOREBAY_SERVICE, else the default."""
    if service:
        return parse_service(service, "--service")
    return parse_service(environment.get("FOREBAY_SERVICE") or SERVICE, "$FOREBAY_SERVICE")


class Client:
    """One caller. Any thread can call its methods.

    `token` is a file with the caller's token. Without one, a call over https carries a MUNGE credential if MUNGE is
    installed (`munge` is the socket of its daemon, if it is not the usual one). A service that cannot be reached is
    tried again for `patience` seconds; every call can be sent twice.
    """

    def __init__(
        self, service: Address, *, token: Path | None = None, authority: Path | None = None, patience: float = 5.0,
        munge: Path | None = None,
    ) -> None:  # fmt: skip
        self.service, self.patience = service, patience
        headers = {} if token is None else {"Authorization": f"Bearer {read_key(token).decode('latin-1')}"}
        self._munge = service.url != "" and token is None and is_installed()
        self._munge_socket = munge
        # A socket needs no certificates, and to read them takes longer than most calls.
        self._http = Connections(service, None if service.socket else tls_context(authority), headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def health(self) -> HealthDocument:
        return self._ask(HealthDocument, "GET", "/v1/health")

    def request(self, size: int | str, seconds: float | str, *, key: str = "", **more: object) -> GrantDocument:
        """Request space; `more` as in the API: start, tier, fields, job, expose, uid, gid.

        The grant can be granted, queued or refused. The same `key` again is the same request.
        """
        given = {name: value for name, value in more.items() if value}
        body = {"size": size, "seconds": seconds, "key": key or secrets.token_hex(16), **given}
        return self._ask(GrantDocument, "POST", "/v1/grants", body)

    def grant(self, grant: str) -> GrantDocument:
        return self._ask(GrantDocument, "GET", _grant(grant))

    def story(self, grant: str) -> list[StoryLine]:
        """Everything that happened to a grant, by time."""
        return self._ask(StoryDocument, "GET", f"{_grant(grant)}/story")["story"]

    def grants(self, **which: str) -> Iterator[GrantDocument]:
        """The grants with this `state`, `owner` or `node`."""
        params = {name: value for name, value in which.items() if value}
        while True:
            page = self._ask(GrantList, "GET", "/v1/grants", params=params)
            yield from page["grants"]
            if not page["more"]:
                return
            params["after"] = page["grants"][-1]["id"]

    def live_grants(self) -> Iterator[GrantDocument]:
        """All grants that have not ended."""
        for state in sorted(LIVE):
            yield from self.grants(state=state.value)

    def wait(self, grant: str, seconds: float = _LONGEST, *, known: str = "") -> GrantDocument:
        """The grant, as soon as its state differs from `known`, its place in the queue changes, or the time is over."""
        params = {"seconds": f"{min(seconds, _LONGEST):g}", **({"known": known} if known else {})}
        return self._ask(GrantDocument, "GET", f"{_grant(grant)}/wait", params=params, wait=_LONGEST)

    def follow(self, grant: GrantDocument, seconds: float = float("inf")) -> Iterator[GrantDocument]:
        """The grant now and after each change, until it is ready, has ended, or the time is over."""
        end = time.monotonic() + seconds
        yield grant
        while grant["state"] not in _SETTLED and (left := end - time.monotonic()) > 0:
            grant = self.wait(grant["id"], left, known=grant["state"])
            yield grant

    def release(self, grant: str, because: str = "") -> GrantDocument:
        return self._ask(GrantDocument, "POST", f"{_grant(grant)}/release", {"because": because} if because else {})

    def extend(self, grant: str, seconds: float) -> GrantDocument:
        """Extend a grant by so many seconds. The call sends the new end, so that a repeated call extends it once."""
        return self.extend_until(grant, self.grant(grant)["until"] + seconds)

    def extend_until(self, grant: str, until: float) -> GrantDocument:
        return self._ask(GrantDocument, "POST", f"{_grant(grant)}/extend", {"until": until})

    def mark_used(self, grant: str) -> GrantDocument:
        return self._ask(GrantDocument, "POST", f"{_grant(grant)}/used", {})

    def tiers(self) -> list[TierDocument]:
        return self._ask(TierList, "GET", "/v1/tiers")["tiers"]

    def grants_with_key(self, key: str) -> list[GrantDocument]:
        """All grants that carry a key, including those that ended, in order."""
        return self._ask(KeyDocument, "GET", f"/v1/keys/{quote(key, safe='')}")["grants"]

    def nodes(self) -> list[NodeDocument]:
        return self._ask(NodeList, "GET", "/v1/nodes")["nodes"]

    def drain(self, node: str, disk: str = "") -> None:
        self._call("POST", f"{_node(node)}/drain", {"disk": disk} if disk else {})

    def undrain(self, node: str, disk: str = "") -> None:
        self._call("POST", f"{_node(node)}/undrain", {"disk": disk} if disk else {})

    def remove(self, node: str, disk: str = "") -> None:
        """Give up a node or a disk. Everything on it is lost."""
        self._call("DELETE", _node(node), params={"disk": disk} if disk else None)

    def login_link(self) -> LoginLink:
        """A link that logs the caller in on the page, once."""
        return self._ask(LoginLink, "POST", "/v1/login/link")

    def policy(self, name: str = "") -> str:
        """The storage policy in use; `name` changes it."""
        body = {"policy": name} if name else None
        return self._ask(PolicyDocument, "PUT" if name else "GET", "/v1/policy", body)["policy"]

    def rules(self, change: Mapping[str, object] | None = None) -> RulesDocument:
        """The rules in force; `change` changes some of them."""
        return self._ask(RulesDocument, "PUT" if change else "GET", "/v1/rules", dict(change) if change else None)

    def strays(self) -> list[StrayDocument]:
        """Volumes that belong to no live grant."""
        return self._ask(StrayList, "GET", "/v1/strays")["strays"]

    def discard(self, what: str) -> list[StrayDocument]:
        """Let the kept volumes of a grant or a node be removed; returns the strays that are left."""
        return self._ask(StrayList, "POST", "/v1/strays/discard", {"what": what})["strays"]

    def adopt(self, what: str, seconds: float) -> list[StrayDocument]:
        """Make the kept volumes of a grant or a node a grant again; returns the strays that are left."""
        return self._ask(StrayList, "POST", "/v1/strays/adopt", {"what": what, "seconds": seconds})["strays"]

    def hello(self, node: str, report: Mapping[str, object]) -> ActionList:
        """Report a node with its disks and volumes; returns the actions of its agent."""
        return self._ask(ActionList, "POST", f"{_node(node)}/hello", report)

    def actions(self, node: str, seconds: float, seen: str = "") -> ActionList:
        """The actions of an agent, as soon as there are any or the time is over."""
        params = {"seconds": f"{seconds:g}", "seen": seen}
        return self._ask(ActionList, "GET", f"{_node(node)}/actions", params=params, wait=seconds)

    def report(self, node: str, reports: Sequence[Mapping[str, object]]) -> None:
        self._call("POST", f"{_node(node)}/reports", list(reports))

    def report_rates(self, node: str, rates: Mapping[str, tuple[float, float]]) -> None:
        """Bytes per second written and read, by disk."""
        body = [{"disk": disk, "write": write, "read": read} for disk, (write, read) in rates.items()]
        self._call("POST", f"{_node(node)}/rates", body)

    def log(self, node: str, lines: Sequence[Mapping[str, object]]) -> None:
        self._call("POST", f"{_node(node)}/log", list(lines))

    def _ask(
        self, kind: type[Document], method: str, path: str, body: object = None, *,
        params: Mapping[str, str] | None = None, wait: float = 0.0,
    ) -> Document:  # fmt: skip
        """The answer as a document of this kind. Services of other versions may have more or fewer fields."""
        document = self._call(method, path, body, params=params, wait=wait)
        if not isinstance(document, dict) or not document.keys() & kind.__annotations__.keys():
            raise ServiceAway(f"{self.service}: the answer is not one of Forebay's service")
        return cast(Document, document)

    def _call(
        self, method: str, path: str, body: object = None, *,
        params: Mapping[str, str] | None = None, wait: float = 0.0,
    ) -> object:  # fmt: skip
        """The answer. Without one, the call is repeated until the client's patience ends."""
        end, tries = time.monotonic() + self.patience, 0
        target = f"{path}?{urlencode(params)}" if params else path
        content = b"" if body is None else json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        while True:
            try:
                headers, trouble = self._sign(method, target, content) if self._munge else ({}, "")
                answer = self._http.send(method, target, content, headers, _ANSWER + wait)
                if answer.status not in (502, 503, 504):
                    return _read(self.service, answer, trouble)
                _, because = _error(answer)
            except Failure as error:
                because = describe_failure(error)
            pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
            if time.monotonic() + pause > end:
                raise ServiceAway(f"cannot reach the service at {self.service}: {because}")
            time.sleep(pause)
            tries += 1

    def _sign(self, method: str, target: str, content: bytes) -> tuple[dict[str, str], str]:
        """A header with a MUNGE credential for this call, or why MUNGE's daemon does not give one."""
        try:
            call = call_line(method, self._http.prefix + target, content)
            return {"Authorization": f"MUNGE {credential(call, self._munge_socket)}"}, ""
        except NoMunge as error:
            return {}, str(error)


def _read(service: Address, answer: Answer, trouble: str) -> object:
    """The document; `trouble` is why the call could not be signed."""
    if not 200 <= answer.status < 300:
        code, because = _error(answer)
        raise TurnedAway(code, f"{because} ({trouble})" if trouble and code.status == 401 else because)
    try:
        return answer.document()
    except ValueError:
        raise ServiceAway(f"{service}: the answer is not one of Forebay's service") from None


def _error(answer: Answer) -> tuple[ErrorCode, str]:
    """The code and the sentence of an error; a proxy may have answered instead of the service."""
    try:
        document = answer.document()
        because = str(document["error"])
    except (ValueError, KeyError, TypeError):
        return code_of_status(answer.status), f"the service answers {answer.status}"
    known = (code for code in ErrorCode if code.value == document.get("code"))
    return next(known, code_of_status(answer.status)), because


def _grant(grant: str) -> str:
    return f"/v1/grants/{quote(grant, safe='')}"


def _node(node: str) -> str:
    return f"/v1/nodes/{quote(node, safe='')}"
