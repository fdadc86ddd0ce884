"""`forebay storage strays`, `adopt` and `discard`: what an administrator decides after a store was put back."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from forebay.cli.storage.grants import Authority, Service, Token, client_of, quantity
from forebay.show.options import Json

What = Annotated[str, typer.Argument(metavar="GRANT|NODE", help="A grant, or a whole node.", show_default=False)]


commands = typer.Typer()


@commands.command(epilog="Example: forebay storage strays")
def strays(json: Json = False, service: Service = None, token: Token = None, authority: Authority = None) -> None:
    """List volumes that belong to no living grant, and why. For administrators.

    They are kept where the service's store was put back to an earlier copy, or is a new one, and the node's agent
    knows better: until they are adopted or discarded, nobody else gets their space.
    """
    with client_of(service, token, authority) as client:
        _say(client.strays(), json)


@commands.command(epilog="Example: forebay storage adopt 3f0c... --time 24h")
def adopt(
    what: What,
    time: Annotated[str, typer.Option(help="For how long from now, such as 24h.")],
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """Make what is kept a grant again, with its old name and owner. For administrators."""
    seconds = quantity("--time", time, "duration")
    with client_of(service, token, authority) as client:
        _say(client.adopt(what, seconds), json, f"{what}: adopted")


@commands.command(epilog="Example: forebay storage discard storage1")
def discard(
    what: What, json: Json = False, service: Service = None, token: Token = None, authority: Authority = None
) -> None:
    """Remove kept volumes of a grant or node, and trust it again. For administrators."""
    with client_of(service, token, authority) as client:
        _say(client.discard(what), json, f"{what}: what was kept is removed")


def _say(found: list[dict[str, Any]], json: bool, done: str = "") -> None:
    from forebay.cli.storage.tables import moment
    from forebay.model.units import format_size
    from forebay.show.output import print_json, print_table

    if json:
        print_json(found)
        return
    if done:
        typer.echo(done)
    rows = [
        (s["node"], s["disk"], s["name"], format_size(s["size"]), s["user"] or s["uid"], moment(s["since"]), s["why"])
        for s in found
    ]
    if rows:
        print_table("", ("node", "disk", "volume", "size", "owner", "since", "why"), rows)
    elif not done:
        typer.echo("no strays")
