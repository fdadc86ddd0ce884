"""Volumes as image files, each with a file system, mounted through loop devices.

The image is allocated, not sparse: writes to granted space succeed even if the disk fills up later. If that takes long
(ext4 needs a second per terabyte), the user gets the volume first, and a thread reserves the remaining space. Until
then, a file beside the image marks it as unfinished, so that an agent that was killed continues at its next start. If
other data has filled the disk by then, the volume returns errors, counts as half made, and is lost.
"""

import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from forebay.act.command import CommandFailed
from forebay.act.volumes.block import BlockVolumes
from forebay.act.volumes.mounts import Mount, filesystem_of, mounted_at
from forebay.act.volumes.unmounting import shut_down
from forebay.act.volumes.volume import Record, Volume, VolumeFailed
from forebay.act.volumes.volume_lifecycle import describe_error
from forebay.model.errors import BadInput, UserError

_COPY_ON_WRITE = ("btrfs", "zfs", "bcachefs")
_RESERVE = 0x4030582A  # the ioctl behind fallocate(2); where that fails, posix_fallocate would write zeros over data


class _Reservation(threading.Thread):
    """A thread that reserves an image's space. `work` gets a function that returns whether to stop."""

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        super().__init__(name="reservation", daemon=True)
        self.error: UserError | None = None
        self._work = work
        self._stopped = threading.Event()

    def run(self) -> None:
        try:
            self._work(self._stopped.is_set)
        except UserError as error:
            self.error = error

    def stop(self) -> None:
        """Ask the thread to end, and wait until it has."""
        self._stopped.set()
        self.join()


@dataclass(frozen=True, kw_only=True)
class Loop(BlockVolumes):
    """The image `root/.forebay/<name>.image` is mounted at `root/<name>`."""

    kind: ClassVar[str] = "loop"

    at_once: float = 0.25
    """Seconds to spend on reservation before the user gets the volume."""
    piece: int = 2 << 30
    """Bytes to reserve at a time. Writers to the volume wait meanwhile, on ext4 a few milliseconds."""
    _reservations: dict[str, _Reservation] = field(default_factory=dict, init=False, repr=False, compare=False)

    def check(self) -> None:
        self._check_root("mount", "umount", f"mkfs.{self.format.name}")
        if not Path("/dev/loop-control").exists():
            raise BadInput("loop volumes", "need loop devices; load them with modprobe loop")
        if (filesystem := filesystem_of(self.root)) in _COPY_ON_WRITE:
            raise BadInput(str(self.root), f"{filesystem} cannot reserve space for an image; use another kind there")

    def _check_vacant(self, record: Record, *more: Path) -> None:
        super()._check_vacant(record, self._backing_path(record), *more)

    def _allocate_space(self, record: Record) -> None:
        image = self._backing_path(record)
        os.close(os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        self.after(f"create {image}")
        os.truncate(image, self._gross_size(record.size))
        end = time.monotonic() + self.at_once
        if not self._reserve(record, lambda: time.monotonic() >= end):
            self._unfinished_file(record).touch(0o600)

    def _reserve(self, record: Record, stopped: Callable[[], bool]) -> bool:
        """Reserve the image's space until `stopped` returns True; return whether all of it is reserved."""
        try:
            with self._backing_path(record).open("r+b") as file:
                size = os.fstat(file.fileno()).st_size
                for start in range(0, size, self.piece):
                    if stopped():
                        return False
                    where = struct.pack("hhqq24x", 0, 0, start, min(self.piece, size - start))
                    fcntl.ioctl(file, _RESERVE, where)
                    self.after(f"reserve from {start} on")
        except OSError as error:
            raise VolumeFailed(f"volume {record.name}: cannot reserve its space: {describe_error(error)}") from None
        return True

    def _finish(self, record: Record, stopped: Callable[[], bool]) -> None:
        """Reserve all space. If that fails, make the volume return errors: what programs write could be lost."""
        try:
            if self._reserve(record, stopped):
                self._unfinished_file(record).unlink()
                self.after("finish the reservation")
        except VolumeFailed:
            if device := self._device_number(record):
                shut_down(self.path(record.name), device)
            raise

    def _unfinished_file(self, record: Record) -> Path:
        """Return the file that exists until all space is reserved."""
        return self.home / f"{record.name}.unfinished"

    def _bring_up(self, record: Record) -> None:
        reservation = self._reservations.get(record.name)
        if reservation is not None and reservation.error is not None:
            raise reservation.error
        super()._bring_up(record)
        if not self._is_allocated(record):
            self._reservations[record.name] = _Reservation(lambda stopped: self._finish(record, stopped))
            self._reservations[record.name].start()

    def _is_allocated(self, record: Record) -> bool:
        """Return whether all space is reserved, or a thread is reserving it."""
        reservation = self._reservations.get(record.name)
        return (reservation is not None and reservation.is_alive()) or not self._unfinished_file(record).exists()

    def _is_up(self, record: Record) -> bool:
        return super()._is_up(record) and self._is_allocated(record)

    def _take_down(self, record: Record) -> None:
        if record.name in self._reservations:
            self._reservations[record.name].stop()
        super()._take_down(record)

    def _delete(self, record: Record) -> None:
        self._reservations.pop(record.name, None)
        self._unfinished_file(record).unlink(missing_ok=True)
        image = self._backing_path(record)
        if image.exists():
            os.truncate(image, 0)  # a program that still uses the volume does not keep its space
            image.unlink()
            self.after(f"remove {image}")

    def _mount(self, record: Record, *options: str) -> None:
        # The kernel removes the loop device with the mount, so a crash leaves none behind.
        super()._mount(record, "loop", *self.format.options, *options)
        # Trimming the volume would return blocks to the disk, where others could take them.
        with suppress(OSError):
            Path(f"/sys/dev/block/{self._device_number(record)}/queue/discard_max_bytes").write_text("0")
        with suppress(CommandFailed):  # it only saves memory: without it, every page is cached twice
            self._run("losetup", "--direct-io=on", self._device(record))

    def _backing_path(self, record: Record) -> Path:
        return self.home / f"{record.name}.image"

    def _is_ours(self, mount: Mount, record: Record) -> bool:
        backing = Path(f"/sys/dev/block/{mount.device}/loop/backing_file")
        return backing.exists() and backing.read_text().strip() == str(self._backing_path(record).resolve())

    def _device_number(self, record: Record) -> str:
        mount = mounted_at(self.path(record.name))
        return mount.device if mount is not None and self._is_ours(mount, record) else ""

    def _device(self, record: Record) -> str:
        number = self._device_number(record)
        return f"/dev/{Path(f'/sys/dev/block/{number}').resolve().name}" if number else ""

    def _describe(self, record: Record) -> Volume:
        volume = super()._describe(record)
        if self.local or volume.state != "whole":
            return volume
        return replace(volume, ceiling=record.ceiling)  # the server that exposes the image enforces it

    def _free_bytes(self) -> int:
        """Return the free bytes, less those still to be reserved."""
        return super()._free_bytes() - sum(self._image_bytes(record)[1] for record in self.list_records())

    def _occupied_bytes(self, record: Record) -> int:
        return sum(self._image_bytes(record))

    def _image_bytes(self, record: Record) -> tuple[int, int]:
        """Return the image's reserved bytes, and those that are not reserved yet."""
        with suppress(FileNotFoundError):
            status = self._backing_path(record).stat()
            allocated = status.st_blocks * 512
            return allocated, max(0, status.st_size - allocated)
        return 0, 0
