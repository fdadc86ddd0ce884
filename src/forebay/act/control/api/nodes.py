"""Storage nodes: what their agents report and must do, and what administrators do with them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query
from fastapi.responses import JSONResponse

from forebay.act.control.api.commands import register_of, report_of
from forebay.act.control.api.dependencies import Administrator, Caller, Maybe, NodeName, OfService, Wait, answer
from forebay.act.control.api.description import ERRORS, returns
from forebay.act.control.api.forms import DrainForm, HelloForm, LogForm, RateForm, ReportForm
from forebay.act.control.documents import ActionList, Done, NodeList
from forebay.act.control.errors import OtherJournal
from forebay.act.control.service.journal_identity import is_known_journal
from forebay.act.control.service.service import Service
from forebay.act.control.service.views import action_list, node_documents
from forebay.decide.grants import commands as co
from forebay.history.store.journal import LogLine, add_log_lines

routes = APIRouter(prefix="/v1/nodes", tags=["nodes"], responses=ERRORS)
_MOST_TEXT = 2000
_Many = Body(max_length=10_000)
_Seen = Annotated[str, Query(max_length=100, description="The `seen` of the last answer that you acted on.")]
_Disk = Annotated[str, Query(max_length=200, description="A disk of the node. Default: the whole node.")]


@routes.get("", **returns(NodeList))
async def list_nodes(service: OfService, _: Caller) -> JSONResponse:
    """All nodes with their disks."""
    return answer(NodeList(nodes=node_documents(await service.writer.now())))


@routes.post("/{node}/drain", **returns(NodeList))
async def drain(service: OfService, who: Administrator, node: NodeName, form: DrainForm | None = Maybe) -> JSONResponse:
    """Place no new grants on a node, or on one of its disks. Existing grants stay."""
    return await _change(service, co.Drain(caller=who.caller, what=_place(node, form)))


@routes.post("/{node}/undrain", **returns(NodeList))
async def undrain(
    service: OfService, who: Administrator, node: NodeName, form: DrainForm | None = Maybe
) -> JSONResponse:
    """Place new grants there again."""
    return await _change(service, co.Undrain(caller=who.caller, what=_place(node, form)))


@routes.delete("/{node}", **returns(NodeList))
async def remove(service: OfService, who: Administrator, node: NodeName, disk: _Disk = "") -> JSONResponse:
    """Give up a node, or one of its disks. Everything on it is lost."""
    return await _change(service, co.Remove(caller=who.caller, what=_place(node, DrainForm(disk=disk))))


def _place(node: str, form: DrainForm | None) -> str:
    return f"{node}/{form.disk}" if form is not None and form.disk else node


async def _change(service: Service, command: co.Command) -> JSONResponse:
    await service.do(command)
    return answer(NodeList(nodes=node_documents(service.state())))


@routes.post("/{node}/hello", **returns(ActionList))
async def hello(service: OfService, who: Caller, node: NodeName, form: HelloForm) -> JSONResponse:
    """An agent reports its node's disks and all volumes on them, and gets its actions."""
    known = await is_known_journal(service.writer, await service.writer.now(), form.seen)
    await service.do(register_of(node, form, who, known))
    service.note_heard(node)
    return answer(action_list(await service.writer.now(), node, service.keys))


@routes.get("/{node}/actions", **returns(ActionList))
async def actions(
    service: OfService, who: Caller, node: NodeName, seconds: Wait = 25.0, seen: _Seen = ""
) -> JSONResponse:
    """The actions of the node's agent, as soon as there are any or the time is over. The call is also its heartbeat."""
    live = await service.heartbeat(node, who.as_agent(node))
    if await is_known_journal(service.writer, live, seen) is False:
        raise OtherJournal("the service has another journal than the one you acted on; report your disks first")
    live = await service.writer.now()
    end = service.monotonic() + seconds
    service.waits.check(who)
    with service.waits.one_more(who):
        while not live.control.actions(node):
            changed = await service.changes.wait(f"node {node}", end - service.monotonic())
            live = await service.writer.now()
            if not changed:
                break
    service.note_heard(node)
    return answer(action_list(live, node, service.keys))


@routes.post("/{node}/reports", **returns(Done))
async def reports(
    service: OfService, who: Caller, node: NodeName, forms: Annotated[list[ReportForm], _Many]
) -> JSONResponse:
    """An agent reports what became of volumes, in order. A report can be repeated."""
    who.as_agent(node)
    commands = [report_of(node, form, who) for form in forms]
    for command in commands:
        await service.do(command)
    service.note_heard(node)
    return answer(Done(done=len(commands)))


@routes.post("/{node}/log", **returns(Done))
async def log(service: OfService, who: Caller, node: NodeName, forms: Annotated[list[LogForm], _Many]) -> JSONResponse:
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
    return answer(Done(done=len(lines)))


@routes.post("/{node}/rates", **returns(Done))
async def rates(
    service: OfService, who: Caller, node: NodeName, forms: Annotated[list[RateForm], _Many]
) -> JSONResponse:
    """An agent reports its disks' bandwidth in use. The page shows it for a while; nothing stores it."""
    who.as_agent(node)
    known = service.state().control.tables.disks
    measured = {f"{node}/{form.disk}": (form.write, form.read) for form in forms}
    service.rates.update(node, {key: rate for key, rate in measured.items() if key in known})
    return answer(Done(done=len(measured)))
