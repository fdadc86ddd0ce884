"""`forebay storage nodes`, `drain`, `undrain` and `give-up`: the storage nodes and their disks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.storage.grants import Authority, Service, Token, client_of
from forebay.model.errors import BadInput
from forebay.model.grant import ENDED, State
from forebay.show.options import Json

if TYPE_CHECKING:
    from forebay.act.control.client import Client

Node = Annotated[str, typer.Argument(help="The node.", show_default=False)]
Disk = Annotated[str, typer.Option(help="Only this disk of it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


commands = typer.Typer()


@commands.command(epilog="Example: forebay storage nodes")
def nodes(json: Json = False, service: Service = None, token: Token = None, authority: Authority = None) -> None:
    """The storage nodes with their disks: how full, drained or silent."""
    from forebay.cli.storage.tables import print_nodes
    from forebay.show.output import print_json

    with client_of(service, token, authority) as client:
        found = client.nodes()
    print_json(found) if json else print_nodes(found)


@commands.command(epilog="Example: forebay storage drain storage1 --disk nvme0")
def drain(
    node: Node, disk: Disk = "", service: Service = None, token: Token = None, authority: Authority = None
) -> None:
    """No new grants on a node or disk; those that are there stay. For administrators."""
    with client_of(service, token, authority) as client:
        client.drain(node, disk)
    typer.echo(f"{_named(node, disk)}: drained: no new grants there")


@commands.command(epilog="Example: forebay storage undrain storage1")
def undrain(
    node: Node, disk: Disk = "", service: Service = None, token: Token = None, authority: Authority = None
) -> None:
    """New grants on a node or disk again. For administrators."""
    with client_of(service, token, authority) as client:
        client.undrain(node, disk)
    typer.echo(f"{_named(node, disk)}: open for new grants")


@commands.command(epilog="Example: forebay storage give-up storage2")
def give_up(
    node: Node,
    disk: Disk = "",
    yes: Yes = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """A node or disk will not come back: forget it, and what it held. For administrators.

    Grants that lose all they had fail, and their owners are told. It is there again when its agent registers it.
    """
    where = _named(node, disk)
    with client_of(service, token, authority) as client:
        lost = f"grants with something there: {_living(client, node, disk)}"
        if not yes and not (sys.stdin.isatty() and typer.confirm(f"{where}: {lost}. Give it up?")):
            raise BadInput(where, f"is not given up ({lost}); --yes does it without asking")
        client.give_up(node, disk)
    typer.echo(f"{where}: given up; {lost}")


def _living(client: Client, node: str, disk: str) -> int:
    """How many grants have a volume there."""
    living = (grant for grant in client.grants(node=node) if State(grant["state"]) not in ENDED)
    return sum(any(v["node"] == node and disk in ("", v["disk"]) for v in grant["volumes"]) for grant in living)


def _named(node: str, disk: str) -> str:
    return f"{node}/{disk}" if disk else node
