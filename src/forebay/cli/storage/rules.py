"""`forebay storage policy` and `rules`: how the service decides, looked at and changed while it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from forebay.cli.storage.grants import Authority, Service, Token, client_of
from forebay.model.errors import BadInput
from forebay.show.options import Json

commands = typer.Typer()
_SECONDS = ("interval", "longest", "ahead", "remember")


@commands.command(epilog="Example: forebay storage policy worst-fit")
def policy(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="From now on decide by this one.")] = "",
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """The policy that chooses disks; what is granted stays where it is. To change it is for administrators.

    `forebay replay` tells what another one would have done with the journal so far.
    """
    from forebay.show.output import print_json

    with client_of(service, token, authority) as client:
        found = client.policy(name)
    print_json({"policy": found}) if json else typer.echo(found)


@commands.command(epilog="Example: forebay storage rules split=100GB tries=24")
def rules(
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="Change these; the others stay.")
    ] = None,
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """Show or change the rules for grants: split, tries, longest time."""
    from forebay.model.units import format_duration, format_size
    from forebay.show.output import print_json

    wanted = dict(_change(word) for word in changes or [])
    with client_of(service, token, authority) as client:
        found = client.rules(wanted)
    if json:
        print_json(found)
        return
    for name, value in found.items():
        words = format_size(value) if name == "split" else format_duration(value) if name in _SECONDS else str(value)
        typer.echo(f"{name} = {words}")


def _change(word: str) -> tuple[str, str | int]:
    """What is no number the service reads as a size or a duration, and says so if it is none."""
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        raise BadInput("rules", f"a change must be NAME=VALUE, not {word!r}")
    return name, int(value) if value.isascii() and value.isdigit() and len(value) < 19 else value
