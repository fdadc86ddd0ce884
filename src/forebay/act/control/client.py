"""A client of the control service, over its UNIX socket or https."""

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from forebay.act.control import documents
from forebay.act.control.auth.munge import NoMunge, call_line, credential, is_installed
from forebay.act.control.connections import Address, Answer, Connections, Failure, describe_failure, tls_context
from forebay.act.control.documents import GrantDocument
from forebay.act.control.errors import ErrorCode, code_of_status
from forebay.act.forward.net.key import read_key
from forebay.model.errors import BadInput, UserError
from forebay.model.grant import AVAILABLE, ENDED, LIVE, NoSuchGrant, State
from forebay.model.staging import LIMIT

SERVICE = "unix:/run/forebay/service.sock"  # the default address of the service
_ANSWER = 30.0  # seconds that an answer may take, in addition to the time that a call waits
_LONGEST = 25.0  # seconds that one call can wait
_PAUSES = (0.05, 0.1, 0.2, 0.5)  # seconds between tries to reach a service; the last repeats
Document = TypeVar("Document")
_SETTLED = frozenset({State.READY, State.IN_USE, State.RELEASING, *ENDED})


class ServiceAway(UserError):
    """The service does not answer, or something else answers at its address."""


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
    """The given address, or else $FOREBAY_SERVICE, or else the default."""
    if service:
        return parse_service(service, "--service")
    return parse_service(environment.get("FOREBAY_SERVICE") or SERVICE, "$FOREBAY_SERVICE")


class Client:
    """Calls the service. All threads can share one client.

    `token` is a file with the caller's token. Without one, a call over https carries a MUNGE credential if MUNGE is
    installed (`munge` is the socket of its daemon, if it is not the usual one). If the service does not answer, the
    client retries for `patience` seconds; every call is safe to repeat.
    """

    def __init__(
        self, service: Address, *, token: Path | None = None, authority: Path | None = None, patience: float = 5.0,
        munge: Path | None = None,
    ) -> None:  # fmt: skip
        self.service, self.token, self.authority, self.patience = service, token, authority, patience
        self.report_wait: Callable[[str], None] = lambda _because: None
        """Called once for each call that is not answered within a second, with the reason."""
        secret = None if token is None else read_key(token, "token").decode("latin-1")
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        self._munge = service.url != "" and token is None and is_installed()
        self._munge_socket = munge
        # A socket needs no certificates, and reading them takes longer than most calls.
        self._http = Connections(service, None if service.socket else tls_context(authority), headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def health(self) -> documents.HealthDocument:
        return self._ask(documents.HealthDocument, "GET", "/v1/health")

    def request(self, size: int | str, seconds: float | str, *, key: str = "", **more: object) -> GrantDocument:
        """Request space; `more` as in the API: start, tier, fields, job, expose, uid, gid.

        The grant can be granted, queued or refused. The same `key` again is the same request.
        """
        options = {name: value for name, value in more.items() if value}
        body = {"size": size, "seconds": seconds, "key": key or secrets.token_hex(16), **options}
        return self._ask(GrantDocument, "POST", "/v1/grants", body)

    def grant(self, grant: str) -> GrantDocument:
        return self._ask(GrantDocument, "GET", _grant(grant))

    def story(self, grant: str) -> list[documents.StoryLine]:
        return self._ask(documents.StoryDocument, "GET", f"{_grant(grant)}/story")["story"]

    def grants(self, **which: str) -> Iterator[GrantDocument]:
        """The grants with this `state`, `owner` or `node`."""
        params = {name: value for name, value in which.items() if value}
        while True:
            page = self._ask(documents.GrantList, "GET", "/v1/grants", params=params)
            yield from page["grants"]
            if not page["more"]:
                return
            params["after"] = page["grants"][-1]["id"]

    def live_grants(self) -> Iterator[GrantDocument]:
        for state in sorted(LIVE):
            yield from self.grants(state=state.value)

    def wait(self, grant: str, seconds: float = _LONGEST, *, known: str = "", staging: str = "") -> GrantDocument:
        """Wait until the state differs from `known`, the place in the queue changes, or the time is over.

        With `staging`, also until the state of its staging differs from this, or more is copied.
        """
        params = {"seconds": f"{min(seconds, _LONGEST):g}"}
        params |= {name: state for name, state in (("known", known), ("staging", staging)) if state}
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
        """Extend a grant by this many seconds. The call sends the new end, so that it is safe to repeat."""
        return self.extend_until(grant, self.grant(grant)["until"] + seconds)

    def extend_until(self, grant: str, until: float) -> GrantDocument:
        return self._ask(GrantDocument, "POST", f"{_grant(grant)}/extend", {"until": until})

    def stage(
        self, grant: str, way: str, pairs: Sequence[tuple[str, str]], *, key: str = "", limit: float = LIMIT
    ) -> GrantDocument:
        """Have the storage nodes copy files, each from a source to a target. The same `key` again copies once."""
        wanted = {"way": way, "pairs": [list(pair) for pair in pairs], "limit": limit}
        body = {**wanted, "key": key or secrets.token_hex(16)}
        return self._ask(GrantDocument, "POST", f"{_grant(grant)}/stage", body)

    def follow_staging(self, grant: GrantDocument, seconds: float = float("inf")) -> Iterator[GrantDocument]:
        """The grant now and whenever more is copied, until its staging has ended or the time is over."""
        end = time.monotonic() + seconds
        yield grant
        while _is_staging(grant) and (left := end - time.monotonic()) > 0:
            grant = self.wait(grant["id"], left, known=grant["state"], staging="running")
            yield grant

    def mark_used(self, grant: str) -> GrantDocument:
        return self._ask(GrantDocument, "POST", f"{_grant(grant)}/used", {})

    def tiers(self) -> list[documents.TierDocument]:
        return self._ask(documents.TierList, "GET", "/v1/tiers")["tiers"]

    def grants_with_key(self, key: str) -> list[GrantDocument]:
        """All grants with this key, in order, including grants that ended."""
        return self._ask(documents.KeyDocument, "GET", f"/v1/keys/{quote(key, safe='')}")["grants"]

    def nodes(self) -> list[documents.NodeDocument]:
        return self._ask(documents.NodeList, "GET", "/v1/nodes")["nodes"]

    def drain(self, node: str, disk: str = "") -> None:
        self._ask(dict, "POST", f"{_node(node)}/drain", {"disk": disk} if disk else {})

    def undrain(self, node: str, disk: str = "") -> None:
        self._ask(dict, "POST", f"{_node(node)}/undrain", {"disk": disk} if disk else {})

    def remove(self, node: str, disk: str = "") -> None:
        """Give up a node or a disk. Everything on it is lost."""
        self._ask(dict, "DELETE", _node(node), params={"disk": disk} if disk else None)

    def login_link(self) -> documents.LoginLink:
        return self._ask(documents.LoginLink, "POST", "/v1/login/link")

    def policy(self, name: str = "") -> str:
        """The storage policy in use; `name` changes it."""
        body = {"policy": name} if name else None
        return self._ask(documents.PolicyDocument, "PUT" if name else "GET", "/v1/policy", body)["policy"]

    def rules(self, change: Mapping[str, object] | None = None) -> documents.RulesDocument:
        """The rules in force; `change` changes some of them."""
        body = dict(change) if change else None
        return self._ask(documents.RulesDocument, "PUT" if change else "GET", "/v1/rules", body)

    def strays(self) -> list[documents.StrayDocument]:
        return self._ask(documents.StrayList, "GET", "/v1/strays")["strays"]

    def discard(self, what: str) -> list[documents.StrayDocument]:
        """Let the kept volumes of a grant or a node be removed; returns the strays that are left."""
        return self._ask(documents.StrayList, "POST", "/v1/strays/discard", {"what": what})["strays"]

    def adopt(self, what: str, seconds: float) -> list[documents.StrayDocument]:
        """Make the kept volumes of a grant or a node a grant again; returns the strays that are left."""
        return self._ask(documents.StrayList, "POST", "/v1/strays/adopt", {"what": what, "seconds": seconds})["strays"]

    def hello(self, node: str, report: Mapping[str, object]) -> documents.ActionList:
        """Report a node with its disks and volumes; returns the actions of its agent."""
        return self._ask(documents.ActionList, "POST", f"{_node(node)}/hello", report)

    def actions(self, node: str, seconds: float, seen: str = "") -> documents.ActionList:
        """Wait until the agent has actions or the time is over; returns its actions."""
        params = {"seconds": f"{seconds:g}", "seen": seen}
        return self._ask(documents.ActionList, "GET", f"{_node(node)}/actions", params=params, wait=seconds)

    def report(self, node: str, reports: Sequence[Mapping[str, object]]) -> None:
        self._ask(dict, "POST", f"{_node(node)}/reports", list(reports))

    def report_rates(self, node: str, rates: Mapping[str, tuple[float, float]]) -> None:
        """Report the bytes per second written and read, by disk."""
        body = [{"disk": disk, "write": write, "read": read} for disk, (write, read) in rates.items()]
        self._ask(dict, "POST", f"{_node(node)}/rates", body)

    def report_copies(self, node: str, copies: Sequence[Mapping[str, object]]) -> None:
        self._ask(dict, "POST", f"{_node(node)}/copies", list(copies))

    def log(self, node: str, lines: Sequence[Mapping[str, object]]) -> None:
        self._ask(dict, "POST", f"{_node(node)}/log", list(lines))

    def _ask(
        self, kind: type[Document], method: str, path: str, body: object = None, *,
        params: Mapping[str, str] | None = None, wait: float = 0.0,
    ) -> Document:  # fmt: skip
        """Call the service; returns a document of this kind, `dict` for any. Other versions may have other fields.

        If no answer comes, repeat the call until the client's patience ends.
        """
        end, tries = time.monotonic() + self.patience, 0
        target = f"{path}?{urlencode(params)}" if params else path
        content = b"" if body is None else json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        while True:
            try:
                headers, trouble = self._sign(method, target, content) if self._munge else ({}, "")
                answer = self._http.send(method, target, content, headers, _ANSWER + wait)
                if 200 <= answer.status < 300:
                    break
                code, because = _error(answer)
                if answer.status not in (502, 503, 504):
                    if code.status == 401 and self.token is None:
                        because += "; name a file with your token: --token, or FOREBAY_TOKEN_FILE"
                    raise TurnedAway(code, f"{because} ({trouble})" if trouble and code.status == 401 else because)
            except Failure as error:
                because = describe_failure(error)
            pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
            if time.monotonic() + pause > end:
                raise ServiceAway(f"cannot reach the service at {self.service}: {because}")
            time.sleep(pause)
            tries += 1
            if tries == len(_PAUSES):
                self.report_wait(because)
        document = answer.document()
        if not isinstance(document, dict) or not (kind is dict or document.keys() & kind.__annotations__.keys()):
            raise ServiceAway(f"{self.service}: the answer does not come from Forebay's service; check the address")
        return cast(Document, document)

    def _sign(self, method: str, target: str, content: bytes) -> tuple[dict[str, str], str]:
        """A header with a MUNGE credential for this call, or the reason why MUNGE gives none."""
        try:
            call = call_line(method, self._http.prefix + target, content)
            return {"Authorization": f"MUNGE {credential(call, self._munge_socket)}"}, ""
        except NoMunge as error:
            return {}, str(error)


def _error(answer: Answer) -> tuple[ErrorCode, str]:
    """The code and the sentence of an error; a proxy may have answered instead of the service."""
    document = answer.document()
    try:
        because = str(document["error"])
    except (KeyError, TypeError):
        return code_of_status(answer.status), f"the service answers {answer.status}"
    known = (code for code in ErrorCode if code.value == document.get("code"))
    return next(known, code_of_status(answer.status)), because


def _is_staging(grant: GrantDocument) -> bool:
    staging = grant["staging"]
    return staging is not None and staging["state"] == "running" and grant["state"] in AVAILABLE


def _grant(grant: str) -> str:
    if not _is_segment(grant):
        raise TurnedAway(ErrorCode.NOT_FOUND, str(NoSuchGrant(grant)))
    return f"/v1/grants/{quote(grant, safe='')}"


def _node(node: str) -> str:
    if not _is_segment(node):
        raise TurnedAway(ErrorCode.NOT_FOUND, f"no node {node!r}; `forebay storage nodes` lists nodes")
    return f"/v1/nodes/{quote(node, safe='')}"


def _is_segment(name: str) -> bool:
    """Whether a path can hold the name: others would make it the path of another call, even if they are quoted."""
    return name not in ("", ".", "..") and "/" not in name
