"""`forebay token login`: a link that opens the service's page once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forebay.show.options import Json

EXAMPLE = "Example: forebay token login"


def login(
    json: Json = False,
    service: Annotated[
        str | None,
        typer.Option(help="unix:PATH, or https://HOST:PORT with MUNGE [default: $FOREBAY_SERVICE, or the usual one]."),
    ] = None,
    authority: Annotated[Path | None, typer.Option(help="Who signed the service's certificate, a PEM file.")] = None,
) -> None:
    """Print a link that logs you in at the service's page.

    It works once, within five minutes.
    """
    from forebay.act.control.client import Client, service_of
    from forebay.model.errors import BadInput
    from forebay.show.output import print_json

    address = service_of(service)
    with Client(address, authority=authority) as client:
        found = client.login_link()
    if not found["link"]:
        raise BadInput(
            str(address),
            "the service does not listen on TCP; forward a port to its socket instead: "
            f"ssh -L 8000:{address.socket or 'SOCKET'} HOST, and open http://localhost:8000/",
        )
    print_json(found) if json else typer.echo(found["link"])
