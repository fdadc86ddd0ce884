"""`forebay storage nodes`, `drain`, `undrain` and `give-up`: the storage nodes and their disks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.storage.connection import with_client
from forebay.model.errors import BadInput
from forebay.model.grant import ENDED, State
from forebay.show.options import Json
from forebay.show.output import print_json

if TYPE_CHECKING:
    from forebay.act.control.client import Client

commands = typer.Typer()
Node = Annotated[str, typer.Argument(help="The node.", show_default=False)]
Disk = Annotated[str, typer.Option(help="Only this disk of the node.")]


@commands.command(epilog="Example: forebay storage nodes")
@with_client
def nodes(client: Client, json: Json = False) -> None:
    """List the storage nodes and their disks: use, drained or silent."""
    from forebay.cli.storage.tables import print_nodes

    documents = client.nodes()
    print_json(documents) if json else print_nodes(documents)


@commands.command(epilog="Example: forebay storage drain storage1 --disk nvme0")
@with_client
def drain(client: Client, node: Node, disk: Disk = "") -> None:
    """Place no new grants on a node or disk; existing ones stay. For administrators."""
    client.drain(node, disk)
    typer.echo(f"{_place(node, disk)}: drained, accepts no new grants")


@commands.command(epilog="Example: forebay storage undrain storage1")
@with_client
def undrain(client: Client, node: Node, disk: Disk = "") -> None:
    """Place new grants on a node or disk again. For administrators."""
    client.undrain(node, disk)
    typer.echo(f"{_place(node, disk)}: open, accepts new grants")


@commands.command(epilog="Example: forebay storage give-up storage2")
@with_client
def give_up(
    client: Client,
    node: Node,
    disk: Disk = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Forget a node or disk that will not come back, and all its data. For administrators.

    Grants that lose all their volumes fail. The node or disk is known again when its agent registers it.
    """
    place = _place(node, disk)
    living = (grant for grant in client.grants(node=node) if State(grant["state"]) not in ENDED)
    lost = sum(any(v["node"] == node and disk in ("", v["disk"]) for v in grant["volumes"]) for grant in living)
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"{place} has volumes of {lost} grants. Give it up?")):
        raise BadInput(place, f"not given up, it has volumes of {lost} grants; --yes skips the confirmation")
    client.remove(node, disk)
    typer.echo(f"{place}: given up; grants with volumes there: {lost}")


def _place(node: str, disk: str) -> str:
    return f"{node}/{disk}" if disk else node
