"""`forebay storage attach` and `detach`: volumes of other nodes on this one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.storage.connection import Id, with_client
from forebay.show.options import Json
from forebay.show.output import print_json

if TYPE_CHECKING:
    from forebay.act.control.client import Client

commands = typer.Typer()
FOLDER = Path("/run/forebay/volumes")
At = Annotated[Path, typer.Option("--at", help="Folder below which volumes are mounted.", metavar="DIR")]


@commands.command(epilog="Example: forebay storage attach 3f0c...")
@with_client
def attach(
    client: Client,
    grant: Id,
    at: At = FOLDER,
    force: Annotated[
        bool,
        typer.Option("--force", help="Attach a grant that seems attached elsewhere; if it is, its data is destroyed."),
    ] = False,
    env: Annotated[bool, typer.Option("--env", help="Print FOREBAY_PATH and more for a shell.")] = False,
    json: Json = False,
) -> None:
    """Connect to an exposed grant and mount it here for its owner. Needs root; works on one node at a time."""
    from forebay.act.volumes.attach import Attachments, attach_grant
    from forebay.cli.storage.tables import shell_exports

    volumes = attach_grant(client, Attachments(folder=at.absolute()), client.grant(grant), force=force)
    paths = [str(volume.path) for volume in volumes]
    if json:
        print_json({"grant": grant, "paths": paths})
    elif env:
        typer.echo("\n".join(shell_exports(grant, paths)))
    else:
        typer.echo("\n".join(f"path: {path}" for path in paths))


@commands.command(epilog="Example: forebay storage detach 3f0c...")
def detach(grant: Id, at: At = FOLDER, json: Json = False) -> None:
    """Unmount a grant here and disconnect from it. Its data stays; detaching twice is harmless."""
    from forebay.act.volumes.attach import Attachments

    node = Attachments(folder=at.absolute())
    names = [name for name in node.list_names(grant=grant) if node.detach(name)]
    if json:
        print_json({"grant": grant, "detached": names})
    else:
        typer.echo(f"grant {grant}: {len(names)} volumes detached" if names else f"grant {grant}: not attached here")
