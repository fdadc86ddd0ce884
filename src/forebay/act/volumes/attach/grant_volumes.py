"""Grants whose volumes are reached from other nodes: all of their volumes on this node, or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forebay.act.control.client import Client
from forebay.act.volumes.attach.attachments import Attached, Attachments
from forebay.model.errors import Refused

_THERE = ("ready", "in-use")


def attach_grant(
    client: Client, node: Attachments, grant: dict[str, Any], *, force: bool = False, job: str = ""
) -> list[Attached]:
    """Its volumes in their order; the service hears that it is used."""
    if grant["state"] not in _THERE:
        raise Refused(f"grant {grant['id']} is {grant['state']}; only what is ready can be attached")
    if grant["expose"] in ("", "none"):
        raise Refused(f"grant {grant['id']} is mounted on its own node, and can't be reached from others")
    before, found = set(node.attached(grant["id"])), []
    try:
        for volume in grant["volumes"]:
            if not volume["settings"]:
                raise Refused(f"volume {volume['name']} is not exposed now; its node {volume['node']} may be away")
            used, settings = grant["state"] == "in-use", volume["settings"]
            found.append(node.attach(volume["name"], grant["expose"], settings, used=used, force=force, job=job))
        client.used(grant["id"])
    except BaseException:
        for name in set(node.attached(grant["id"])) - before:
            node.detach(name)
        raise
    return found


def detach_grant(node: Attachments, grant: str) -> list[str]:
    """The names of its volumes that were here."""
    return [name for name in node.attached(grant) if node.detach(name)]


def grants_of_job(client: Client, user: str, job: str) -> Iterator[dict[str, Any]]:
    """Those that a user asked for, for that job, and that are to be reached from other nodes; the oldest first."""
    found = [g for g in client.grants(owner=user) if g["job"] == job and g["state"] in _THERE]
    for grant in sorted(found, key=lambda g: (g["created"], g["id"])):
        if grant["expose"] not in ("", "none"):
            yield client.grant(grant["id"])  # a list has no keys in it
