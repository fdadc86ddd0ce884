"""A job's own file system: how soon it is ready after its volumes, and how fast it is staged, against `cp`.

    sudo .venv/bin/python benchmarks/shared_speed.py [--rounds N] [--files N] [--large MIB] [--only ready|staging]

Goals: a shared file system of four servers is ready within 5 s after its volumes; staging has at least 3 times the rate
of `cp -r` for 2,000 small files, and at least that of `cp` for one large file. The peers are the same request without a
file system (four volumes), and `cp` by one program through the mount, in turns. Everything is on this machine: two
agents with two disks each, volumes in image files, real processes. Staging starts its processes each time, and reads
all copies back and puts them onto the disks; `cp` does none of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import verdict
from control_api_speed import running

from forebay.act.control.client import Client, parse_service
from forebay.act.control.documents import GrantDocument

MOST_READY, SMALL_RATIO, LARGE_RATIO = 5.0, 3.0, 1.0
SERVERS, NODES = 4, 2
PATIENCE = 300.0
_OWNER = 12345
_MEGA = 10**6
_AGENT = """
[agent]
node = "{node}"
service = "unix:{folder}/s"
folder = "{node}-state"
"""
_DISK = """
[[disk]]
name = "{name}"
kind = "loop"
root = "{root}"
capacity = "2 GB"
read_bandwidth = "2 GB/s"
write_bandwidth = "2 GB/s"
"""


class Site:
    """A service with two storage nodes, and its client."""

    def __init__(self, folder: Path, forebay: str, client: Client) -> None:
        self.folder, self._forebay, self.client = folder, forebay, client

    def request(self, size: int, **more: Any) -> GrantDocument:
        *_, grant = self.client.follow(self.client.request(size, 3600, uid=_OWNER, gid=_OWNER, **more), PATIENCE)
        assert grant["state"] == "ready", grant["because"]
        return grant

    def release(self, grant: GrantDocument) -> None:
        state = self.client.release(grant["id"])["state"]
        while state == "releasing":
            state = self.client.wait(grant["id"], known="releasing")["state"]

    @contextmanager
    def shared(self, size: int = 1000 * _MEGA) -> Iterator[GrantDocument]:
        grant = self.request(size, type="shared", servers=SERVERS)
        try:
            yield grant
        finally:
            self.release(grant)

    @contextmanager
    def mounted(self, grant: GrantDocument) -> Iterator[Path]:
        point = self.folder / "mnt"
        words = ("--at", str(point), "--service", f"unix:{self.folder}/s")
        subprocess.run((self._forebay, "storage", "mount", grant["id"], *words), check=True, stdout=subprocess.DEVNULL)
        try:
            yield point
        finally:
            subprocess.run((self._forebay, "storage", "unmount", grant["id"], "--at", str(point)), check=True)


@contextmanager
def start_site() -> Iterator[Site]:
    forebay = str(Path(sys.executable).with_name("forebay"))
    with tempfile.TemporaryDirectory(prefix="fb-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o711)
        words = ("serve", "--socket", str(folder / "s"), "--db", str(folder / "db"))
        stack.enter_context(running(forebay, *words, log=folder / "serve.log"))
        for node in (f"n{number}" for number in range(NODES)):
            text = _AGENT.format(node=node, folder=folder)
            for disk in range(SERVERS // NODES):
                root = folder / f"{node}-d{disk}"
                root.mkdir(0o711)
                text += _DISK.format(name=f"d{disk}", root=root)
            (folder / f"{node}.toml").write_text(text)
            stack.enter_context(running(forebay, "agent", str(folder / f"{node}.toml"), log=folder / f"{node}.log"))
        client = stack.enter_context(Client(parse_service(f"unix:{folder}/s"), patience=PATIENCE))
        client.rules({"split": 250 * _MEGA})  # so that four volumes are a request of the same size
        while len(client.nodes()) < NODES:
            time.sleep(0.05)
        yield Site(folder, forebay, client)


def measure_readiness(site: Site, rounds: int) -> None:
    """From the request until a user can write a file on the mount, less what four volumes alone take."""
    plain, shared, mount = [], [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        grant = site.request(1000 * _MEGA)
        plain.append(time.perf_counter() - begin)
        assert len(grant["volumes"]) == SERVERS, grant
        site.release(grant)
        begin = time.perf_counter()
        with site.shared() as grant:
            shared.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            with site.mounted(grant) as point:
                (point / "file").write_text("ready")
                mount.append(time.perf_counter() - begin)
    after = [both - alone for both, alone in zip(shared, plain, strict=True)]
    worst = max(after)
    print(
        f"{SERVERS} volumes ready in {statistics.median(plain):.2f} s; as a shared file system "
        f"{statistics.median(after):.2f} s later, at most {worst:.2f}, goal {MOST_READY:g}, "
        f"{verdict(worst <= MOST_READY)}; mounted {statistics.median(mount):.2f} s later, at most {max(mount):.2f}",
        flush=True,
    )


def measure_staging(site: Site, rounds: int, files: int, large: int) -> None:
    """Stage in and `cp` in turns. Staging ends when the data is on the disks."""
    home = site.folder / "home"
    (home / "small").mkdir(parents=True)
    for number in range(files):
        folder = home / "small" / f"d{number % 20}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}").write_bytes(os.urandom(4096))
    with (home / "large").open("wb") as file:
        for _ in range(large):
            file.write(os.urandom(1 << 20))
    subprocess.run(("chown", "-R", f"{_OWNER}:{_OWNER}", str(home)), check=True)
    room = max(1000 * _MEGA, 3 * large << 20)  # removed files need theirs for a moment
    with site.shared(room) as grant, site.mounted(grant) as point:
        for name, goal in (("small", SMALL_RATIO), ("large", LARGE_RATIO)):
            copied, staged = [], []
            for number in range(rounds):
                begin = time.perf_counter()
                copy_by_hand(home / name, point / "copy")
                copied.append(time.perf_counter() - begin)
                remove(point / "copy")
                begin = time.perf_counter()
                stage(site, grant, home / name, f"{name}{number}")
                staged.append(time.perf_counter() - begin)
                check_equal(home / name, point / f"{name}{number}")
                remove(point / f"{name}{number}")
            ratios = [by_hand / by_nodes for by_hand, by_nodes in zip(copied, staged, strict=True)]
            ratio = statistics.median(ratios)
            what = f"{files:,} files of 4 KiB" if name == "small" else f"one file of {large} MiB"
            print(
                f"staging {what}: {statistics.median(staged):.2f} s, cp {statistics.median(copied):.2f} s, {ratio:.2f} "
                f"times as fast ({min(ratios):.2f} to {max(ratios):.2f}), goal {goal:g}, {verdict(ratio >= goal)}",
                flush=True,
            )


def copy_by_hand(source: Path, target: Path) -> None:
    """What a user does in the job instead of staging."""
    user = ("setpriv", f"--reuid={_OWNER}", f"--regid={_OWNER}", "--clear-groups")
    subprocess.run((*user, "cp", "-r", str(source), str(target)), check=True)


def stage(site: Site, grant: GrantDocument, source: Path, target: str) -> None:
    begun = site.client.stage(grant["id"], "in", [(str(source), target)], key=target)
    *_, last = site.client.follow_staging(begun, PATIENCE)
    assert last["staging"] is not None
    assert last["staging"]["state"] == "done", last["staging"]


def check_equal(source: Path, target: Path) -> None:
    subprocess.run(("diff", "-r", "-q", str(source), str(target)), check=True)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--large", type=int, default=800, help="MiB")
    parser.add_argument("--only", choices=("ready", "staging"))
    options = parser.parse_args()
    if os.getuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        print("skipped: this needs root and /dev/fuse")
        return 0
    with start_site() as site:
        if options.only != "staging":
            measure_readiness(site, options.rounds)
        if options.only != "ready":
            measure_staging(site, options.rounds, options.files, options.large)
    return 0


if __name__ == "__main__":
    sys.exit(main())
