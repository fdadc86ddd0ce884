"""Prints grants, nodes and strays as text, tables and shell variables."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from forebay.model.errors import Refused
from forebay.model.grant import AVAILABLE
from forebay.model.units import format_size
from forebay.show.output import print_json, print_lines, print_table

if TYPE_CHECKING:
    from forebay.act.control.documents import DiskDocument, GrantDocument, NodeDocument, StoryLine, StrayDocument

_ENDED = {
    "refused": "was refused",
    "failed": "failed",
    "expired": "has expired",
    "releasing": "is being released",
    "released": "was released",
}


def format_time(seconds: float) -> str:
    """Format a local time; 0 is a dash."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S") if seconds else "-"


def describe_progress(grant: GrantDocument) -> str:
    """Describe what a grant waits for; "" if it is ready or has ended.

    >>> describe_progress({"state": "queued", "position": 3, "because": "no disk has 2 TB free"})
    'queued, place 3: no disk has 2 TB free'
    >>> describe_progress({"state": "ready"})
    ''
    """
    if grant["state"] not in ("asked", "queued", "granted", "making"):
        return ""
    place = f", place {grant['position']}" if grant.get("position") else ""
    start = f", starts {format_time(grant['start'])}" if grant["state"] == "granted" else ""
    return f"{grant['state']}{place}{start}" + (f": {grant['because']}" if grant.get("because") else "")


def describe_staging(grant: GrantDocument) -> str:
    """Describe the latest staging of a grant; "" if there is none."""
    staging = grant["staging"]
    return "" if staging is None else staging["said"]


def report_grant(grant: GrantDocument, *, json: bool, env: bool) -> None:
    """Print where the space is, or how to connect to it. Raise Refused if the grant has ended."""
    if grant["state"] in _ENDED:
        raise Refused(f"grant {grant['id']} {_ENDED[grant['state']]}: {grant['because']}")
    if json:
        print_json(grant)
    elif env:
        is_shared = grant.get("type") == "shared"  # `forebay storage mount` gets the settings itself
        settings = [volume["settings"] for volume in grant["volumes"] if volume["settings"] and not is_shared]
        typer.echo("\n".join(shell_exports(grant["id"], grant["paths"], settings)))
    else:
        print_lines(_summary(grant), *_places(grant))


def _summary(grant: GrantDocument) -> str:
    state = f"{grant['state']}, {format_size(grant['size'])} until {format_time(grant['until'])}"
    return f"grant {grant['id']}: {describe_progress(grant) or state}"


def shell_exports(grant: str, paths: Sequence[str], settings: Sequence[Mapping[str, str]] = ()) -> list[str]:
    """Format lines for `eval` in a shell; `settings` are those of exposed volumes.

    >>> shell_exports("3f", ["/fast/3f.0", "/more/3f.1"])
    ['export FOREBAY_GRANT=3f', 'export FOREBAY_PATH=/fast/3f.0', 'export FOREBAY_PATHS=/fast/3f.0:/more/3f.1']
    """
    variables = {"FOREBAY_GRANT": grant}
    if paths:
        variables |= {"FOREBAY_PATH": paths[0], "FOREBAY_PATHS": ":".join(paths)}
    if settings:
        variables["FOREBAY_SETTINGS"] = json.dumps(settings)
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


def _places(grant: GrantDocument) -> Iterable[str]:
    if grant.get("type") == "shared":
        if grant["path"]:
            yield f"path: {grant['path']} (where it is mounted: forebay storage mount {grant['id']})"
        return
    for volume in grant["volumes"] if grant["state"] in AVAILABLE else ():
        if volume["settings"]:
            settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in volume["settings"].items())
            yield f"connect {volume['node']}: {settings}"
        elif volume["path"]:
            yield f"path: {volume['path']}"


def print_grants(grants: Sequence[GrantDocument]) -> None:
    if not grants:
        print_lines("no grants")
        return
    columns = ("id", "state", "size", "until", "owner", "job", "on", "why")
    print_table("", columns, [_row(grant) for grant in grants])


def _row(grant: GrantDocument) -> tuple[object, ...]:
    where = " ".join(sorted({f"{v['node']}/{v['disk']}" for v in grant["volumes"]})) or "-"
    state = f"queued ({grant['position']})" if grant["state"] == "queued" else grant["state"]
    owner, until = grant["user"] or str(grant["uid"]), format_time(grant["until"])
    why = "; ".join([*filter(None, [grant["because"]]), *grant.get("marks", ())])
    return grant["id"], state, format_size(grant["size"]), until, owner, grant["job"] or "-", where, why


def print_grant(grant: GrantDocument, story: Sequence[StoryLine]) -> None:
    """Print a grant with its volumes, and one line per event of its story."""
    print_lines(_summary(grant))
    for line in (grant["because"] if not describe_progress(grant) else "", *grant.get("marks", ())):
        if line:
            print_lines(f"  {line}")
    if grant.get("staging") and describe_staging(grant) not in grant.get("marks", ()):
        print_lines(f"  {describe_staging(grant)}")
    owner = grant["user"] or f"uid {grant['uid']}"
    job = f", job {grant['job']}" if grant["job"] else ""
    print_lines(f"  owner {owner}{job}, requested {format_time(grant['created'])}")
    if grant["volumes"]:
        is_shared = grant.get("type") == "shared"
        rows = [
            (v["node"], v["disk"], format_size(v["size"]), v["state"],
             v["settings"].get("address", "") if is_shared else v["path"])
            for v in grant["volumes"]
        ]  # fmt: skip
        last = "data server" if is_shared else "path"
        print_table("Volumes", ("node", "disk", "size", "state", last), rows)
    for line in _places(grant):
        print_lines(line)
    for event in story:
        print_lines(f"{format_time(event['time'])} {event.get('node') or 'service'}: {event['text']}")


def print_nodes(nodes: Sequence[NodeDocument]) -> None:
    rows = [
        (
            node["name"], disk["name"], _condition(node, disk), format_size(disk["capacity"]),
            f"{100 * disk['used'] / disk['capacity']:.1f}%" if disk["capacity"] else "-",
            " ".join(f"{name}={value}" for name, value in disk["fields"].items()),
        )
        for node in nodes for disk in node["disks"]
    ]  # fmt: skip
    print_table("", ("node", "disk", "state", "capacity", "used", "fields"), rows)


def _condition(node: NodeDocument, disk: DiskDocument) -> str:
    if not disk["there"]:
        return "gone"
    if node["silent"]:
        return "silent"
    if disk.get("unseen"):
        return f"not seen: {disk['unseen']}"
    if disk.get("suspended"):
        return f"suspended: {disk['suspended']}"
    state = "drained" if node["drained"] or disk["drained"] else "open"
    return f"{state}, in doubt" if node.get("doubted") else state


def print_strays(strays: Sequence[StrayDocument], json: bool, outcome: str = "") -> None:
    """Print the `outcome` of a change, and the strays that are left."""
    if json:
        print_json(strays)
        return
    if outcome or not strays:
        print_lines(outcome or "no strays")
    if strays:
        rows = [
            (s["node"], s["disk"], s["name"], format_size(s["size"]), s["user"] or s["uid"], format_time(s["since"]),
             s["why"])
            for s in strays
        ]  # fmt: skip
        print_table("", ("node", "disk", "volume", "size", "owner", "since", "why"), rows)
