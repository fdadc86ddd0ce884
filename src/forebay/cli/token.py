"""`forebay token`: makes tokens for callers of the service, and links to its page."""

from pathlib import Path
from typing import Annotated

import typer

from forebay.cli.storage.connection import Authority, Service
from forebay.model.errors import BadInput, UnknownName
from forebay.show.options import Json, ServiceDatabase
from forebay.show.output import announce, print_json, print_table

app = typer.Typer(help="Tokens for callers of the service.", no_args_is_help=True)


@app.command(epilog="Example: forebay token login")
def login(json: Json = False, service: Service = None, authority: Authority = None) -> None:
    """Print a link that logs you in at the service's page. It works once, within five minutes."""
    from forebay.act.control.client import Client, service_of

    address = service_of(service)
    with Client(address, authority=authority) as client:
        login = client.login_link()
    if not login["link"]:
        raise BadInput(
            str(address),
            "the service does not listen on TCP; forward a port to its socket instead: "
            f"ssh -L 8000:{address.socket or 'SOCKET'} HOST, and open http://localhost:8000/",
        )
    print_json(login) if json else typer.echo(login["link"])


@app.command(epilog="Example: forebay token make n1-agent --role agent --node n1 --out /etc/forebay/agent.token")
def make(
    name: Annotated[str, typer.Argument(help="Name of the token; replaces an existing one.")],
    out: Annotated[Path, typer.Option(help="File for the token; it gets mode 0600.")],
    role: Annotated[str, typer.Option(help="user, agent, administrator, or metrics (reads only /metrics).")] = "user",
    node: Annotated[str, typer.Option(help="For an agent: its node.")] = "",
    uid: Annotated[int | None, typer.Option(help="For a user: the uid.")] = None,
    gid: Annotated[int | None, typer.Option(help="For a user: the gid [default: the user's own].")] = None,
    db: ServiceDatabase = None,
    json: Json = False,
) -> None:
    """Make a token. An existing token of that name becomes invalid."""
    import time

    from forebay.act.control.api.forms import TokenForm
    from forebay.act.control.auth.tokens import new_token, write_secret
    from forebay.act.control.service.settings import private_files
    from forebay.history.store import open_store
    from forebay.history.store.tokens import save_token
    from forebay.history.toml import validate

    if role == "user" and uid is None:
        raise BadInput("--uid", "is missing; a user's token needs the uid, such as $(id -u ada)")
    if role == "agent" and not node:
        raise BadInput("--node", "is missing; an agent's token is valid for one node")
    form = {"name": name, "role": role, "node": node, "uid": uid, "gid": gid}
    secret, token = new_token(validate(Path("token"), form, TokenForm), time.time())
    with private_files(), open_store(db) as store, store.open_writer() as connection:
        replaced = save_token(connection, token)
        write_secret(out, secret)
    announce({"name": name, "file": str(out), "replaced": replaced}, f"written: {out}", json_line=json)


@app.command(epilog="Example: forebay token remove n1-agent")
def remove(
    name: Annotated[str, typer.Argument(help="The token.")], db: ServiceDatabase = None, json: Json = False
) -> None:
    """Remove a token; it becomes invalid within seconds."""
    from forebay.history.store import open_store, tokens

    _check_database(db)
    with open_store(db, create=False) as store, store.open_writer() as connection:
        if not tokens.remove_token(connection, name):
            raise UnknownName("token", name, [token.name for token in tokens.list_tokens(connection)])
    announce({"removed": name}, f"removed: {name}", json_line=json)


@app.command("list", epilog="Example: forebay token list")
def list_all(db: ServiceDatabase = None, json: Json = False) -> None:
    """List all tokens."""
    from forebay.history.store import open_store, tokens

    _check_database(db)
    with open_store(db, create=False) as store, store.open_reader() as connection:
        listed = tokens.list_tokens(connection)
    documents = [{"name": t.name, "role": t.role, "node": t.node, "uid": t.uid} for t in listed]
    if json:
        print_json({"tokens": documents})
    else:
        rows = [(t["name"], t["role"], t["node"] or "-", "-" if t["uid"] == -1 else t["uid"]) for t in documents]
        print_table("", ("token", "role", "node", "uid"), rows)


def _check_database(db: str | None) -> None:
    """Refuse a path without a database: it is probably not the service's."""
    from forebay.history.store import database_file

    path = database_file(db or "", "--db")
    if path is not None and not path.exists():
        raise BadInput(str(path), "no such database; give the service's with --db: `db` in its settings")
