"""`forebay storage policy` and `rules`: how the service decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from forebay.cli.storage.connection import with_client
from forebay.model.errors import BadInput
from forebay.model.units import format_duration, format_size
from forebay.show.options import Json
from forebay.show.output import print_json

if TYPE_CHECKING:
    from forebay.act.control.client import Client

commands = typer.Typer()
_DURATIONS = ("interval", "longest", "ahead", "remember")


@commands.command(epilog="Example: forebay storage policy worst-fit")
@with_client
def policy(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Use this policy for all decisions to come.")] = "",
    json: Json = False,
) -> None:
    """Show or change the policy that chooses disks. Existing grants stay where they are.

    Only administrators can change it. `forebay replay` shows what another policy would have decided so far.
    """
    current = client.policy(name)
    print_json({"policy": current}) if json else typer.echo(current)


@commands.command(epilog="Example: forebay storage rules split=100GB tries=24")
@with_client
def rules(
    client: Client,
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Rules to change; the others stay.")
    ] = None,
    json: Json = False,
) -> None:
    """Show or change the rules for grants: split, tries, longest time."""
    current = client.rules(dict(_parse_change(change) for change in changes or []))
    if json:
        print_json(current)
        return
    for name, value in cast(dict[str, float], current).items():
        text = format_size(value) if name == "split" else format_duration(value) if name in _DURATIONS else value
        typer.echo(f"{name} = {text}")


def _parse_change(change: str) -> tuple[str, str | int]:
    """The service parses what is not an integer, as a size or a duration."""
    name, equals, value = change.partition("=")
    if not (name and equals and value):
        raise BadInput("rules", f"a change must be NAME=VALUE, not {change!r}")
    return name, int(value) if value.isascii() and value.isdigit() and len(value) < 19 else value
