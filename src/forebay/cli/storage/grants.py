"""`forebay storage request`, `wait`, `release`, `extend`, `list`, `show`, `attach` and `detach`: manage grants."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forebay.cli.storage import tables
from forebay.cli.storage.connection import parse_positive, parse_seconds, with_client
from forebay.model.errors import BadInput, Refused, UnknownName
from forebay.model.grant import ENDED, SHARED_FOLDER, VOLUMES_FOLDER, State
from forebay.model.units import parse_size, plural
from forebay.show.options import Json
from forebay.show.output import print_json, print_lines

if TYPE_CHECKING:
    from forebay.act.control.client import Client
    from forebay.act.control.documents import GrantDocument

commands = typer.Typer()
Id = Annotated[str, typer.Argument(metavar="ID", help="The grant.", show_default=False)]
By = Annotated[str, typer.Option(help="How much longer, such as 1h; without a unit: seconds.")]
AtMost = Annotated[str | None, typer.Option(help="Wait no longer than this; the grant stays.")]
Env = Annotated[bool, typer.Option("--env", help='Print FOREBAY_PATH and more for a shell: eval "$(...)".')]
At = Annotated[Path, typer.Option("--at", help="Folder below which volumes are mounted.", metavar="DIR")]


@commands.command(epilog="Example: forebay storage request --size 500GB --time 2h --tier nvme --wait")
@with_client
def request(
    client: Client,
    size: Annotated[str, typer.Option(help="How much space, such as 500GB; without a unit: bytes.")],
    time: Annotated[str, typer.Option(help="For how long, such as 2h; without a unit: seconds.")],
    start: Annotated[str | None, typer.Option(help="A delay such as 2h, or 2026-11-16T08:00 [default: now].")] = None,
    tier: Annotated[str, typer.Option(help="Tier of the disks, such as nvme.")] = "",
    field: Annotated[list[str] | None, typer.Option(help="NAME=VALUE that the disks must have; repeatable.")] = None,
    job: Annotated[str, typer.Option(help="Job that uses the space.")] = "",
    expose: Annotated[str, typer.Option(help="Make it reachable from other nodes: nbd or nvmet.")] = "",
    host: Annotated[
        list[str] | None, typer.Option(help="Host that can use it; repeatable [default: this one].")
    ] = None,
    type_: Annotated[
        str, typer.Option("--type", help="volumes, or shared: one file system for several nodes.")
    ] = "volumes",
    servers: Annotated[
        int, typer.Option(help="Data servers of a shared file system [default: 4].", min=0, show_default=False)
    ] = 0,
    equal: Annotated[bool, typer.Option("--equal", help="All parts of it must have the same size.")] = False,
    key: Annotated[str, typer.Option(help="A request with the same key is the same request.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is ready; Ctrl-C gives it back.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="With --wait: Ctrl-C does not give it back.")] = False,
    at_most: AtMost = None,
    env: Env = False,
    json: Json = False,
) -> None:
    """Request space. Prints its paths, or the settings to connect to it; --env also waits."""
    import secrets

    form: dict[str, Any] = {
        "size": int(parse_positive("--size", size, parse_size)),
        "seconds": parse_seconds("--time", time),
        "start": _parse_start(start),
        "tier": tier,
        "fields": _parse_fields(field, expose),
        "job": job,
        **({"type": type_, "servers": servers, "equal": equal} if type_ != "volumes" or servers or equal else {}),
        "key": key or secrets.token_hex(16),
        **_parse_exposure(expose, host),
    }
    patience = _parse_patience(at_most)
    try:
        grant = client.request(**form)
    except KeyboardInterrupt:  # before the service answered: leave nothing behind
        grant = client.release(client.request(**form)["id"])
        print_lines(f"grant {grant['id']}: released", err=True)
        raise
    if wait or env or at_most is not None:
        grant = _wait(client, grant, patience, release=not keep)
    tables.report_grant(grant, json=json, env=env)


def _parse_exposure(expose: str, hosts: list[str] | None) -> dict[str, Any]:
    import socket

    if not expose or expose == "none":
        if hosts:
            raise BadInput("--host", "requires --expose")
        return {}
    if expose == "nvmet" and not hosts:
        raise BadInput("--host", "--expose nvmet needs the NQN of each host that may connect (its /etc/nvme/hostnqn)")
    return {"expose": expose, "hosts": hosts or [socket.gethostname()]}


def _parse_fields(pairs: list[str] | None, expose: str) -> dict[str, str]:
    """Parse the fields that the disks must have. An exposed volume needs a disk that exposes volumes that way."""
    fields = {"expose": expose} if expose and expose != "none" else {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadInput("--field", f"must be NAME=VALUE, not {pair!r}")
        if name in fields:
            raise BadInput("--field", f"{name} is given twice")
        fields[name] = value
    return fields


def _parse_start(text: str | None) -> float | str | None:
    """Return seconds since 1970, or a delay, which the service adds to its clock."""
    from datetime import datetime

    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        try:
            parse_seconds("--start", text)
        except BadInput:
            raise BadInput(
                "--start", f"must be a delay like 2h, or a time like 2026-11-16T08:00, not {text!r}"
            ) from None
        return text


def _parse_patience(at_most: str | None) -> float:
    return math.inf if at_most is None else parse_seconds("--at-most", at_most)


@commands.command(epilog="Example: forebay storage wait 3f0c... --at-most 10min")
@with_client
def wait(client: Client, grant: Id, at_most: AtMost = None, env: Env = False, json: Json = False) -> None:
    """Wait until a grant is ready. Ctrl-C does not give it back."""
    patience = _parse_patience(at_most)
    tables.report_grant(_wait(client, client.grant(grant), patience, release=False), json=json, env=env)


def _wait(client: Client, grant: GrantDocument, patience: float, *, release: bool) -> GrantDocument:
    """Wait until the grant is ready or has ended; print its place in the queue on stderr."""
    shown = ""
    try:
        for latest in client.follow(grant, patience):
            grant, progress = latest, tables.describe_progress(latest)
            if progress and progress != shown:
                print_lines(progress, err=True)
            shown = progress
    except KeyboardInterrupt:
        if release:
            client.release(grant["id"])
        outcome = "released" if release else f"kept; to wait again: forebay storage wait {grant['id']}"
        print_lines(f"grant {grant['id']}: {outcome}", err=True)
        raise
    if tables.describe_progress(grant):
        again = f"to wait again: forebay storage wait {grant['id']}"
        raise Refused(f"grant {grant['id']} is still {grant['state']}; {again}")
    return grant


@commands.command(epilog="Example: forebay storage release 3f0c...")
@with_client
def release(
    client: Client,
    grants: Annotated[list[str], typer.Argument(metavar="ID...", help="The grants.", show_default=False)],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until their volumes are gone from all disks.")] = False,
    at_most: Annotated[str | None, typer.Option(help="Wait no longer than this.")] = None,
    json: Json = False,
) -> None:
    """Give grants back. Their data is deleted.

    If one of them cannot be released, the others are.
    """
    patience = _parse_patience(at_most)
    waits = wait or at_most is not None
    before, problems = _release_each(client, grants)
    after = _wait_for_removal(client, before, patience) if waits else before
    if json:
        if after:
            print_json(after[0] if len(grants) == 1 else after)
    else:
        for grant in after:
            print_lines(f"grant {grant['id']}: {grant['state']}")
    for old, new in zip(before, after, strict=True):
        if waits and old["state"] == "releasing" and new["state"] in ("failed", "releasing"):
            state = "failed" if new["state"] == "failed" else "is still releasing"
            problems.append(f"grant {new['id']} {state}: {'; '.join([new['because'], *new['marks']])}")
    if problems:
        print_lines(*(f"forebay: {problem}" for problem in problems), err=True)
        raise typer.Exit(2)


def _release_each(client: Client, grants: list[str]) -> tuple[list[GrantDocument], list[str]]:
    """Release the grants; returns those that were released, and why others were not."""
    from forebay.act.control.client import TurnedAway

    released, problems = [], []
    for grant in dict.fromkeys(grants):
        try:
            released.append(client.release(grant))
        except TurnedAway as error:
            problems.append(str(error))
    return released, problems


def _wait_for_removal(client: Client, grants: list[GrantDocument], patience: float) -> list[GrantDocument]:
    """Wait until nothing is left of the grants, or for `patience` seconds; print what delays it on stderr."""
    import time

    shown: set[str] = set()
    end = time.monotonic() + patience
    while any(grant["state"] == "releasing" for grant in grants) and (left := end - time.monotonic()) > 0:
        for line in {f"grant {grant['id']}: {mark}" for grant in grants for mark in grant["marks"]} - shown:
            print_lines(line, err=True)
            shown.add(line)
        grants = [client.wait(g["id"], left, known="releasing") if g["state"] == "releasing" else g for g in grants]
    return grants


@commands.command(epilog="Example: forebay storage extend 3f0c... --by 1h")
@with_client
def extend(client: Client, grant: Id, by: By, json: Json = False) -> None:
    """Extend a grant, if no other grant has reserved its space."""
    extended = client.extend(grant, parse_seconds("--by", by))
    print_json(extended) if json else print_lines(f"grant {grant}: until {tables.format_time(extended['until'])}")


@commands.command("list", epilog="Example: forebay storage list --state queued")
@with_client
def list_grants(
    client: Client,
    state: Annotated[str, typer.Option(help="Only grants in this state.")] = "",
    owner: Annotated[str, typer.Option(help="Only grants of this user.")] = "",
    node: Annotated[str, typer.Option(help="Only grants on this node.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Include grants that have ended.")] = False,
    json: Json = False,
) -> None:
    """List your grants with their states and reasons. Administrators see all grants."""
    grants = list(client.grants(state=state, owner=owner, node=node))
    if node and not grants and node not in (known := [document["name"] for document in client.nodes()]):
        raise UnknownName("node", node, known)
    if not (everything or state):
        grants = [grant for grant in grants if State(grant["state"]) not in ENDED]
    print_json(grants) if json else tables.print_grants(grants)


@commands.command(epilog="Example: forebay storage show 3f0c... --story")
@with_client
def show(
    client: Client,
    grant: Id,
    story: Annotated[bool, typer.Option("--story", help="Also show everything that happened to it.")] = False,
    json: Json = False,
) -> None:
    """Show one grant: its state, the reason, and its volumes."""
    document = client.grant(grant)
    lines = client.story(grant) if story else []
    print_json(document | ({"story": lines} if story else {})) if json else tables.print_grant(document, lines)


@commands.command(epilog="Example: forebay storage stage in 3f0c... /home/ann/input data/input --wait")
@with_client
def stage(
    client: Client,
    way: Annotated[str, typer.Argument(metavar="in|out", help="Into the space, or out of it.", show_default=False)],
    grant: Id,
    pairs: Annotated[list[str], typer.Argument(metavar="FROM TO...", help="What to copy where.", show_default=False)],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until everything is copied.")] = False,
    limit: Annotated[str, typer.Option(help="Fail if no data has moved for this long.")] = "10min",
    key: Annotated[str, typer.Option(help="A command with the same key copies once.")] = "",
    json: Json = False,
) -> None:
    """Copy files into a grant or out of it, on the storage nodes.

    They copy with the rights of the grant's owner, and go on after a crash. Paths outside must be visible on them.
    """
    if way not in ("in", "out"):
        raise BadInput("in|out", f"must be in or out, not {way!r}")
    if len(pairs) % 2:
        raise BadInput("FROM TO...", "must be pairs; the last FROM has no TO")
    copies = list(zip(pairs[::2], pairs[1::2], strict=True))
    begun = document = client.stage(grant, way, copies, key=key, limit=parse_seconds("--limit", limit))
    shown = ""
    for document in client.follow_staging(begun) if wait else [begun]:
        said = tables.describe_staging(document)
        if wait and said != shown and document["staging"] and document["staging"]["state"] == "running":
            print_lines(said, err=True)
        shown = said
    staging = document["staging"]
    if staging is not None and staging["state"] == "failed":
        raise Refused(f"grant {grant}: {staging['said']}")
    print_json(document) if json else print_lines(f"grant {grant}: {tables.describe_staging(document)}")


@commands.command(epilog="Example: forebay storage mount 3f0c...")
@with_client
def mount(
    client: Client,
    grant: Id,
    at: Annotated[
        Path | None,
        typer.Option(
            "--at", help="Mount it here, in a folder that you can write to [default: its path on every node]."
        ),
    ] = None,
    env: Annotated[bool, typer.Option("--env", help="Print FOREBAY_PATH and more for a shell.")] = False,
    json: Json = False,
) -> None:
    """Mount a shared file system on this node, for its owner only. It is unmounted when the grant ends.

    Root can mount it for its owner. Other users need fusermount3 and, for the default path, a folder that all users can
    write to (mode 1777).
    """
    from forebay.act.volumes.shared_mount import mount_grant

    path = str(mount_grant(client, client.grant(grant), at=at))
    if json:
        print_json({"grant": grant, "path": path})
    elif env:
        typer.echo("\n".join(tables.shell_exports(grant, [path])))
    else:
        print_lines(f"path: {path}")


@commands.command(epilog="Example: forebay storage unmount 3f0c...")
def unmount(
    grant: Id,
    at: Annotated[
        Path | None, typer.Option("--at", help="Where it is mounted [default: its path on every node].")
    ] = None,
    json: Json = False,
) -> None:
    """Unmount a shared file system on this node. Its data stays. Unmounting twice is harmless."""
    from forebay.act.volumes.shared_mount import SharedMount

    there = SharedMount((at or Path(SHARED_FOLDER) / grant).absolute()).unmount()
    outcome = "unmounted" if there else "not mounted here"
    print_json({"grant": grant, "unmounted": there}) if json else print_lines(f"grant {grant}: {outcome}")


@commands.command(epilog="Example: forebay storage attach 3f0c...")
@with_client
def attach(
    client: Client,
    grant: Id,
    at: At = Path(VOLUMES_FOLDER),
    force: Annotated[bool, typer.Option("--force", help="Attach even if in use elsewhere; destroys data.")] = False,
    env: Annotated[bool, typer.Option("--env", help="Print FOREBAY_PATH and more for a shell.")] = False,
    json: Json = False,
) -> None:
    """Connect to an exposed grant and mount it here for its owner. Needs root; only one node can attach it."""
    from forebay.act.volumes.attach import Attachments, attach_grant

    volumes = attach_grant(client, Attachments(folder=at.absolute()), client.grant(grant), force=force)
    paths = [str(volume.path) for volume in volumes]
    if json:
        print_json({"grant": grant, "paths": paths})
    elif env:
        typer.echo("\n".join(tables.shell_exports(grant, paths)))
    else:
        print_lines(*(f"path: {path}" for path in paths))


@commands.command(epilog="Example: forebay storage detach 3f0c...")
def detach(grant: Id, at: At = Path(VOLUMES_FOLDER), json: Json = False) -> None:
    """Unmount a grant here and disconnect from it. Its data stays. Detaching twice is harmless."""
    from forebay.act.volumes.attach import Attachments

    node = Attachments(folder=at.absolute())
    names = [name for name in node.list_names(grant=grant) if node.detach(name)]
    outcome = f"{plural(len(names), 'volume')} detached" if names else "not attached here"
    print_json({"grant": grant, "detached": names}) if json else print_lines(f"grant {grant}: {outcome}")
