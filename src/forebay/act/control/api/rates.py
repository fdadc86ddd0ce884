"""Bandwidth in use, as agents measure it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse

from forebay.act.control.api.answers import Done
from forebay.act.control.api.dependencies import ERRORS, Caller, NodeName, OfService, answer
from forebay.history.toml import Field, Table
from forebay.model.grant import NotAllowed

routes = APIRouter(prefix="/v1/nodes", tags=["nodes"], responses=ERRORS)


class RateForm(Table):
    """Bytes per second."""

    disk: str = Field(max_length=200)
    write: float = Field(ge=0, le=1e15)
    read: float = Field(ge=0, le=1e15)


@routes.post("/{node}/rates", response_model=None, responses={200: {"model": Done}})
async def rates(
    service: OfService, who: Caller, node: NodeName, forms: Annotated[list[RateForm], Body(max_length=10_000)]
) -> JSONResponse:
    """An agent tells how much of its disks' bandwidth is in use. It is shown for a while, and kept nowhere."""
    caller = who.for_node(node)
    if caller.role != "agent" or caller.node != node:
        raise NotAllowed(f"only the agent of node {node!r} may tell this")
    known = service.state().control.tables.disks
    told = {f"{node}/{form.disk}": (form.write, form.read) for form in forms}
    service.rates.tell(node, {key: rate for key, rate in told.items() if key in known})
    return answer({"done": len(told)})
