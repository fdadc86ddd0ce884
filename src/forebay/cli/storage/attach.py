"""`forebay storage attach` and `detach`: volumes of other nodes on this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forebay.cli.storage.grants import Authority, Id, Service, Token
from forebay.show.options import Json

FOLDER = Path("/run/forebay/volumes")
At = Annotated[Path, typer.Option("--at", help="The folder below which volumes are mounted.", metavar="DIR")]


commands = typer.Typer()


@commands.command(epilog="Example: forebay storage attach 3f0c...")
def attach(
    grant: Id,
    at: At = FOLDER,
    force: Annotated[
        bool, typer.Option("--force", help="Although it seems to be in use on another node: that destroys it if it is.")
    ] = False,
    env: Annotated[bool, typer.Option("--env", help="Print FOREBAY_PATH and more for a shell.")] = False,
    json: Json = False,
    service: Service = None,
    token: Token = None,
    authority: Authority = None,
) -> None:
    """Connect to an exposed grant and mount it here, for its owner. Takes root; one node at a time."""
    from forebay.act.control.client import Client, service_of
    from forebay.act.volumes.attach.attachments import Attachments
    from forebay.act.volumes.attach.grant_volumes import attach_grant
    from forebay.cli.storage.tables import environment
    from forebay.show.output import print_json

    with Client(service_of(service), token=token, authority=authority) as client:
        found = attach_grant(client, Attachments(folder=at.absolute()), client.grant(grant), force=force)
    paths = [str(one.path) for one in found]
    if json:
        print_json({"grant": grant, "paths": paths})
    elif env:
        for line in environment({"id": grant, "path": paths[0], "paths": paths, "volumes": []}):
            typer.echo(line)
    else:
        for path in paths:
            typer.echo(f"path: {path}")


@commands.command(epilog="Example: forebay storage detach 3f0c...")
def detach(grant: Id, at: At = FOLDER, json: Json = False) -> None:
    """Unmount a grant here and disconnect from it; what is on it stays. Again is harmless."""
    from forebay.act.volumes.attach.attachments import Attachments
    from forebay.act.volumes.attach.grant_volumes import detach_grant
    from forebay.show.output import print_json

    names = detach_grant(Attachments(folder=at.absolute()), grant)
    if json:
        print_json({"grant": grant, "detached": names})
    else:
        typer.echo(f"grant {grant}: {len(names)} volumes detached" if names else f"grant {grant}: is not attached here")
