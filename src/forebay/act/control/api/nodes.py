"""Calls about storage nodes: reports and actions of agents, tiers, and what administrators do with nodes and strays."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Body, Query

from forebay.act.control.agent.disk import EXPOSE
from forebay.act.control.api.forms import (
    AdoptForm,
    CopyForm,
    DiscardForm,
    DrainForm,
    HelloForm,
    LogForm,
    RateForm,
    ReportForm,
)
from forebay.act.control.api.routing import Administrator, Caller, Maybe, NodeName, OfService, Routes, Wait, wait_until
from forebay.act.control.auth.callers import Who, user_name
from forebay.act.control.auth.volume_keys import without_key
from forebay.act.control.documents import ActionList, Done, NodeList, StrayDocument, StrayList, TierDocument, TierList
from forebay.act.control.errors import OtherJournal
from forebay.act.control.service.live_documents import action_list, node_documents
from forebay.act.control.service.live_state import Live
from forebay.act.control.service.service import Service
from forebay.decide.grants import commands as co
from forebay.decide.grants.machine import DiskSpec, Stray, field_value
from forebay.history.store.journal import LogLine, add_log_lines
from forebay.model.grant import Volume
from forebay.model.staging import Progress, Step

routes = Routes()
ANY = "any"  # the name of all disks together, whatever their tier
_MOST_TEXT = 2000
_LONGEST_REASON = 500
_Many = Body(max_length=10_000)
_Seen = Annotated[str, Query(max_length=100, description="The `seen` of the last answer that you acted on.")]
_Disk = Annotated[str, Query(max_length=200, description="A disk of the node. Default: the whole node.")]


@routes.get("/v1/nodes")
async def list_nodes(service: OfService, _: Caller) -> NodeList:
    """All nodes with their disks."""
    return {"nodes": node_documents(await service.writer.now())}


@routes.post("/v1/nodes/{node}/drain")
async def drain(service: OfService, who: Administrator, node: NodeName, form: DrainForm | None = Maybe) -> NodeList:
    """Place no new grants on a node, or on one of its disks. Existing grants stay."""
    return await _change(service, co.Drain(caller=who, what=_place(node, form.disk if form else "")))


@routes.post("/v1/nodes/{node}/undrain")
async def undrain(service: OfService, who: Administrator, node: NodeName, form: DrainForm | None = Maybe) -> NodeList:
    """Place new grants there again."""
    return await _change(service, co.Undrain(caller=who, what=_place(node, form.disk if form else "")))


@routes.delete("/v1/nodes/{node}")
async def remove(service: OfService, who: Administrator, node: NodeName, disk: _Disk = "") -> NodeList:
    """Give up a node, or one of its disks. Everything on it is lost."""
    return await _change(service, co.Remove(caller=who, what=_place(node, disk)))


def _place(node: str, disk: str) -> str:
    return f"{node}/{disk}" if disk else node


async def _change(service: Service, command: co.Command) -> NodeList:
    await service.do(command)
    return {"nodes": node_documents(service.state())}


@routes.post("/v1/nodes/{node}/hello")
async def hello(service: OfService, who: Caller, node: NodeName, form: HelloForm) -> ActionList:
    """An agent reports its node's disks and all volumes on them, and gets its actions."""
    known = await service.writer.is_known(form.seen)
    await service.do(register_of(node, form, who, known))
    service.note_heard(node)
    return action_list(await service.writer.now(), node, service.keys)


def register_of(node: str, form: HelloForm, who: Who, ours: bool | None) -> co.Register:
    disks = tuple(
        DiskSpec(
            **disk.model_dump(exclude={"kind", "fields"}),
            fields=disk.fields | ({"kind": disk.kind} if disk.kind else {}),
        )
        for disk in form.disks
    )
    return co.Register(
        caller=who.for_node(node), node=node, number=form.number, ours=ours, seen=form.seen,
        network_bandwidth=form.network_bandwidth,
        fields=form.fields | ({"address": form.address} if form.address else {}),
        disks=disks, volumes=None if form.volumes is None else _volumes_of(form),
        unseen={name: _reason(because) for name, because in form.unseen.items()},
    )  # fmt: skip


def _volumes_of(form: HelloForm | ReportForm) -> tuple[co.FoundVolume, ...]:
    return tuple(
        co.FoundVolume(
            **volume.model_dump(exclude={"state", "settings"}),
            whole=volume.state == "whole",
            settings=without_key(volume.settings),
        )
        for volume in form.volumes or ()
    )


def _reason(because: str) -> str:
    return " ".join(because.split())[:_LONGEST_REASON] or "its agent gave no reason"


@routes.get("/v1/nodes/{node}/actions")
async def actions(
    service: OfService, who: Caller, node: NodeName, seconds: Wait = 25.0, seen: _Seen = ""
) -> ActionList:
    """Wait until the agent has actions or the time is over; returns its actions. The call is also its heartbeat."""
    live = await service.heartbeat(node, who.as_agent(node))
    if await service.writer.is_known(seen) is False:
        raise OtherJournal("the service has another journal than the agent acted on; report the disks first")
    live = await wait_until(service, who, f"node {node}", seconds, lambda live: live.control.has_work(node))
    service.note_heard(node)
    return action_list(live, node, service.keys)


@routes.post("/v1/nodes/{node}/reports")
async def reports(service: OfService, who: Caller, node: NodeName, forms: Annotated[list[ReportForm], _Many]) -> Done:
    """An agent reports the results of its actions, in order. Reports are safe to repeat."""
    who.as_agent(node)
    commands = [report_of(node, form, who) for form in forms]
    for command in commands:
        await service.do(command)
    service.note_heard(node)
    return {"done": len(commands)}


def report_of(node: str, form: ReportForm, who: Who) -> co.Command:
    caller = who.as_agent(node)
    if form.kind == "found":
        return co.Found(caller=caller, node=node, number=form.number, volumes=_volumes_of(form))
    about: dict[str, Any] = {"caller": caller, "volume": form.volume, "number": form.number, "disk": form.disk}
    if form.kind == "made":
        return co.Made(**about, path=form.path, device=form.device, settings=without_key(form.settings))
    if form.kind == "gone":
        return co.Gone(**about)
    because = _reason(form.because)
    if form.kind == "failed":
        return co.NotMade(**about, because=because, fault=form.fault)
    return (co.Stuck if form.kind == "stuck" else co.Lost)(**about, because=because)


@routes.post("/v1/nodes/{node}/copies")
async def copies(service: OfService, who: Caller, node: NodeName, forms: Annotated[list[CopyForm], _Many]) -> Done:
    """An agent reports what it has copied of stagings. Reports are safe to repeat."""
    caller = who.as_agent(node)
    for form in forms:
        numbers = form.model_dump(include={"files", "bytes", "total"})
        progress = Progress(step=Step(form.step), **numbers, missing=tuple(form.missing))
        because = _reason(form.because) if form.because else ""
        await service.do(
            co.Copied(caller=caller, node=node, grant=form.grant, key=form.key, progress=progress, because=because)
        )
    service.note_heard(node)
    return {"done": len(forms)}


@routes.post("/v1/nodes/{node}/log")
async def log(service: OfService, who: Caller, node: NodeName, forms: Annotated[list[LogForm], _Many]) -> Done:
    """Lines of an agent's log. The service keeps those about a grant in the grant's story."""
    live = await service.heartbeat(node, who.as_agent(node))
    tables = live.control.tables
    for form in forms:
        service.log.info("agent", node=node, said=form.level, grant=form.grant[:64], text=form.text[:_MOST_TEXT])
    lines = [
        LogLine(form.grant, form.time, node, form.level, form.text[:_MOST_TEXT].replace("\0", ""))
        for form in forms
        if form.grant in tables.grants
        and any(volume.node == node for volume in tables.volumes_of(tables.grants[form.grant]))
    ]
    if lines:
        await service.writer.write(lambda connection: add_log_lines(connection, lines))
    return {"done": len(lines)}


@routes.post("/v1/nodes/{node}/rates")
async def rates(service: OfService, who: Caller, node: NodeName, forms: Annotated[list[RateForm], _Many]) -> Done:
    """An agent reports its disks' bandwidth in use. The page shows it for a while; nothing stores it."""
    who.as_agent(node)
    known = service.state().control.tables.disks
    measured = {f"{node}/{form.disk}": (form.write, form.read) for form in forms}
    service.rates.update(node, {key: rate for key, rate in measured.items() if key in known})
    return {"done": len(measured)}


@routes.get("/v1/tiers")
async def tiers(service: OfService, _: Caller) -> TierList:
    """The tiers of all disks whose volumes are mounted on their nodes, `any` first."""
    return {"tiers": tier_documents(await service.writer.now(), service.clock())}


def tier_documents(live: Live, now: float) -> list[TierDocument]:
    """All tiers; a tier whose disks are all closed has no space."""
    tables = live.control.tables
    tiers: dict[str, list[tuple[int, int]]] = {ANY: []}  # for each open disk: its bytes, and its free bytes
    mounted = "none" if any(EXPOSE in disk.spec.fields for disk in tables.disks.values()) else None
    for key, disk in tables.disks.items():
        node = tables.nodes[disk.node]
        if field_value(disk, node, EXPOSE) != mounted:
            continue
        is_open = disk.there and not (disk.drained or node.drained or node.silent)
        room = [(disk.spec.capacity, max(0, tables.space.free(key, now, now)))] if is_open else []
        for name in dict.fromkeys((ANY, field_value(disk, node, "tier") or ANY)):
            tiers.setdefault(name, []).extend(room)
    return [
        {
            "name": name, "disks": len(rooms), "total": sum(size for size, _ in rooms),
            "free": sum(free for _, free in rooms), "largest": max((free for _, free in rooms), default=0),
        }
        for name, rooms in tiers.items()
    ]  # fmt: skip


@routes.get("/v1/strays")
async def list_strays(service: OfService, _: Administrator) -> StrayList:
    """All volumes that belong to no live grant. An administrator has to decide about those that are `kept`."""
    return {"strays": list(_strays(await service.writer.now()))}


@routes.post("/v1/strays/discard")
async def discard(service: OfService, who: Administrator, form: DiscardForm) -> StrayList:
    """Let the kept volumes of a grant or a node be removed; returns the strays that are left."""
    await service.do(co.Discard(caller=who, what=form.what))
    return {"strays": list(_strays(service.state()))}


@routes.post("/v1/strays/adopt")
async def adopt(service: OfService, who: Administrator, form: AdoptForm) -> StrayList:
    """Make the kept volumes of a grant or a node their owner's grant again; returns the strays that are left."""
    await service.do(co.Adopt(caller=who, what=form.what, seconds=form.seconds))
    return {"strays": list(_strays(service.state()))}


def _strays(live: Live) -> Iterator[StrayDocument]:
    tables = live.control.tables
    for _, stray in sorted(tables.strays.items()):
        removing = f"it cannot be removed: {stray.because}" if stray.because else "it is being removed"
        why = "the journal does not know it" if stray.held else removing
        yield _stray(stray, stray.uid, stray.since, why, stray.held)
    for volume in tables.kept_volumes():
        grant = tables.grants[volume.grant]
        yield _stray(volume, grant.ask.uid, grant.start, f"according to the journal: {grant.because}", True)


def _stray(volume: Stray | Volume, uid: int, since: float, why: str, kept: bool) -> StrayDocument:
    node, _, disk = volume.disk.partition("/")
    return {
        "name": volume.name, "grant": volume.grant, "node": node, "disk": disk, "size": volume.size, "uid": uid,
        "user": user_name(uid) if uid >= 0 else "", "since": since, "path": volume.path, "why": why, "kept": kept,
    }  # fmt: skip
