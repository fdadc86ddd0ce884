"""`forebay token`: tokens for callers of the service, and links to its page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from forebay.cli.storage.connection import Authority, Service
from forebay.show.options import Database, Json

app = typer.Typer(help="Tokens for callers of the service.", no_args_is_help=True)


@app.command(epilog="Example: forebay token login")
def login(
    json: Json = False,
    service: Service = None,
    authority: Authority = None,
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


@app.command(epilog="Example: forebay token make n1-agent --role agent --node n1 --out /etc/forebay/agent.token")
def make(
    name: Annotated[str, typer.Argument(help="What it is called; one of that name is replaced.")],
    out: Annotated[Path, typer.Option(help="The file that the token goes to, with mode 0600.")],
    role: Annotated[str, typer.Option(help="user, agent, administrator, or metrics (reads /metrics alone).")] = "user",
    node: Annotated[str, typer.Option(help="Of an agent: its node.")] = "",
    uid: Annotated[int | None, typer.Option(help="Of a user.")] = None,
    gid: Annotated[int | None, typer.Option(help="Of a user [default: the user's own].")] = None,
    db: Database = None,
    json: Json = False,
) -> None:
    """Make a token, or replace one (the old one ends within seconds)."""
    import time

    from forebay.act.control.api.forms import TokenForm
    from forebay.act.control.auth.tokens import new_token, write_secret
    from forebay.act.control.service.settings import private_files
    from forebay.history.store import open_store
    from forebay.history.toml import validate

    told = {"name": name, "role": role, "node": node, "uid": uid, "gid": gid}
    secret, _, keep = new_token(validate(Path("token"), told, TokenForm), time.time())
    with private_files(), open_store(db) as store, store.writing() as connection:
        replaced = keep(connection)
        write_secret(out, secret)
    _say({"name": name, "file": str(out), "replaced": replaced}, f"written: {out}", json)


@app.command(epilog="Example: forebay token remove n1-agent")
def remove(name: Annotated[str, typer.Argument(help="Which one.")], db: Database = None, json: Json = False) -> None:
    """Take a token away; it ends within seconds."""
    from forebay.history.store import open_store
    from forebay.history.store.tokens import list_tokens, remove_token
    from forebay.model.errors import UnknownName

    with open_store(db, create=False) as store, store.writing() as connection:
        if not remove_token(connection, name):
            raise UnknownName("token", name, [each.name for each in list_tokens(connection)])
    _say({"removed": name}, f"removed: {name}", json)


@app.command("list", epilog="Example: forebay token list")
def listed(db: Database = None, json: Json = False) -> None:
    """Who has a token."""
    from forebay.history.store import open_store
    from forebay.history.store.tokens import list_tokens
    from forebay.show.output import print_json, print_table

    with open_store(db, create=False) as store, store.reading() as connection:
        found = [{"name": t.name, "role": t.role, "node": t.node, "uid": t.uid} for t in list_tokens(connection)]
    if json:
        print_json({"tokens": found})
    else:
        rows = [(t["name"], t["role"], t["node"] or "-", "-" if t["uid"] == -1 else t["uid"]) for t in found]
        print_table("", ("token", "role", "node", "uid"), rows)


def _say(document: dict[str, Any], words: str, json: bool) -> None:
    import json as codec

    typer.echo(codec.dumps(document) if json else words)
