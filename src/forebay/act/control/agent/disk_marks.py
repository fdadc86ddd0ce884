"""How an agent recognizes its disks, so that it does not take an empty mount point for an empty disk."""

import secrets
from pathlib import Path
from urllib.parse import quote

from forebay.act.control.agent.disk import AgentDisk
from forebay.act.control.agent.state_folder import read_state, write_state
from forebay.act.volumes.volume_lifecycle import HOME
from forebay.model.errors import BadInput


class DiskMarks:
    """Recognizes disks by marks: one file on the disk, and one in `folder`, which has the marks of all disks ever used.

    A mount point whose disk is not mounted looks like an empty folder. Without marks, the agent would take it for an
    empty disk and give up all grants on it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file_of(self, disk: AgentDisk) -> Path:
        return self._folder / quote(disk.name, safe="")

    def is_known(self, disk: AgentDisk) -> bool:
        return self._file_of(disk).exists()

    def check(self, disk: AgentDisk) -> None:
        """Check that the disk works and has the known mark; mark a new disk."""
        disk.volumes.check()
        known, there = self.verify(disk)
        mark = there or f"{secrets.token_hex(8)}\n"
        if disk.root is not None and not there:
            write_state(disk.root / HOME / "disk", mark)
        if disk.root is not None and not known:
            write_state(self._file_of(disk), mark)

    def verify(self, disk: AgentDisk) -> tuple[str, str]:
        """The mark in the agent's folder and the mark on the disk; "" for none. Raises an error if they differ."""
        if disk.root is None:
            return "", ""
        known, there = read_state(self._file_of(disk)), read_state(disk.root / HOME / "disk")
        if known and known != there:
            way_out = f"is it mounted? If it was replaced, remove {self._file_of(disk)}"
            raise BadInput(f"disk {disk.name}", f"{disk.root} does not have the mark of this disk; {way_out}")
        return known, there
