"""A real CephFS for the tests: one monitor, four OSDs in memory, one MDS, on loopback only, in a temporary folder.

No manager daemon: nothing here needs what it adds (statistics; so `df` says 0), and it takes the longest to start.
"""

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.ports import free_ports
from support.processes import PATIENCE, wait_until

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "ceph-mds", "ceph-fuse", "monmaptool", "fusermount3")
OSDS = 4
"""Seconds until the cluster has to be there."""

_SETTINGS = """
[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{port}/0
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
mon data avail crit = 1
osd crush chooseleaf type = 0
osd crush update on start = false
osd objectstore = memstore
memstore device bytes = 1073741824
run dir = {folder}
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
mon data = {folder}/mon
osd data = {folder}/osd$id
mds data = {folder}/mds
keyring = {folder}/keyring
"""


class CephFS:
    """A cluster of its own; `mount` is where its file system is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mount = folder / "mnt"
        self._settings = folder / "ceph.conf"
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for name in ("mnt", "mon", "mds", *(f"osd{k}" for k in range(OSDS))):
            (self.folder / name).mkdir()
        (self.folder / "keyring").touch()
        fsid, port = str(uuid.uuid4()), free_ports(1)[0]
        self._settings.write_text(_SETTINGS.format(fsid=fsid, port=port, folder=self.folder))
        self._start_monitor(fsid, port)
        self._start_osds()
        for pool in ("meta", "data"):
            self._run("ceph", "osd", "pool", "create", pool, "8")
        self._run("ceph", "fs", "new", "fs", "meta", "data")
        self._daemon("ceph-mds", "-i", "m")
        self._wait_for("up:active", "ceph", "mds", "stat")
        self._daemon("ceph-fuse", str(self.mount))
        wait_until(self.mount.is_mount, "ceph-fuse did not mount")

    def striped(self, *, size: int = 65536, count: int = OSDS) -> Path:
        """A new folder whose new files are striped like this."""
        folder = Path(tempfile.mkdtemp(dir=self.mount))
        layout = f"stripe_unit={size} stripe_count={count} object_size={64 * size} pool=data"
        os.setxattr(folder, "ceph.dir.layout", layout.encode())
        return folder

    def stop(self) -> None:
        if self.mount.is_mount():
            subprocess.run(["fusermount3", "-u", "-z", str(self.mount)], check=False, timeout=60)
        for process in reversed(self._running):
            process.kill()  # nothing of it is to be kept
        for process in self._running:
            process.wait(60)

    def _start_monitor(self, fsid: str, port: int) -> None:
        made = str(self.folder / "monmap")
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{port}]", made)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", made)
        self._daemon("ceph-mon", "-i", "a")
        self._run("ceph", "osd", "setmaxosd", str(OSDS))

    def _start_osds(self) -> None:
        for number in map(str, range(OSDS)):
            identity = str(uuid.uuid4())
            self._run("ceph", "osd", "new", identity, number)
            self._run("ceph", "osd", "crush", "add", f"osd.{number}", "1", "host=here", "root=default")
            self._run("ceph-osd", "-i", number, "--mkfs", "--osd-uuid", identity)
            self._daemon("ceph-osd", "-i", number)
        self._wait_for(f"{OSDS} up", "ceph", "osd", "stat")

    def _daemon(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.out").open("ab") as out:
            argv = [program, "-f", *arguments]
            self._running.append(subprocess.Popen(argv, stdout=out, stderr=out, env=self._environment))

    def _run(self, *argv: str) -> str:
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env=self._environment, timeout=PATIENCE)
        return done.stdout

    def _wait_for(self, words: str, *argv: str) -> None:
        wait_until(lambda: words in self._run(*argv), f"{' '.join(argv)} never said {words!r}")

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "CEPH_CONF": str(self._settings), "CEPH_ARGS": ""}


@contextmanager
def own_cephfs() -> Iterator[CephFS]:
    """A cluster that is ended afterwards; where it can't be, the test is skipped with the reason."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        packages = "ceph-mon ceph-osd ceph-mds ceph-fuse ceph-common fuse3"
        pytest.skip(f"CephFS is not installed: no {', '.join(missing)} (Debian: apt-get install {packages})")
    if os.getuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("CephFS can't be mounted here: that needs root and /dev/fuse")
    folder = Path(tempfile.mkdtemp(prefix="forebay-ceph-"))
    cluster = CephFS(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def cephfs() -> Iterator[CephFS]:
    with own_cephfs() as cluster:
        yield cluster
