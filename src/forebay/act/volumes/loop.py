"""An image file a volume, with a file system in it, mounted by a loop device.

The image is allocated, not sparse: a disk that fills up later can't break a write into space that was granted. Where
that takes long (ext4 needs a second for each terabyte), the volume is handed over first, and a thread sets the rest
aside. A file beside the image says so until it is done, so an agent that was killed goes on at its next start. Should
others have filled the disk by then, the volume answers with errors, is found half made, can't be mended, and is lost.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from forebay.act.command import CommandFailed
from forebay.act.volumes.background import Rest
from forebay.act.volumes.block import Block
from forebay.act.volumes.directory import HOME, OnFiles
from forebay.act.volumes.mounts import Mount, filesystem_of, mounted_at, shut_down
from forebay.act.volumes.record import Record
from forebay.act.volumes.volume import VolumeFailed
from forebay.act.volumes.volume_lifecycle import check_vacant, describe_error
from forebay.model.errors import BadInput

_COPY_ON_WRITE = ("btrfs", "zfs", "bcachefs")
_RESERVE = 0x4030582A  # the ioctl for fallocate(2); where that can't be, Python's own would write zeros over data


@dataclass(frozen=True, kw_only=True)
class Loop(Block, OnFiles):
    """`root/<name>` is where the image `root/.forebay/<name>.image` is mounted."""

    kind: ClassVar[str] = "loop"

    at_once: float = 0.25
    """Seconds for which space is set aside before the volume is handed over."""
    piece: int = 2 << 30
    """Bytes set aside at a time: whoever writes to the volume waits for it, on ext4 a few milliseconds."""
    _rests: dict[str, Rest] = field(default_factory=dict, init=False, repr=False, compare=False)

    def check(self) -> None:
        made_by = f"mkfs.{self.filesystem.name}"  # a slip in the file is told to everybody, not to root alone
        self._needs_root()
        self._check_root("mount", "umount", made_by)
        if not Path("/dev/loop-control").exists():
            raise BadInput("loop volumes", "need loop devices: modprobe loop")
        if (found := filesystem_of(self.root)) in _COPY_ON_WRITE:
            raise BadInput(str(self.root), f"{found} does not keep the space of an image: use another kind there")

    def image(self, name: str) -> Path:
        return self.root / HOME / f"{name}.image"

    def _check_vacant(self, record: Record) -> None:
        check_vacant(self.path(record.name), self.image(record.name))

    def _allocate(self, record: Record) -> None:
        image = self.image(record.name)
        os.close(os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        self.after(f"create {image}")
        os.truncate(image, self._gross(record.size))
        end = time.monotonic() + self.at_once
        if not self._set_aside(record, lambda: time.monotonic() >= end):
            self._unfinished(record).touch(0o600)

    def _set_aside(self, record: Record, stopped: Callable[[], bool]) -> bool:
        """All of the image's space, or what can be had until it is stopped; whether it is all."""
        try:
            with self.image(record.name).open("r+b") as file:
                size = os.fstat(file.fileno()).st_size
                for start in range(0, size, self.piece):
                    if stopped():
                        return False
                    where = struct.pack("hhqq24x", 0, 0, start, min(self.piece, size - start))
                    fcntl.ioctl(file, _RESERVE, where)
                    self.after(f"reserve from {start} on")
        except OSError as error:
            raise VolumeFailed(
                f"volume {record.name}: its space could not be set aside: {describe_error(error)}"
            ) from None
        return True

    def _finish(self, record: Record, stopped: Callable[[], bool]) -> None:
        """Set the rest aside. If that fails, who uses the volume must hear of it: what is written could be lost."""
        try:
            if self._set_aside(record, stopped):
                self._unfinished(record).unlink()
                self.after("finish the reservation")
        except VolumeFailed:
            if device := self._number(record):
                shut_down(self.path(record.name), device)
            raise

    def _unfinished(self, record: Record) -> Path:
        """There until all of the space is set aside."""
        return self.root / HOME / f"{record.name}.unfinished"

    def _up(self, record: Record) -> None:
        rest = self._rests.get(record.name)
        if rest is not None and rest.error is not None:
            raise rest.error
        super()._up(record)
        if not self._is_seen_to(record):
            self._rests[record.name] = Rest(lambda stopped: self._finish(record, stopped))

    def _is_seen_to(self, record: Record) -> bool:
        """Whether all of the space is set aside, or will be."""
        rest = self._rests.get(record.name)
        return (rest is not None and rest.goes_on) or not self._unfinished(record).exists()

    def _is_up(self, record: Record) -> bool:
        return super()._is_up(record) and self._is_seen_to(record)

    def _down(self, record: Record) -> None:
        if record.name in self._rests:
            self._rests[record.name].stop()
        super()._down(record)

    def _clear(self, record: Record) -> None:
        self._rests.pop(record.name, None)
        self._unfinished(record).unlink(missing_ok=True)
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

    def _bytes_free(self) -> int:
        """Without what images are still to get."""
        return super()._bytes_free() - sum(map(self._missing, self._records()))

    def _held(self, record: Record) -> int:
        return self._has(record) + self._missing(record)

    def _missing(self, record: Record) -> int:
        """Bytes of the image that it does not have yet."""
        with suppress(FileNotFoundError):
            return max(0, self.image(record.name).stat().st_size - self._has(record))
        return 0

    def _has(self, record: Record) -> int:
        with suppress(FileNotFoundError):
            return self.image(record.name).stat().st_blocks * 512
        return 0
