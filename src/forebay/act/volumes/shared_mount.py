"""Mounts shared file systems on this node: for their owner, at the same path as on every other node.

A process in the background (`shared_mount_process`) runs an I/O node and a mount, and ends when the grant does.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.act.command import Child, end_orphan, is_orphan_alive, run
from forebay.act.files import try_lock, write_synced
from forebay.act.volumes.mounts import mounted_at
from forebay.model.errors import BadInput, Refused, UserError, why
from forebay.model.grant import AVAILABLE, SHARED

if TYPE_CHECKING:
    from forebay.act.control.client import Client
    from forebay.act.control.documents import GrantDocument

_START = 60.0  # seconds to start the I/O node and the mount
_GRACE = 20.0  # seconds for both to end by themselves
_TIMEOUT = 30.0
_PAUSE = 0.05
RECORD, KEY, ERRORS, PID = "record.json", "key", "errors", "pid"
"""The files in the folder of a mount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRecord:
    """What the process in the background needs: where to mount which servers, and how to watch the grant."""

    grant: str
    path: str
    servers: tuple[str, ...]
    everybody: bool
    """Whether other users than the one who mounts can reach the mount, as far as its top folder lets them."""
    uid: int
    gid: int
    job: str = ""
    service: str = ""
    token: str = ""
    authority: str = ""


@dataclass(frozen=True, slots=True)
class SharedMount:
    """The mount of one grant at `path` on this node. Its files are in a folder beside the path."""

    path: Path

    @property
    def folder(self) -> Path:
        return self.path.parent / f".{self.path.name}.mount"

    def mount(self, record: MountRecord, key: str) -> None:
        """Mount it unless it is mounted already; leave nothing behind if that fails."""
        self._create_parent()
        with self._lock():
            known = self.read_record()
            if known is not None and is_orphan_alive(self.folder / PID):
                if known.grant != record.grant:
                    raise Refused(f"{self.path}: grant {known.grant} is mounted there; choose another path with --at")
                if mounted_at(self.path) is not None:
                    return
            if known is None and mounted_at(self.path) is not None:
                raise Refused(f"{self.path}: something else is mounted there; choose another path with --at")
            self.unmount()  # what a crash left behind
            try:
                self._prepare(record, key)
                self._start()
                if record.everybody:
                    self._hand_over(record)
            except BaseException:
                self.unmount()
                raise

    def unmount(self) -> bool:
        """Unmount it and end its processes; return whether there was anything. Programs that use it get errors."""
        if not self.folder.is_dir():
            return False
        end_orphan(self.folder / PID, _GRACE, ask=True)
        self.clear()
        return True

    def clear(self) -> None:
        """Remove the mount and its files, after its processes have ended."""
        while mounted_at(self.path) is not None:
            run(("fusermount3", "-u", "-z", str(self.path)), timeout=_TIMEOUT)
        with suppress(OSError):
            self.path.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read_record(self) -> MountRecord | None:
        with suppress(OSError, ValueError, TypeError, KeyError):
            fields = json.loads((self.folder / RECORD).read_text())
            return MountRecord(**fields | {"servers": tuple(fields["servers"])})
        return None

    def _create_parent(self) -> None:
        if os.geteuid() == 0:  # others must reach their own mounts below it, but not list them
            self.path.parent.mkdir(0o711, parents=True, exist_ok=True)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Let only one process at a time mount at this path: a job's prologs may run at once on one machine."""
        with self._name_errors():
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            deadline = time.monotonic() + _START
            while not try_lock(folder):
                if time.monotonic() > deadline:
                    raise UserError(
                        f"cannot mount {self.path}: another process has been mounting in its folder for {_START:g} s; "
                        "try again"
                    )
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(folder)

    def _prepare(self, record: MountRecord, key: str) -> None:
        with self._name_errors():
            if self.path.is_dir() and any(self.path.iterdir()):
                raise BadInput(str(self.path), "is not empty; choose another path with --at")
            self.path.mkdir(0o700, exist_ok=True)
            if self.path.stat().st_uid != os.geteuid():
                raise BadInput(str(self.path), "belongs to another user; choose another path with --at")
            self.folder.mkdir(0o700, exist_ok=True)
            write_synced(self.folder / KEY, f"{key}\n", 0o600)
            write_synced(self.folder / RECORD, json.dumps(asdict(record)), 0o600)

    @contextmanager
    def _name_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"cannot be created: {why(error)}; with --at, name a folder in one that you can write to"
            raise BadInput(str(error.filename or self.path), reason) from None

    def _start(self) -> None:
        errors = self.folder / ERRORS
        pid = self.folder / PID
        child = Child(
            (sys.executable, "-m", "forebay.act.volumes.shared_mount_process", str(pid)), outlives=True, errors=errors
        )
        write_synced(pid, f"{child.pid}\n", 0o600)
        outcome = child.await_ready(_START)
        if outcome != "ready":
            child.stop(_GRACE)
            lines = errors.read_text(errors="replace").split("\n") if errors.exists() else []
            said = [line.removeprefix("forebay: ") for line in lines if line.strip()]
            first = next((line for line in said if "ended before it was ready" not in line), "no reason given")
            raise UserError(
                f"cannot mount {self.path}: {first if outcome == 'ended' else f'not ready in {_START:g} s'}"
            )
        child.detach()

    def _hand_over(self, record: MountRecord) -> None:
        """Give the top folder to the owner, who alone can enter it."""
        try:
            os.chown(self.path, record.uid, record.gid)
            self.path.chmod(0o700)
        except OSError as error:
            raise UserError(f"{self.path}: cannot give it to uid {record.uid}: {why(error)}") from None


def mount_grant(client: Client, grant: GrantDocument, *, at: Path | None = None, job: str = "") -> Path:
    """Mount a shared file system here, at its path or `at`, and mark the grant as used. Return the path."""
    if grant["type"] != SHARED:
        raise Refused(f"grant {grant['id']} is not a shared file system; request one with --type shared")
    if grant["state"] not in AVAILABLE:
        raise Refused(f"grant {grant['id']} is {grant['state']}; only a ready grant can be mounted")
    volumes = sorted(grant["volumes"], key=lambda volume: volume["number"])
    if not all(volume["settings"].get("key") for volume in volumes):
        raise Refused(f"only the owner of grant {grant['id']} and administrators can mount it")
    is_root = os.geteuid() == 0
    if not is_root and grant["uid"] != os.geteuid():
        raise Refused(f"grant {grant['id']} belongs to uid {grant['uid']}; only root and that user can mount it")
    mount = SharedMount((at or Path(grant["path"])).absolute())
    record = MountRecord(
        grant=grant["id"], path=str(mount.path), servers=tuple(v["settings"]["address"] for v in volumes),
        everybody=is_root, uid=grant["uid"], gid=grant["gid"], job=job or grant["job"],
        service=str(client.service), token=str(client.token or ""), authority=str(client.authority or ""),
    )  # fmt: skip
    mount.mount(record, volumes[0]["settings"]["key"])
    client.mark_used(grant["id"])
    return mount.path


def list_mounts_of_job(folder: Path, job: str, service: str) -> list[SharedMount]:
    """List the mounts below `folder` of a service's job: clusters that share a node give equal numbers to jobs."""
    mounts = [SharedMount(entry.parent / entry.name[1:].removesuffix(".mount")) for entry in folder.glob(".*.mount")]
    return [
        mount for mount in mounts
        if (record := mount.read_record()) is not None and (record.job, record.service) == (job, service)
    ]  # fmt: skip
