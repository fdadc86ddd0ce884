"""A virtual machine whose kernel is a process of this one (user-mode Linux): nearly as fast, but with few devices.

Its root is this machine's, read only, with a layer of memory over it. The kernel is Debian's package, unpacked into a
folder and not installed. It has the device mapper; it has no network, and no NVMe.
"""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.vm import AHEAD, END, Ran, in_order, outcome, unpacked

_INIT = """#!/bin/sh
mount -t proc none /proc
for module in {modules}; do {busybox} insmod {folder}/$module.ko; done
mount -t tmpfs none /run; mkdir /run/files /run/work /run/root
mount -t overlay -o lowerdir=/,upperdir=/run/files,workdir=/run/work none /run/root
cd /run/root
mount -t proc none proc; mount -t sysfs none sys; mount -t devtmpfs none dev; mount -t tmpfs none run
chroot /run/root /bin/sh -c {command}
code=$?; echo; echo "{end} $code"
echo o > /proc/sysrq-trigger
sleep 60
"""


def run(command: Sequence[str], *, modules: Sequence[str], folder: Path, timeout: float) -> Ran:
    """The command in a new machine with those modules loaded; `folder` is for its own files. `timeout` in seconds."""
    files = unpacked("user-mode-linux", lambda: "user-mode-linux", lambda: "busybox-static")
    order = in_order(files, ("overlay", *modules))
    for name, content in order.items():
        (folder / f"{name}.ko").write_bytes(content)
    init = folder / "init"
    words = {"modules": " ".join(order), "folder": folder, "command": shlex.quote(shlex.join(command)), "end": END}
    words["busybox"] = next(files.rglob("bin/busybox"))
    init.write_text(_INIT.format(**words))
    init.chmod(0o755)
    argv = [
        *AHEAD,
        str(files / "usr/bin/linux.uml"),
        "rootfstype=hostfs",
        "ro",
        "mem=1500M",
        "quiet",
        "loglevel=1",
        "con=null",
        "con0=fd:0,fd:1",
        "rcupdate.rcu_expedited=1",
        f"uml_dir={folder}",
        f"init={init}",
    ]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
        text = (done.stdout + done.stderr).decode(errors="replace")
    except subprocess.TimeoutExpired as error:
        text = f"{(error.stdout or b'').decode(errors='replace')}\n(stopped after {timeout} s)"
    return outcome(text)
