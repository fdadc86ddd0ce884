"""A virtual machine with Debian's own kernel, whose root is this machine's, read only, with a layer of memory over it.

It is emulated in software, so it runs anywhere, only slower: about five seconds to start. Kernel and busybox are
Debian's packages, unpacked into a folder and not installed.
"""

import fcntl
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KEPT = Path(sys.prefix) / "vm"
"""Where the packages are unpacked to, once: it goes with the environment."""
HOST = "10.0.2.2"
"""This machine's 127.0.0.1, as the virtual machine sees it."""
_ROOT = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "overlay")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
AHEAD = ("nice", "-n", "-10")
"""Of all other tests: it takes the longest, and its limit is near where it has to share a core with them."""
END = "the machine's work ended with"
_INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
for module in {modules}; do insmod /modules/$module.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /lower
mount -t tmpfs none /upper; mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work none /root
for folder in proc sys dev; do mount --move /$folder /root/$folder; done
mount -t tmpfs none /root/run; mount -t configfs none /root/sys/kernel/config
ifconfig lo up; ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
chroot /root /bin/sh -c {command}
code=$?; echo; echo "{end} $code"
poweroff -f
"""


class NoMachine(Exception):
    """Why there can be none here."""


@dataclass(frozen=True)
class Ran:
    code: int
    """What the command ended with; -1 if the machine never came so far."""
    out: str


def run(command: Sequence[str], *, modules: Sequence[str], folder: Path, timeout: float) -> Ran:
    """The command in a new machine with those modules loaded; `folder` is for its own files. `timeout` in seconds."""
    if not shutil.which("qemu-system-x86_64"):
        raise NoMachine("qemu-system-x86_64 is not installed (Debian: qemu-system-x86)")
    kernel = unpacked("kernel", _kernel_package, lambda: "busybox-static")
    initrd = folder / "initrd"
    initrd.write_bytes(_archive(_files(kernel, command, (*_ROOT, *modules))))
    share = "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
    machine = (
        "-accel",
        "tcg",
        "-cpu",
        "max,la57=off",
        "-m",
        "1500",
        "-smp",
        "1",  # a second one costs twice the time: every access to memory must then be safe against the other
        "-nodefaults",
        "-nographic",
        "-no-reboot",
    )
    image = next((kernel / "boot").glob("vmlinuz-*"))
    boot = (
        "-kernel",
        image,
        "-initrd",
        initrd,
        "-append",
        "console=ttyS0 quiet panic=-1 mitigations=off init_on_alloc=0 apparmor=0 rcupdate.rcu_expedited=1",
        "-virtfs",
        share,
        "-nic",
        "user,model=virtio-net-pci",
        "-global",
        "virtio-net-pci.romfile=",  # nothing starts from the network
    )
    argv = [str(word) for word in (*AHEAD, "qemu-system-x86_64", *machine, "-serial", "stdio", *boot)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False
        )
        words = done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        words = f"{(error.stdout or b'').decode(errors='replace')}\n(stopped after {timeout} s)"
    return outcome(words)


def outcome(words: str) -> Ran:
    """What the machine's command ended with, as its last lines say."""
    ended = re.search(rf"{END} (\d+)", words)
    return Ran(code=int(ended[1]) if ended else -1, out=words)


def unpacked(name: str, *packages: Callable[[], str]) -> Path:
    """A folder with the files of Debian's packages, which are fetched once."""
    if os.geteuid() != 0:
        raise NoMachine("only root may read the whole of this machine")
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        raise NoMachine("a kernel is to be had only on Debian")
    folder = KEPT / name
    KEPT.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _called("apt-get", "-qq", "download", *(package() for package in packages), at=folder)
            for file in folder.glob("*.deb"):
                _called("dpkg", "-x", file.name, "files", at=folder)
                file.unlink()
            (folder / "ready").touch()
    return folder / "files"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other test fetches the same at the same time."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kernel_package() -> str:
    found = re.search(r"Depends: (linux-image-\S+)", _called("apt-cache", "depends", "linux-image-amd64", at=KEPT))
    if not found:
        raise NoMachine("apt-cache knows no linux-image-amd64")
    return found[1]


def _called(*argv: str, at: Path) -> str:
    done = subprocess.run(argv, cwd=at, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise NoMachine(f"{shlex.join(argv)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def _files(kernel: Path, command: Sequence[str], modules: Sequence[str]) -> dict[str, bytes | None]:
    """All that the machine starts from: a path each, and its bytes; None is a folder."""
    order = in_order(kernel, modules)
    words = {"modules": " ".join(order), "command": shlex.quote(shlex.join(command)), "end": END}
    folders: dict[str, bytes | None] = dict.fromkeys(("bin", "proc", "sys", "dev", "lower", "upper", "root", "modules"))
    busybox = next(kernel.rglob("bin/busybox"))
    loaded = {f"modules/{name}.ko": content for name, content in order.items()}
    return folders | {"bin/busybox": busybox.read_bytes(), "init": _INIT.format(**words).encode()} | loaded


def in_order(kernel: Path, wanted: Sequence[str]) -> dict[str, bytes]:
    """Modules and what they depend on, each after what it needs."""
    paths = {path.name.split(".")[0].replace("-", "_"): path for path in kernel.rglob("*.ko*")}
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in order or name not in paths:  # not there: built into the kernel
            return
        raw = paths[name].read_bytes()
        content = lzma.decompress(raw) if paths[name].suffix == ".xz" else raw
        found = _DEPENDS.search(content)
        for needed in filter(None, found[1].decode().split(",") if found else ()):
            add(needed.replace("-", "_"))
        order[name] = content

    for name in wanted:
        add(name.replace("-", "_"))
    return order


def _archive(files: dict[str, bytes | None]) -> bytes:
    """As the kernel unpacks it into memory: the "newc" format of cpio."""
    out = bytearray()
    for number, (name, content) in enumerate((files | {"TRAILER!!!": b""}).items()):
        mode = 0o40755 if content is None else 0o100755
        fields = (number, mode, 0, 0, 1, 0, len(content or b""), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        for part in (head, content or b""):
            out += part + bytes(-len(part) % 4)
    return bytes(out)


def environment(**more: str) -> tuple[str, ...]:
    """The words before a command that give it a clean environment."""
    words = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/run", "PYTHONDONTWRITEBYTECODE": "1"} | more
    return "env", "-i", *(f"{name}={value}" for name, value in words.items())
