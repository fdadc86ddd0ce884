"""A Slurm on a machine of a page's own, as a distribution would have it: run there as root."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.processes import PATIENCE, wait_until
from support.slurm import Slurm, make_user

FOLDER = Path("/srv/slurm")
UNITS = Path("/etc/systemd/system")


def main() -> None:
    make_user()
    FOLDER.mkdir(mode=0o755, exist_ok=True)
    cluster = Slurm(FOLDER)
    Path("/etc/slurm").symlink_to(cluster.etc)
    Path("/run/munge").mkdir(mode=0o755)
    Path("/run/munge/munge.socket.2").symlink_to(FOLDER / "munge.sock")
    answers = "/bin/sh -c 'until scontrol ping | grep -q UP; do sleep 0.1; done'"
    munged = " ".join(f"--{name}-file={FOLDER}/munge.{name}" for name in ("key", "pid", "log", "seed"))
    unit("munge", f"/usr/sbin/munged --foreground --force --socket={FOLDER}/munge.sock {munged}")
    unit("slurmctld", "/usr/sbin/slurmctld -D", f"ExecStartPost={answers}")
    for node in cluster.nodes:
        unit(f"slurmd@{node}", f"/usr/sbin/slurmd -D -N {node}")
    systemctl("munge")
    wait_until((FOLDER / "munge.sock").exists, "munged does not start")
    systemctl("slurmctld", *(f"slurmd@{node}" for node in cluster.nodes))
    idle = ("sinfo", "-h", "-t", "idle", "-o", "%D")
    wait_until(lambda: cluster.run(*idle).strip() == str(len(cluster.nodes)), "not all nodes are idle")


def unit(name: str, command: str, *lines: str) -> None:
    (UNITS / f"{name}.service").write_text("\n".join(("[Service]", f"ExecStart={command}", *lines, "")))


def systemctl(*units: str) -> None:
    subprocess.run(("systemctl", "start", *units), check=True, timeout=2 * PATIENCE)


if __name__ == "__main__":
    main()
