"""Calls about grants: request, list, show, wait, release, extend; check whether a request fits; find by key."""

import asyncio
import secrets
from datetime import timedelta
from typing import Annotated, Literal

from fastapi import Path, Query
from fastapi.responses import Response

from forebay.act.control.agent.disk import EXPOSE
from forebay.act.control.api.description import document_response
from forebay.act.control.api.forms import AskForm, ExtendForm, ReleaseForm, StageForm
from forebay.act.control.api.routing import Answer, Caller, Limit, Maybe, OfService, Routes, Wait, encode, wait_until
from forebay.act.control.auth.callers import Who, check_administrator, first_group, user_name
from forebay.act.control.documents import FitDocument, GrantDocument, GrantList, KeyDocument, StoryDocument
from forebay.act.control.service.live_documents import VOLUMES, grant_document, story_of
from forebay.act.control.service.live_state import EventRecord, Live
from forebay.act.control.service.service import Service
from forebay.decide.grants import commands as co
from forebay.decide.grants import events as ev
from forebay.decide.grants.control import Control
from forebay.model.errors import BadInput, Refused, UnknownName
from forebay.model.grant import ENDED, SHARED, Ask, Grant, NotAllowed, State
from forebay.model.staging import Staging

_AT_ONCE = 50  # grants encoded before other calls get a turn: about two milliseconds
_GRANT = document_response(GrantDocument)
_TYPES = (VOLUMES, SHARED)

routes = Routes()
GrantName = Annotated[str, Path(max_length=64, description="The grant's name.")]


@routes.post("/v1/grants", status_code=201, responses={200: _GRANT, 201: _GRANT})
async def request_grant(service: OfService, who: Caller, form: AskForm) -> Answer:
    """Request space. A request with a known key is the same request. A refusal is a grant in state `refused`."""
    ask, records = await _request(service, who, form)
    live = service.state()
    grant = live.control.by_key(ask.uid, ask.key)
    assert grant is not None
    is_new = any(isinstance(r.event, ev.Asked) and r.event.ask.grant == grant.id for r in records)
    return Answer(service.keys.add_keys(grant_document(live, grant)), 201 if is_new else 200)


async def _request(service: Service, who: Who, form: AskForm) -> tuple[Ask, list[EventRecord]]:
    """Make a request; returns it with its events.

    If the same request arrives twice at the same time, neither knows the other. The second is then read again, because
    a start relative to now must mean the same as in the first.
    """
    live = service.writer.latest or await service.writer.now()
    ask = ask_of(form, who, live.control, service.clock())
    try:
        return ask, await service.do(co.Request(caller=who, ask=ask))
    except Refused:
        again = ask_of(form, who, (await service.writer.now()).control, service.clock())
        if again.is_again(ask):
            raise
    return again, await service.do(co.Request(caller=who, ask=again))


def ask_of(form: AskForm, who: Who, control: Control, now: float) -> Ask:
    """The request of a form, with a new grant's id."""
    uid, gid = _owner(form, who)
    grant = secrets.token_hex(16)
    key = form.key or grant
    known = control.by_key(uid, key)
    if "tier" in form.fields and form.tier not in ("", form.fields["tier"]):
        raise BadInput("tier", f"is {form.tier!r}, but fields has {form.fields['tier']!r}; give one of them")
    for where, names in (("hosts", form.hosts), ("fields", form.fields)):
        for name in names:
            if not name or len(name) > 200 or not name.isprintable():
                raise BadInput(where, f"must have 1 to 200 printable characters, not {name[:40]!r}")
    expose = _exposure(form)
    wants = form.fields | ({"tier": form.tier} if form.tier else {})
    if control.tables.knows_field(EXPOSE) if known is None else EXPOSE in known.ask.wants:
        wants = {EXPOSE: expose if expose not in ("", SHARED) else "none"} | wants
    start = form.start
    if isinstance(start, timedelta):
        start = now + start.total_seconds() if known is None else known.ask.start
    return Ask(
        grant=grant, key=key, uid=uid, gid=gid, user=user_name(uid), job=form.job, size=form.size,
        seconds=form.seconds, start=start, wants=wants, expose=expose,
        hosts=tuple(form.hosts), mode=form.mode, ceiling=form.ceiling, servers=form.servers, equal=form.equal,
    )  # fmt: skip


def _exposure(form: AskForm) -> str:
    """How other nodes reach the volumes; "" if only their node mounts them."""
    if form.type not in _TYPES:
        raise BadInput("type", str(UnknownName("type of space", form.type, _TYPES)))
    expose = "" if form.expose == "none" else form.expose
    if form.type == SHARED and (expose or form.hosts):
        raise BadInput("expose" if expose else "hosts", "is not for a shared file system: its data servers serve it")
    if form.type != SHARED and expose == SHARED:
        raise BadInput("expose", f"{SHARED!r} is a type; set type={SHARED}")
    return SHARED if form.type == SHARED else expose


def _owner(form: AskForm, who: Who) -> tuple[int, int]:
    if who.role == "agent":
        raise NotAllowed("an agent cannot request space")
    if form.uid is None and form.gid is None:
        if who.uid < 0:
            raise BadInput("uid", "is missing; this token belongs to no user")
        return who.uid, max(0, who.gid)
    check_administrator(who)
    uid = who.uid if form.uid is None else form.uid
    gid = first_group(uid) if form.gid is None and 0 <= uid < 2**32 else form.gid
    return uid, uid if gid is None else gid


@routes.get("/v1/grants", responses={200: document_response(GrantList)})
async def list_grants(
    service: OfService,
    who: Caller,
    state: Annotated[
        Literal[tuple(s.value for s in State)] | None,  # type: ignore[valid-type]
        Query(description="Only grants in this state."),
    ] = None,
    owner: Annotated[str, Query(max_length=200, description="A uid, or a user's name.")] = "",
    node: Annotated[str, Query(max_length=100, description="Only grants on this node.")] = "",
    staging: Annotated[bool, Query(description="Only grants whose files are being copied.")] = False,
    after: Annotated[str, Query(max_length=64, description="The last grant of the previous page.")] = "",
    limit: Limit = 1000,
) -> Response:
    """Grants in the order of their requests. Users see their own."""
    live = await service.writer.now()
    grants = live.control.tables.grants
    since = grants[after].order if after in grants else 0
    selected = [
        grant
        for grant in grants.values()
        if grant.order > since
        and (state is None or grant.state.value == state)
        and (not owner or owner in (str(grant.ask.uid), grant.ask.user))
        and (grant.is_staging or not staging)
        and _may_see(live, grant, who)
        and (not node or any(volume.node == node for volume in live.control.tables.volumes_of(grant)))
    ]
    selected.sort(key=lambda grant: grant.order)
    names = [grant.id for grant in selected[:limit]]
    texts: list[str] = []
    for first in range(0, len(names), _AT_ONCE):
        live = await service.writer.now()
        grants = live.control.tables.grants  # some may have been forgotten meanwhile
        shown = [grants[name] for name in names[first : first + _AT_ONCE] if name in grants]
        texts += [encode(grant_document(live, grant)) for grant in shown]
        await asyncio.sleep(0)
    text = f'{{"grants":[{",".join(texts)}],"more":{encode(len(selected) > limit)}}}'
    return Response(text.encode(), media_type="application/json")


@routes.get("/v1/grants/{grant}")
async def show(service: OfService, who: Caller, grant: GrantName) -> GrantDocument:
    """One grant with its volumes."""
    return _document(service, await service.writer.now(), grant, who)


@routes.get("/v1/grants/{grant}/story")
async def story(service: OfService, who: Caller, grant: GrantName) -> StoryDocument:
    """Everything that happened to a grant, and what agents logged about it, by time."""
    _find(await service.writer.now(), grant, who)
    return {"story": await service.writer.read(lambda connection: story_of(connection, grant))}


@routes.get("/v1/grants/{grant}/wait")
async def wait(
    service: OfService,
    who: Caller,
    grant: GrantName,
    seconds: Wait = 30.0,
    known: Annotated[str, Query(max_length=20, description="Return at once if the state differs from this.")] = "",
    staging: Annotated[
        str, Query(max_length=20, description="Return at once if the state of its staging differs from this.")
    ] = "",
) -> GrantDocument:
    """Wait until the state or the place in the queue changes, or files are copied; returns the grant."""

    def state_of(live: Live) -> tuple[State, int, Staging | None]:
        known = _find(live, grant, who)
        return known.state, live.control.position(grant), known.staging

    before = state_of(await service.writer.now())
    is_settled = before[0] in ENDED or before[0].value != (known or before[0].value)
    if staging:
        is_settled = is_settled or before[2] is None or before[2].state != staging
    live = await wait_until(
        service, who, f"grant {grant}", seconds, lambda live: is_settled or state_of(live) != before
    )
    return _document(service, live, grant, who)


@routes.post("/v1/grants/{grant}/release")
async def release(service: OfService, who: Caller, grant: GrantName, form: ReleaseForm | None = Maybe) -> GrantDocument:
    """Release a grant. Repeating this changes nothing."""
    because = " ".join(form.because.split()) if form else ""
    return await _change(service, who, co.Release(caller=who, grant=grant, because=because))


@routes.post("/v1/grants/{grant}/extend")
async def extend(service: OfService, who: Caller, grant: GrantName, form: ExtendForm) -> GrantDocument:
    """Let a grant end later, if its disks have the space until then."""
    end = form.until
    if end is None:
        before = _find(await service.writer.now(), grant, who)
        if form.seconds is None:
            raise BadInput("seconds", "is missing; give seconds or until")
        if form.seconds <= 0:
            raise BadInput("seconds", f"must be above 0, not {form.seconds:g}")
        end = before.end + form.seconds
    return await _change(service, who, co.Extend(caller=who, grant=grant, end=end))


@routes.post("/v1/grants/{grant}/stage")
async def stage(service: OfService, who: Caller, grant: GrantName, form: StageForm) -> GrantDocument:
    """Have the storage nodes copy files into the space or out of it, with the owner's rights."""
    pairs = tuple((source, target) for source, target in form.pairs)
    key = form.key or secrets.token_hex(16)
    command = co.Stage(caller=who, grant=grant, key=key, way=form.way, pairs=pairs, limit=form.limit)
    return await _change(service, who, command)


@routes.post("/v1/grants/{grant}/used")
async def use(service: OfService, who: Caller, grant: GrantName) -> GrantDocument:
    """Mark a grant as in use."""
    return await _change(service, who, co.Use(caller=who, grant=grant))


async def _change(service: Service, who: Who, command: co.Release | co.Extend | co.Stage | co.Use) -> GrantDocument:
    for record in await service.do(command):
        if isinstance(record.event, ev.Declined) and record.event.grant == command.grant:
            raise Refused(record.event.sentence())
    return _document(service, service.state(), command.grant, who)


def _document(service: Service, live: Live, name: str, who: Who) -> GrantDocument:
    """The grant, if the caller may see it. An agent gets the keys of its own volumes with its actions."""
    document = grant_document(live, _find(live, name, who))
    return document if who.role == "agent" else service.keys.add_keys(document)


def _find(live: Live, name: str, who: Who) -> Grant:
    grant = live.control.grant(name)
    if not _may_see(live, grant, who):
        raise NotAllowed("only its owner or an administrator may see this grant")
    return grant


def _may_see(live: Live, grant: Grant, who: Who) -> bool:
    if who.role == "agent":
        return any(volume.node == who.node for volume in live.control.tables.volumes_of(grant))
    return who.is_administrator or who.uid == grant.ask.uid


# Calls of a batch system around its jobs


@routes.get("/v1/fit")
async def fit(
    service: OfService,
    who: Caller,
    size: Annotated[str, Query(max_length=100, description="Bytes, or text with a unit.")],
    tier: Annotated[str, Query(max_length=200, description="The kind of disks. Default: any.")] = "",
    seconds: Annotated[str, Query(max_length=100, description="For how long.")] = "1h",
    type_: Annotated[str, Query(alias="type", max_length=100, description="`volumes` or `shared`.")] = VOLUMES,
    servers: Annotated[int, Query(description="Data servers of a shared file system; 0: the service chooses.")] = 0,
    equal: Annotated[bool, Query(description="Whether all parts must have the same size.")] = False,
) -> FitDocument:
    """How the service would decide a request. This call reserves nothing."""
    live, now = await service.writer.now(), service.clock()
    owner = {} if who.uid >= 0 else {"uid": 0, "gid": 0}  # a token without a user may ask, too
    kind = {"type": type_, "servers": servers, "equal": equal}
    form = AskForm.model_validate({"size": size, "seconds": seconds, "tier": tier, **kind, **owner})
    ask = ask_of(form, who, live.control, now)
    for event in live.control.handle(co.Request(caller=who, ask=ask), now):
        if isinstance(event, ev.TurnedDown | ev.Queued) and event.grant == ask.grant:
            when: Literal["never", "later"] = "never" if isinstance(event, ev.TurnedDown) else "later"
            return {"answer": when, "because": event.because, "reason": event.reason}
    return {"answer": "now", "because": "", "reason": ""}


@routes.get("/v1/keys/{key}")
async def by_key(
    service: OfService,
    who: Caller,
    key: Annotated[str, Path(max_length=200, description="The key that the request was sent with.")],
) -> KeyDocument:
    """Grants whose key is KEY or KEY.NUMBER, in order. Users see their own."""
    live = await service.writer.now()
    control = live.control
    # A batch system does not always know the owner of a key. Testing for the substring first is ten times as fast.
    near = [(text.partition(":")[2], name) for text, name in control.tables.keys.items() if key in text]
    grants = [control.grant(name) for text, name in near if _belongs_to(text, key)]
    visible = [grant for grant in grants if who.is_administrator or who.uid == grant.ask.uid]
    visible.sort(key=lambda grant: grant.order)
    return {"grants": [grant_document(live, grant) for grant in visible]}


def _belongs_to(text: str, key: str) -> bool:
    """
    >>> [_belongs_to(text, "slurm-a-7") for text in ("slurm-a-7", "slurm-a-7.2", "slurm-a-70", "slurm-a-7.x")]
    [True, True, False, False]
    """
    return text.startswith(key) and (text == key or (text[len(key)] == "." and text[len(key) + 1 :].isdecimal()))
