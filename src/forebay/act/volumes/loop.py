"""An image file a volume, with a file system in it, mounted by a loop device.

The image is allocated, not sparse: a disk that fills up later can't break a write into space that was granted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from forebay.act.command import CommandFailed
from forebay.act.volumes.block import Block
from forebay.act.volumes.directory import HOME, OnFiles
from forebay.act.volumes.life import vacant
from forebay.act.volumes.mounts import Mount, filesystem_of, mounted_at
from forebay.act.volumes.record import Record
from forebay.model.errors import BadInput

_COPY_ON_WRITE = ("btrfs", "zfs", "bcachefs")


@dataclass(frozen=True, kw_only=True)
class Loop(Block, OnFiles):
    """`root/<name>` is where the image `root/.forebay/<name>.image` is mounted."""

    kind: ClassVar[str] = "loop"

    def check(self) -> None:
        self._needs_root()
        self._check_root("fallocate", "mount", "umount", f"mkfs.{self.filesystem.name}")
        if not Path("/dev/loop-control").exists():
            raise BadInput("loop volumes", "need loop devices: modprobe loop")
        if (found := filesystem_of(self.root)) in _COPY_ON_WRITE:
            raise BadInput(str(self.root), f"{found} does not keep the space of an image: use another kind there")

    def image(self, name: str) -> Path:
        return self.root / HOME / f"{name}.image"

    def _check_vacant(self, record: Record) -> None:
        vacant(self.path(record.name), self.image(record.name))

    def _allocate(self, record: Record) -> None:
        image = self.image(record.name)
        os.close(os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        self.after(f"create {image}")
        self._do("fallocate", "--length", str(self._gross(record.size)), image)

    def _clear(self, record: Record) -> None:
        image = self.image(record.name)
        if image.exists():
            os.truncate(image, 0)  # a program that holds on to the volume does not hold on to its space
            image.unlink()
            self.after(f"remove {image}")

    def _mount(self, record: Record) -> None:
        super()._mount(record)
        number = self._number(record)
        # A trimmed volume would give blocks back to the disk, where others could take them.
        with suppress(OSError):
            Path(f"/sys/dev/block/{number}/queue/discard_max_bytes").write_text("0")
        with suppress(CommandFailed):  # only a matter of memory: every page would be cached twice
            self._do("losetup", "--direct-io=on", self._device(record))

    def _options(self) -> tuple[str, ...]:
        """The kernel takes the loop device away with the mount: a crash leaves none."""
        return "loop", *self.filesystem.options

    def _source(self, record: Record) -> Path:
        return self.image(record.name)

    def _is_ours(self, mount: Mount, record: Record) -> bool:
        backing = Path(f"/sys/dev/block/{mount.device}/loop/backing_file")
        return backing.exists() and backing.read_text().strip() == str(self.image(record.name).resolve())

    def _number(self, record: Record) -> str:
        mount = mounted_at(self.path(record.name))
        return mount.device if mount is not None and self._is_ours(mount, record) else ""

    def _device(self, record: Record) -> str:
        number = self._number(record)
        return f"/dev/{Path(f'/sys/dev/block/{number}').resolve().name}" if number else ""

    def _ceiling(self, record: Record) -> float | None:
        """Without a device it is for the server that exposes the image to keep."""
        return super()._ceiling(record) if self.local else record.ceiling

    def _held(self, record: Record) -> int:
        with suppress(FileNotFoundError):
            return self.image(record.name).stat().st_blocks * 512
        return 0
