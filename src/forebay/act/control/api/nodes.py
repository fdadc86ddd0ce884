"""Nodes: what agents say and do, and what administrators do with nodes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query
from fastapi.responses import JSONResponse

from forebay.act.control.api.answers import ActionsAnswer, Done, NodesAnswer
from forebay.act.control.api.commands import register_of, report_of
from forebay.act.control.api.dependencies import ERRORS, Administrator, Caller, Maybe, NodeName, OfService, Wait, answer
from forebay.act.control.api.documents import actions_view, nodes_view
from forebay.act.control.api.forms import DrainForm, HelloForm, LogForm, ReportForm
from forebay.act.control.auth.callers import Who
from forebay.act.control.errors import OtherJournal
from forebay.act.control.service.journal_identity import is_ours
from forebay.decide.grants import commands as co
from forebay.history.store.journal import LogLine, add_log_lines
from forebay.model.grant import NotAllowed

routes = APIRouter(prefix="/v1/nodes", tags=["nodes"], responses=ERRORS)
_MOST_TEXT = 2000
_Seen = Query(max_length=100, description="The `seen` of the last answer that you acted on.")


@routes.get("", response_model=None, responses={200: {"model": NodesAnswer}})
async def nodes(service: OfService, _: Caller) -> JSONResponse:
    """All nodes with their disks."""
    return answer({"nodes": nodes_view(await service.writer.now())})


@routes.post("/{node}/drain", response_model=None, responses={200: {"model": NodesAnswer}})
async def drain(service: OfService, who: Administrator, node: NodeName, form: DrainForm | None = Maybe) -> JSONResponse:
    """No new grants on a node, or on one of its disks; what is there stays."""
    await service.do(co.Drain(caller=who.caller, what=_what(node, form)))
    return answer({"nodes": nodes_view(service.state())})


@routes.post("/{node}/undrain", response_model=None, responses={200: {"model": NodesAnswer}})
async def undrain(
    service: OfService, who: Administrator, node: NodeName, form: DrainForm | None = Maybe
) -> JSONResponse:
    """New grants there again."""
    await service.do(co.Undrain(caller=who.caller, what=_what(node, form)))
    return answer({"nodes": nodes_view(service.state())})


@routes.delete("/{node}", response_model=None, responses={200: {"model": NodesAnswer}})
async def remove(
    service: OfService, who: Administrator, node: NodeName, disk: Annotated[str, Query(max_length=200)] = ""
) -> JSONResponse:
    """A node, or one of its disks, will not come back: what it held is lost."""
    await service.do(co.Remove(caller=who.caller, what=_what(node, DrainForm(disk=disk))))
    return answer({"nodes": nodes_view(service.state())})


def _what(node: str, form: DrainForm | None) -> str:
    return f"{node}/{form.disk}" if form is not None and form.disk else node


@routes.post("/{node}/hello", response_model=None, responses={200: {"model": ActionsAnswer}})
async def hello(service: OfService, who: Caller, node: NodeName, form: HelloForm) -> JSONResponse:
    """An agent says which disks its node has and what is on them; it is told what to do."""
    ours = await is_ours(service.writer, await service.writer.now(), form.seen)
    await service.do(register_of(node, form, who, ours))
    service.heard(node)
    return answer(actions_view(await service.writer.now(), node, service.keys))


@routes.get("/{node}/actions", response_model=None, responses={200: {"model": ActionsAnswer}})
async def actions(
    service: OfService, who: Caller, node: NodeName, seconds: Wait = 25.0, seen: Annotated[str, _Seen] = ""
) -> JSONResponse:
    """What the node's agent is to do, once there is something or the time is over. It is also its heartbeat."""
    caller = _agent(who, node)
    live = await service.heartbeat(node, caller)
    if await is_ours(service.writer, live, seen) is False:
        raise OtherJournal("the service has another journal than the one you acted on; report your disks first")
    live = await service.writer.now()
    clock = service.ticking()
    end = clock() + seconds
    service.waits.check(who)
    with service.waits.one_more(who):
        while not live.control.actions(node):
            heard = await service.bells.heard(f"node {node}", end - clock())
            live = await service.writer.now()
            if not heard:
                break
    service.heard(node)
    return answer(actions_view(live, node, service.keys))


def _agent(who: Who, node: str) -> co.Caller:
    caller = who.for_node(node)
    if caller.role != "agent" or caller.node != node:
        raise NotAllowed(f"only the agent of node {node!r} may ask this")
    return caller


@routes.post("/{node}/reports", response_model=None, responses={200: {"model": Done}})
async def reports(
    service: OfService, who: Caller, node: NodeName, forms: Annotated[list[ReportForm], Body(max_length=10_000)]
) -> JSONResponse:
    """An agent tells what became of volumes, in the order in which it happened. To tell it again is harmless."""
    _agent(who, node)
    commands = [report_of(node, form, who) for form in forms]
    for command in commands:
        await service.do(command)
    service.heard(node)
    return answer({"done": len(commands)})


@routes.post("/{node}/log", response_model=None, responses={200: {"model": Done}})
async def log(
    service: OfService, who: Caller, node: NodeName, forms: Annotated[list[LogForm], Body(max_length=10_000)]
) -> JSONResponse:
    """Lines of an agent's log; those of a grant are kept with it."""
    live = await service.heartbeat(node, _agent(who, node))
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
    return answer({"done": len(lines)})
