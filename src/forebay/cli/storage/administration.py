"""`forebay storage nodes`, `drain`, `strays`, `policy`, `rules` …: commands for administrators."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from forebay.cli.storage.connection import parse_seconds, with_client
from forebay.cli.storage.tables import print_nodes, print_strays
from forebay.model.errors import BadInput, UnknownName
from forebay.model.grant import ENDED, State
from forebay.model.units import format_duration, format_size, plural
from forebay.show.options import Json
from forebay.show.output import print_json, print_lines

if TYPE_CHECKING:
    from forebay.act.control.client import Client

commands = typer.Typer()
Node = Annotated[str, typer.Argument(help="The node.", show_default=False)]
Disk = Annotated[str, typer.Option(help="Only this disk of the node.")]
What = Annotated[str, typer.Argument(metavar="GRANT|NODE", help="A grant, or a whole node.", show_default=False)]
_DURATIONS = ("interval", "longest", "ahead", "remember")


@commands.command(epilog="Example: forebay storage nodes")
@with_client
def nodes(client: Client, json: Json = False) -> None:
    """List the storage nodes and their disks, with state and use."""
    documents = sorted(client.nodes(), key=lambda node: node["name"])
    print_json(documents) if json else print_nodes(documents)


@commands.command(epilog="Example: forebay storage drain storage1 --disk nvme0")
@with_client
def drain(client: Client, node: Node, disk: Disk = "") -> None:
    """Place no new grants on a node or disk; existing ones stay. For administrators."""
    client.drain(node, disk)
    print_lines(f"{_place(node, disk)}: drained, accepts no new grants")


@commands.command(epilog="Example: forebay storage undrain storage1")
@with_client
def undrain(client: Client, node: Node, disk: Disk = "") -> None:
    """Place new grants on a node or disk again. For administrators."""
    client.undrain(node, disk)
    print_lines(f"{_place(node, disk)}: open, accepts new grants")


@commands.command(epilog="Example: forebay storage give-up storage2")
@with_client
def give_up(
    client: Client,
    node: Node,
    disk: Disk = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Forget a node or disk that will not come back, and all its data. For administrators.

    Grants that lose all their volumes fail. If the agent registers the node or disk again, the service accepts it.
    """
    place = _place(node, disk)
    known = [document["name"] for document in client.nodes()]
    if node not in known:
        raise UnknownName("node", node, known)
    living = (grant for grant in client.grants(node=node) if State(grant["state"]) not in ENDED)
    lost = sum(any(v["node"] == node and disk in ("", v["disk"]) for v in grant["volumes"]) for grant in living)
    if not yes and not (
        sys.stdin.isatty() and typer.confirm(f"{place} has volumes of {plural(lost, 'grant')}. Give it up?")
    ):
        raise BadInput(place, f"not given up: it has volumes of {plural(lost, 'grant')}; confirm with --yes")
    client.remove(node, disk)
    print_lines(f"{place}: given up; grants with volumes there: {lost}")


def _place(node: str, disk: str) -> str:
    return f"{node}/{disk}" if disk else node


@commands.command(epilog="Example: forebay storage strays")
@with_client
def strays(client: Client, json: Json = False) -> None:
    """List volumes that belong to no living grant, and why. For administrators.

    If the service's store is new or was restored from an older copy, nodes may have volumes that the store does not
    know. The service keeps them, and grants their space to nobody until you adopt or discard them.
    """
    print_strays(client.strays(), json)


@commands.command(epilog="Example: forebay storage adopt 3f0c... --time 24h")
@with_client
def adopt(
    client: Client,
    what: What,
    time: Annotated[str, typer.Option(help="How long from now the grant lasts, such as 24h.")],
    json: Json = False,
) -> None:
    """Make strays a grant again, with its old name and owner. For administrators."""
    seconds = parse_seconds("--time", time)
    left = client.strays()
    has_strays = any(what in (stray["node"], stray["name"].partition(".")[0]) for stray in left)
    if has_strays or what not in [node["name"] for node in client.nodes()]:  # the service knows why not
        left = client.adopt(what, seconds)
    print_strays(left, json, f"{what}: adopted" if has_strays else f"{what}: nothing to adopt")


@commands.command(epilog="Example: forebay storage discard storage1")
@with_client
def discard(client: Client, what: What, json: Json = False) -> None:
    """Remove the strays of a grant or node, and trust it again. For administrators."""
    print_strays(client.discard(what), json, f"{what}: strays removed")


@commands.command(epilog="Example: forebay storage policy worst-fit")
@with_client
def policy(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Use this policy from now on.")] = "",
    json: Json = False,
) -> None:
    """Show or change the policy that chooses disks. Existing grants stay where they are.

    Only administrators can change it. `forebay replay` shows what another policy would have decided so far.
    """
    current = client.policy(name)
    print_json({"policy": current}) if json else print_lines(current)


Changes = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Rules to change; others stay.")]


@commands.command(epilog="Example: forebay storage rules split=100GB tries=24")
@with_client
def rules(client: Client, changes: Changes = None, json: Json = False) -> None:
    """Show or change the rules for grants: split, tries, longest time."""
    parsed = [_parse_change(change) for change in changes or []]
    names = [name for name, _ in parsed]
    for name in names:
        if names.count(name) > 1:
            raise BadInput("rules", f"{name} is given twice")
    current = client.rules(dict(parsed))
    if json:
        print_json(current)
        return
    for name, value in cast(dict[str, float], current).items():
        text = format_size(value) if name == "split" else format_duration(value) if name in _DURATIONS else value
        print_lines(f"{name} = {str(text).lower() if isinstance(text, bool) else text}")


def _parse_change(change: str) -> tuple[str, str | int]:
    """Split NAME=VALUE. The service parses a value that is not an integer as a size or a duration."""
    name, equals, value = change.partition("=")
    if not (name and equals and value):
        raise BadInput("rules", f"a change must be NAME=VALUE, not {change!r}")
    return name, int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value
