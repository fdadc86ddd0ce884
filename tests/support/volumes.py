"""Disks to make volumes on, one of each kind; what is left on them, and what of others' stands beside."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from forebay.act import command
from forebay.act.volumes.btrfs import Btrfs
from forebay.act.volumes.directory import Directory
from forebay.act.volumes.loop import Loop
from forebay.act.volumes.lvm import Lvm
from forebay.act.volumes.mounts import list_mounts
from forebay.act.volumes.nvme import CONFIGFS, NvmeExposer, Nvmet
from forebay.act.volumes.volume import Volume
from forebay.act.volumes.volume_lifecycle import Volumes, ignore_step
from forebay.model.errors import UserError

MIB = 1 << 20
NAME, OTHER = "0123456789abcdef" * 2 + ".0", "fedcba9876543210" * 2 + ".11"
UNMARKED = "aaaaaaaaaaaaaaaa" * 2 + ".3"
USER = 12345 if os.geteuid() == 0 else os.geteuid()
GROUP = 12345 if os.geteuid() == 0 else os.getegid()
After = Callable[[str], None]
KINDS = ("directory", "loop-ext4", "loop-xfs", "loop-unmounted", "btrfs", "lvm", "nvmet")
"""Every kind of volume, and the kinds of file systems and uses that matter."""
ONLY_IN_THE_VM = "runs in a virtual machine: tests/system/test_volumes_vm.py"
IN_THE_VM = "FOREBAY_TEST_VM" in os.environ
"""There the volume group and the whole of the NVMe target are the tests' own."""
if IN_THE_VM:
    # With nothing to do between fork and exec, Python starts a command without a copy of itself, which takes as long
    # there as a command of LVM. That commands end with who started them is proved outside (tests/act/test_command.py).
    command._end_with_parent = lambda _parent: None  # type: ignore[assignment,return-value]


class Killed(BaseException):
    """What a crash is to the code in which it happens: no handler runs."""


@dataclass(frozen=True)
class Disk:
    """A disk of one kind, under `root`."""

    root: Path
    size: int = 16 * MIB
    """Of a volume, in bytes."""
    few_steps: bool = False
    """Whether it dies at few steps: it is slow, or another kind has the same steps."""
    loses: bool = False
    """Whether a restart of the node takes anything away."""

    def volumes(self, after: After = ignore_step) -> Volumes:
        """As a new agent would see it."""
        raise NotImplementedError

    def entered(self, made: Volume) -> AbstractContextManager[Path]:
        """Where the user can write."""
        return nullcontext(made.path)

    def left(self) -> list[str]:
        """Everything on the machine that came with volumes; the folder for the marks may stay."""
        files = [str(path) for path in self.root.rglob("*") if path != self.root / ".forebay"]
        points = [
            str(mount.point)
            for mount in list_mounts()
            if mount.point.is_relative_to(self.root) and mount.point != self.root
        ]
        return sorted({*files, *points, *loops_below(self.root)})

    def restart(self, made: Volume) -> None:
        """What a restart of the node takes away."""

    def steps(self, first: int) -> Iterator[int]:
        """At which to die: all, or every third one, so that three tests of `make` have them all."""
        return count(first, 3) if self.few_steps else count()


@dataclass(frozen=True)
class FolderDisk(Disk):
    def volumes(self, after: After = ignore_step) -> Volumes:
        return Directory(root=self.root, after=after)


@dataclass(frozen=True)
class LoopDisk(Disk):
    fs: str = "ext4"
    local: bool = True

    def volumes(self, after: After = ignore_step) -> Volumes:
        return Loop(root=self.root, fs=self.fs, local=self.local, after=after)

    def entered(self, made: Volume) -> AbstractContextManager[Path]:
        return nullcontext(made.path) if self.local else mounted(made.path, "-o", "loop")

    def restart(self, made: Volume) -> None:
        if self.local:
            sh("umount", made.path)


@dataclass(frozen=True)
class BtrfsDisk(Disk):
    def volumes(self, after: After = ignore_step) -> Volumes:
        return Btrfs(root=self.root, after=after)


@dataclass(frozen=True)
class LvmDisk(Disk):
    def volumes(self, after: After = ignore_step) -> Volumes:
        return Lvm(root=self.root, group="testers", after=after)

    def left(self) -> list[str]:
        return super().left() + sh("lvs", "--noheadings", "-o", "lv_name", "testers").split()

    def restart(self, made: Volume) -> None:
        sh("umount", made.path)
        sh("lvchange", "--activate", "n", f"testers/{Path(made.device).name}")


@dataclass(frozen=True)
class NvmetDisk(LvmDisk):
    def volumes(self, after: After = ignore_step) -> Volumes:
        return Nvmet(root=self.root, group="testers", after=after)

    def left(self) -> list[str]:
        kinds = ("subsystems", "hosts", "ports")
        return super().left() + [str(path) for kind in kinds for path in (CONFIGFS / kind).iterdir()]

    @contextmanager
    def entered(self, made: Volume) -> Iterator[Path]:
        host = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000000a"
        means = NvmeExposer(folder=self.root.parent)
        plan = means.plan(made, (host,))
        means.start(plan)
        try:
            with connected(plan.settings, host) as device, mounted(device) as top:
                yield top
        finally:
            means.stop(made.name)

    def restart(self, made: Volume) -> None:
        drop_subsystem(next(CONFIGFS.glob(f"subsystems/*{made.name}/namespaces/1")))
        sh("lvchange", "--activate", "n", f"testers/{made.path.name}")


def free_bytes(volumes: Volumes) -> int:
    """What can be granted now."""
    return volumes._net_size(volumes._free_bytes())


@contextmanager
def disk_of(kind: str, folder: Path) -> Iterator[Disk]:
    """A disk of that kind, or a skip with the reason."""
    root = folder / "disk"
    root.mkdir(mode=0o711)
    with _made_ready(kind, root) as disk:
        try:
            disk.volumes().check()
        except UserError as error:
            pytest.skip(str(error))
        try:
            yield disk
        finally:
            for made in disk.volumes().find():
                disk.volumes().release(made.name)


@contextmanager
def _made_ready(kind: str, root: Path) -> Iterator[Disk]:
    if kind == "directory":
        yield FolderDisk(root)
    elif kind.startswith("loop"):
        size = 220 * MIB if kind == "loop-xfs" else 16 * MIB
        local = kind != "loop-unmounted"
        fs = "xfs" if kind == "loop-xfs" else "ext4"
        yield LoopDisk(root, size, few_steps=kind != "loop-ext4", loses=local, fs=fs, local=local)
    elif kind == "btrfs":
        with small_disk(root, "btrfs", 400 * MIB):
            sh("btrfs", "quota", "enable", root)
            yield BtrfsDisk(root)
    elif not IN_THE_VM:
        pytest.skip(f"{kind} {ONLY_IN_THE_VM}")
    else:
        make_volume_group()
        yield (LvmDisk if kind == "lvm" else NvmetDisk)(root, few_steps=True, loses=True)


@contextmanager
def small_disk(root: Path, fs: str, size: int, *options: str) -> Iterator[None]:
    """A file system of `size` bytes, mounted at `root`."""
    if os.geteuid() != 0 or not shutil.which(f"mkfs.{fs}"):
        pytest.skip(f"needs root and mkfs.{fs}")
    image = root.parent / f"small.{fs}"
    image.touch()
    os.truncate(image, size)
    sh(f"mkfs.{fs}", "-q", *options, image)
    sh("mount", "-o", "loop", image, root)
    try:
        shutil.rmtree(root / "lost+found", ignore_errors=True)
        yield
    finally:
        sh("umount", root)
        image.unlink()


@contextmanager
def small_loop_disk(root: Path) -> Iterator[LoopDisk]:
    """One of 100 MiB, which nobody else fills or empties."""
    root.mkdir()
    with small_disk(root, "ext4", 100 * MIB):
        yield LoopDisk(root)
        for made in Loop(root=root).find():
            Loop(root=root).release(made.name)


def make_volume_group() -> None:
    """The empty volume group `testers`. It is made once, as that takes long, and goes with the virtual machine."""
    if not Path("/run/testers").exists():
        Path("/run/testers").touch()
        os.truncate("/run/testers", 256 * MIB)
        sh("vgcreate", "testers", sh("losetup", "--find", "--show", "/run/testers").strip())


@contextmanager
def mounted(source: Path, *options: str) -> Iterator[Path]:
    """Mounted somewhere, as a client of the volume would."""
    point = source.parent / f"{source.name}.entered" if source.parent.name != "dev" else Path("/run/entered")
    point.mkdir()
    sh("mount", *options, source, point)
    try:
        yield point
    finally:
        sh("umount", point)
        point.rmdir()


@contextmanager
def connected(settings: dict[str, str], host: str) -> Iterator[Path]:
    """The device by which the host sees the volume."""
    where = ("-t", settings["transport"], "-a", settings["address"], "-s", settings["service"])
    before = set(Path("/dev").glob("nvme*n1"))
    sh("nvme", "connect", *where, "-n", settings["nqn"], "--hostnqn", host)
    try:
        yield appeared(before)
    finally:
        sh("nvme", "disconnect", "-n", settings["nqn"])


def appeared(before: set[Path]) -> Path:
    """The device that was not there before; the kernel looks at it after the connection is told."""
    for _ in range(10_000):
        if new := set(Path("/dev").glob("nvme*n1")) - before:
            return new.pop()
        time.sleep(0.01)
    raise AssertionError("no device for the connection")


def drop_subsystem(namespace: Path) -> None:
    (namespace / "enable").write_text("0")
    namespace.rmdir()
    namespace.parent.parent.rmdir()


def loops_below(root: Path) -> list[str]:
    """The images under `root` that a loop device holds."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            image = file.read_text().strip()
        except OSError:  # let go just now
            continue
        if image.startswith(f"{root}/"):
            found.append(f"loop device of {image}")
    return found


def sh(*argv: object) -> str:
    """A command outside of the code under test."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


def dying(step: int, error: BaseException) -> After:
    """Raises after that step, counted from 0, and never again."""
    done: list[str] = []

    def after(words: str) -> None:
        done.append(words)
        if len(done) == step + 1:
            raise error

    return after


def written(folder: Path, most: int) -> int:
    """Bytes that fit into one file, up to `most`; the file is removed again."""
    block, total = bytes(64 << 10), 0
    path = folder / "filling"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while total < most:
            total += os.write(descriptor, block)
        os.fsync(descriptor)
    except OSError:  # no space, or over the quota
        pass
    finally:
        os.close(descriptor)
    total = path.stat().st_size
    path.unlink()
    return total
