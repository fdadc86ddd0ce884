"""`forebay storage strays`, `adopt` and `discard`: volumes without a grant, after a store was restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.storage.connection import seconds_of, with_client
from forebay.cli.storage.tables import format_time
from forebay.model.units import format_size
from forebay.show.options import Json
from forebay.show.output import print_json, print_table

if TYPE_CHECKING:
    from forebay.act.control.client import Client
    from forebay.act.control.documents import StrayDocument

commands = typer.Typer()
What = Annotated[str, typer.Argument(metavar="GRANT|NODE", help="A grant, or a whole node.", show_default=False)]


@commands.command(epilog="Example: forebay storage strays")
@with_client
def strays(client: Client, json: Json = False) -> None:
    """List volumes that belong to no living grant, and why. For administrators.

    The service keeps them when its store is new or was restored from an older copy, and a node has volumes that
    the store does not know. Nobody gets their space until they are adopted or discarded.
    """
    _print_strays(client.strays(), json)


@commands.command(epilog="Example: forebay storage adopt 3f0c... --time 24h")
@with_client
def adopt(
    client: Client,
    what: What,
    time: Annotated[str, typer.Option(help="How long from now the grant lasts, such as 24h.")],
    json: Json = False,
) -> None:
    """Make strays a grant again, with its old name and owner. For administrators."""
    _print_strays(client.adopt(what, seconds_of("--time", time)), json, f"{what}: adopted")


@commands.command(epilog="Example: forebay storage discard storage1")
@with_client
def discard(client: Client, what: What, json: Json = False) -> None:
    """Remove the strays of a grant or node, and trust it again. For administrators."""
    _print_strays(client.discard(what), json, f"{what}: strays removed")


def _print_strays(documents: list[StrayDocument], json: bool, outcome: str = "") -> None:
    if json:
        print_json(documents)
        return
    if outcome or not documents:
        typer.echo(outcome or "no strays")
    if documents:
        rows = [
            (s["node"], s["disk"], s["name"], format_size(s["size"]), s["user"] or s["uid"], format_time(s["since"]),
             s["why"])
            for s in documents
        ]  # fmt: skip
        print_table("", ("node", "disk", "volume", "size", "owner", "since", "why"), rows)
