"""How long after the grant a loop volume can be used: asked of a real service, made by a real agent, mounted.

    sudo .venv/bin/python benchmarks/control_volume_speed.py [--sizes GB,...] [--disk xfs,ext4]

Goal: ready within 2 s of the grant, whatever its size. The storage node's disk is a file system of 17.5 TB in a sparse
file (ext4 has no larger ones), so that a machine without such a disk can tell; what a volume writes when it is made is
what it would write on a real one. Each size is asked for in turn, with both kinds of file system that a volume can
have, and released once all of its space is set aside.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from bench import verdict
from control_api_speed import running

from forebay.act.control.client import Client, parse_service

GOAL = 2.0
_DISK = 175 * 10**11
_MAKES = {
    "xfs": ("-q", "-l", "size=64m"),
    "ext4": ("-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1"),
}
_AGENT = """
[agent]
node = "storage1"
service = "unix:{socket}"
folder = "agent-{on}"

[[disk]]
name = "{fs}"
kind = "loop"
root = "{root}"
fs = "{fs}"
read_bandwidth = "2 GB/s"
write_bandwidth = "2 GB/s"
"""


@contextmanager
def disk(folder: Path, kind: str) -> Iterator[Path]:
    """An empty disk of 17.5 TB, mounted; in truth a sparse file."""
    image, where = folder / f"{kind}.disk", folder / kind
    with image.open("w") as file:
        os.truncate(file.fileno(), _DISK)
    subprocess.run((f"mkfs.{kind}", *_MAKES[kind], image), check=True)
    where.mkdir()
    subprocess.run(("mount", "-o", "loop", image, where), check=True)
    try:
        where.chmod(0o711)
        yield where
    finally:
        subprocess.run(("umount", where), check=True)
        image.unlink()


def ready_after(client: Client, size: int) -> tuple[float, float, float]:
    """Seconds from the answer to the request until the volume is mounted, and until all of its space is set aside; and
    from its release until it is gone.
    """
    grant = client.request(size, 3600)
    begin = time.perf_counter()
    assert grant["state"] == "making", grant
    *_, told = client.follow(grant, 120)
    taken = time.perf_counter() - begin
    assert told["state"] == "ready", told
    free = os.statvfs(told["path"])
    assert free.f_bavail * free.f_frsize >= size, (free, size)
    path = Path(told["path"])
    while path.with_name(".forebay").joinpath(f"{path.name}.unfinished").exists():
        time.sleep(0.01)
    aside = time.perf_counter() - begin
    begin = time.perf_counter()
    told = client.release(grant["id"])
    while told["state"] == "releasing":
        told = client.wait(grant["id"], known="releasing")
    return taken, aside, time.perf_counter() - begin


def measure(folder: Path, on: str, volume: str, sizes: list[int], times: int) -> bool:
    forebay, socket = str(Path(sys.executable).with_name("forebay")), folder / f"{on}-{volume}.s"
    good = True
    with disk(folder, on) as root:
        (folder / "agent.toml").write_text(_AGENT.format(socket=socket, root=root, fs=volume, on=on))
        words = ("serve", "--socket", str(socket), "--db", str(folder / f"{on}-{volume}.db"))
        with (
            running(forebay, *words, log=folder / "serve.log"),
            running(forebay, "agent", str(folder / "agent.toml"), log=folder / "agent.log"),
            Client(parse_service(f"unix:{socket}")) as client,
        ):
            client.rules({"split": 0})
            while not client.nodes():
                time.sleep(0.05)
            for size in sizes:
                made, aside, gone = np.array([ready_after(client, size * 10**9) for _ in range(times)]).T
                good = good and made.max() <= GOAL
                print(
                    f"{volume} volume of {size:,} GB on {on}: ready {np.median(made):.2f} s after the grant, at most "
                    f"{made.max():.2f}, goal {GOAL:g}, {verdict(made.max() <= GOAL)}; all set aside after "
                    f"{np.median(aside):.2f} s; gone {np.median(gone):.2f} s after its release",
                    flush=True,
                )
    return bool(good)


def main() -> int:
    parser = argparse.ArgumentParser(description="How fast loop volumes are ready.")
    parser.add_argument("--sizes", default="1,100,1000,4000,16000", help="GB")
    parser.add_argument("--disk", default="xfs,ext4", help="file systems of the disk")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    if os.getuid() != 0:
        print("this needs root, to mount")
        return 1
    sizes = [int(size) for size in given.sizes.split(",")]
    with tempfile.TemporaryDirectory(prefix="fb-") as name, suppress(KeyboardInterrupt):
        Path(name).chmod(0o711)
        for on in given.disk.split(","):
            for volume in ("ext4", "xfs"):
                measure(Path(name), on, volume, sizes, given.times)
                (Path(name) / on).rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
