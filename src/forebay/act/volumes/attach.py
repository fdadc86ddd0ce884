"""Attaches volumes of other nodes to this one: connects to them and mounts them for the user.

A volume's file system is not a shared one: two nodes that mount it destroy it. So a node refuses a volume that another
node uses.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.act.command import run
from forebay.act.volumes.mounts import mounted_at
from forebay.act.volumes.nbd import NbdConnection
from forebay.act.volumes.nvme import NvmeConnection
from forebay.act.volumes.unmounting import unmount
from forebay.act.volumes.volume import check_name, is_name
from forebay.model.errors import BadInput, Refused, UnknownName, why
from forebay.model.grant import AVAILABLE, SHARED, VOLUMES_FOLDER

if TYPE_CHECKING:
    from forebay.act.control.client import Client
    from forebay.act.control.documents import GrantDocument

_TIMEOUT = 30.0
_EXT4_AT, _EXT4, _NEEDS_RECOVERY = 1024, b"\x53\xef", 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A volume that is mounted here: `kind` is the connection's kind. The settings do not contain the key."""

    name: str
    kind: str
    settings: dict[str, str] = field(default_factory=dict)
    job: str = ""
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachments:
    """The attached volumes of this node. `folder` has a mount point for each, and a folder with its record."""

    folder: Path = Path(VOLUMES_FOLDER)

    def attach(
        self, name: str, kind: str, settings: dict[str, str], *, used: bool, force: bool = False, job: str = ""
    ) -> Attached:
        """Connect the volume and mount it, unless it is mounted already. `used`: the grant is in use."""
        point = self.folder / check_name(name)
        if mounted_at(point) is not None:
            return self._read(name)
        self._prepare(name, kind, settings, job)
        connection = open_connection(kind, self._record_folder(name), settings)
        try:
            device = connection.connect()
            if not force:
                check_unused(name, device, used)
            _run("mount", "-o", ",".join(("nosuid", "nodev", *connection.options)), device, point)
        except BaseException:
            self.detach(name)
            raise
        return self._read(name)

    def detach(self, name: str) -> bool:
        """Unmount and disconnect the volume; return whether it was attached. Programs that still use it get errors."""
        record_folder = self._record_folder(check_name(name))
        if not record_folder.exists():
            return False
        attached = self._read(name)
        while mounted_at(attached.path) is not None:
            unmount(attached.path, _run)
        if attached.kind != "none":
            open_connection(attached.kind, record_folder, attached.settings).disconnect()
        with suppress(FileNotFoundError):
            attached.path.rmdir()
        shutil.rmtree(record_folder)
        return True

    def list_names(self, *, grant: str = "", job: str = "") -> list[str]:
        """List the volumes that are attached, or were about to be: all, or those of a grant or a job."""
        names = sorted(entry.name[1:] for entry in self.folder.glob(".*") if is_name(entry.name[1:]))
        of_grant = [name for name in names if not grant or name.startswith(f"{grant}.")]
        return [name for name in of_grant if not job or self._read(name).job == job]

    def _record_folder(self, name: str) -> Path:
        return self.folder / f".{name}"

    def _prepare(self, name: str, kind: str, settings: dict[str, str], job: str) -> None:
        if os.geteuid() != 0:
            raise Refused("only root can connect and mount a volume; run this as root")
        record_folder = self._record_folder(name)
        try:
            self.folder.mkdir(0o755, parents=True, exist_ok=True)
            record_folder.mkdir(0o700, exist_ok=True)
            (self.folder / name).mkdir(0, exist_ok=True)  # nobody can write to it while nothing is mounted there
            public = {key: value for key, value in settings.items() if key != "key"}
            (record_folder / "record").write_text(json.dumps({"kind": kind, "settings": public, "job": job}))
        except OSError as error:
            raise BadInput(str(error.filename), why(error)) from None

    def _read(self, name: str) -> Attached:
        path = self.folder / name
        with suppress(OSError, ValueError, TypeError):
            return Attached(name=name, path=path, **json.loads((self._record_folder(name) / "record").read_text()))
        return Attached(name=name, kind="none", path=path)  # a crash came before the record, so nothing was connected


def open_connection(kind: str, folder: Path, settings: dict[str, str]) -> NbdConnection | NvmeConnection:
    """Return a connection of this kind. While it exists, it keeps its files in `folder`."""
    if kind == "none":
        raise BadInput("none", "the volume is only mounted on its storage node; request it with --expose to attach it")
    if kind not in ("nbd", "nvmet"):
        raise UnknownName("kind of connection", kind, ("nbd", "nvmet"))
    return NbdConnection(folder, settings) if kind == "nbd" else NvmeConnection(settings)


def check_unused(name: str, device: Path, used: bool) -> None:
    """Raise Refused if another node may have mounted it. ext4 marks that on the device; otherwise, `used` decides."""
    with device.open("rb") as file:
        superblock = file.read(_EXT4_AT + 100)[_EXT4_AT:]
    is_ext4 = superblock[56:58] == _EXT4
    if (superblock[96] & _NEEDS_RECOVERY) if is_ext4 else used:
        reason = "is in use on another node, or was when that node crashed; if no node uses it, attach it with --force"
        raise Refused(f"volume {name} {reason}")


def _run(*argv: str | Path) -> str:
    return run(tuple(map(str, argv)), timeout=_TIMEOUT)


def attach_grant(
    client: Client, node: Attachments, grant: GrantDocument, *, force: bool = False, job: str = ""
) -> list[Attached]:
    """Attach all volumes of a grant, in order, or none; mark the grant as used."""
    if grant["state"] not in AVAILABLE:
        raise Refused(f"grant {grant['id']} is {grant['state']}; only a ready grant can be attached")
    if grant["expose"] == SHARED:
        raise Refused(f"grant {grant['id']} is a shared file system; mount it with forebay storage mount {grant['id']}")
    if grant["expose"] in ("", "none"):
        raise Refused(f"grant {grant['id']} is not exposed to other nodes; request one with --expose to attach it")
    before, attached = set(node.list_names(grant=grant["id"])), []
    used = grant["state"] == "in-use"
    try:
        for volume in grant["volumes"]:
            name, settings = volume["name"], volume["settings"]
            if not settings:
                raise Refused(f"volume {name} is not exposed at the moment; check the agent on {volume['node']}")
            attached.append(node.attach(name, grant["expose"], settings, used=used, force=force, job=job))
        client.mark_used(grant["id"])
    except BaseException:
        for name in set(node.list_names(grant=grant["id"])) - before:
            node.detach(name)
        raise
    return attached


def list_job_grants(client: Client, user: str, job: str) -> Iterator[GrantDocument]:
    """Yield the exposed grants that a user requested for a job, the oldest first."""
    grants = [g for g in client.grants(owner=user) if g["job"] == job and g["state"] in AVAILABLE]
    for grant in sorted(grants, key=lambda g: (g["created"], g["id"])):
        if grant["expose"] not in ("", "none"):
            yield client.grant(grant["id"])  # a list does not contain keys
