"""`forebay show`: serves the page of a finished study or a journal, without a service."""

from typing import Annotated

import typer

from forebay.show.options import Json
from forebay.show.output import announce

commands = typer.Typer()
What = Annotated[
    str,
    typer.Argument(
        help="A study's folder, a service's database (a path, sqlite:///PATH, postgresql://…), or a journal that "
        "`forebay replay --export` wrote.",
        metavar="DIR",
    ),
]


@commands.command(epilog="Example: forebay show results/io-nodes")
def show(
    what: What,
    port: Annotated[int, typer.Option(help="Listen at this port; 0: any.", min=0, max=65535)] = 0,
    json: Json = False,
) -> None:
    """Show a finished study or a journal in the browser.

    Only this machine can open the page. Ctrl-C ends it.
    """
    import asyncio

    from forebay.act.forward.net.loop import run
    from forebay.show.web import pages
    from forebay.show.web.server import Server
    from forebay.show.web.sources import open_source

    with open_source(what) as source:
        server = Server(source, pages().files, port)

        async def serve(end: asyncio.Event) -> None:
            announce({"ready": "page", "address": server.address}, f"open {server.address}", json_line=json)
            await end.wait()

        try:
            run(serve)
        finally:
            server.close()
