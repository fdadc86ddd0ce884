"""Volumes of other nodes on this one: connected, mounted for the user, and undone again.

The file system of a volume is not shared: mounted on two nodes it would be destroyed. So a node that finds it in use
elsewhere keeps away.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay.act.command import run
from forebay.act.volumes.attach.connections import Way, way_of
from forebay.act.volumes.mounts import mounted_at, unmount
from forebay.act.volumes.volume import checked_name, is_name
from forebay.model.errors import BadInput, Refused, why

FOLDER = Path("/run/forebay/volumes")
_TIMEOUT = 30.0
_EXT4_AT, _EXT4, _NEEDS_RECOVERY = 1024, b"\x53\xef", 4
_IN_USE = "is in use on another node, or was when that node went down; if you are sure that it is not: --force"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A volume that is mounted here; `kind` is the way by which it was reached."""

    name: str
    kind: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachments:
    """Those of this node. `folder` holds a mount point for each, and beside it what must be known to undo it."""

    folder: Path = FOLDER

    def attach(
        self, name: str, kind: str, settings: dict[str, str], *, used: bool, force: bool = False, job: str = ""
    ) -> Attached:
        """Connect and mount; the same again if it is mounted here. `used`: somebody has begun to work with it."""
        own, point = self._own(checked_name(name)), self.folder / name
        if mounted_at(point) is not None:
            return Attached(name=name, kind=self._record(name)["kind"], path=point)
        self._prepare(name, kind, settings, job)
        way = way_of(kind, own, settings)
        try:
            device = way.connect()
            if not force:
                check_free(name, device, used)
            _mount(way, device, point)
        except BaseException:
            self.detach(name)
            raise
        return Attached(name=name, kind=kind, path=point)

    def detach(self, name: str) -> bool:
        """Unmount and disconnect; whether there was anything. What is in use gets errors from then on."""
        own, point = self._own(checked_name(name)), self.folder / name
        if not own.exists():
            return False
        record = self._record(name)
        while mounted_at(point) is not None:
            unmount(point, _do)
        way_of(record["kind"], own, record["settings"]).disconnect()
        with suppress(FileNotFoundError):
            point.rmdir()
        shutil.rmtree(own)
        return True

    def attached(self, grant: str = "") -> list[str]:
        """The volumes that are here, or were to be: of one grant, or all."""
        names = sorted(entry.name[1:] for entry in self.folder.glob(".*") if is_name(entry.name[1:]))
        return [name for name in names if not grant or name.startswith(f"{grant}.")]

    def of_job(self, job: str) -> list[str]:
        """The volumes that were attached for a job."""
        return [name for name in self.attached() if job and self._record(name)["job"] == job]

    def _own(self, name: str) -> Path:
        return self.folder / f".{name}"

    def _prepare(self, name: str, kind: str, settings: dict[str, str], job: str) -> None:
        if os.geteuid() != 0:
            raise Refused("to connect and mount a volume takes root")
        own = self._own(name)
        try:
            self.folder.mkdir(0o755, parents=True, exist_ok=True)
            own.mkdir(0o700, exist_ok=True)
            (self.folder / name).mkdir(0, exist_ok=True)  # nobody writes to it while nothing is mounted there
            kept = {key: value for key, value in settings.items() if key != "key"}
            (own / "record").write_text(json.dumps({"kind": kind, "settings": kept, "job": job}))
        except OSError as error:
            raise BadInput(str(error.filename), why(error)) from None

    def _record(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._own(name) / "record").read_text())
            return {"kind": str(found["kind"]), "settings": dict(found["settings"]), "job": str(found["job"])}
        except (OSError, ValueError, KeyError, TypeError):
            # It went down before that was written, so nothing was connected.
            return {"kind": "none", "settings": {}, "job": ""}


def check_free(name: str, device: Path, used: bool) -> None:
    """Nobody may have it mounted. ext4 says so itself; of others, that somebody has used it is all that is known."""
    with device.open("rb") as file:
        head = file.read(_EXT4_AT + 100)
    above = head[_EXT4_AT:]
    is_ext4 = above[56:58] == _EXT4
    if (above[96] & _NEEDS_RECOVERY) if is_ext4 else used:
        raise Refused(f"volume {name} {_IN_USE}")


def _mount(way: Way, device: Path, point: Path) -> None:
    options = ",".join(("nosuid", "nodev", *way.options))
    _do("mount", "-o", options, device, point)


def _do(*argv: object) -> str:
    return run(tuple(map(str, argv)), timeout=_TIMEOUT)
