"""Whether a disk is the one that it was: a mount point whose disk is not mounted is a folder like any other.

An agent that took such a folder for an empty disk would give up all grants on it. So each disk gets a word of its own
in a file, and the agent remembers it.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from urllib.parse import quote

from forebay.act.control.agent.disks import AgentDisk
from forebay.act.volumes.file_marks import HOME
from forebay.act.volumes.record import write_file
from forebay.model.errors import BadInput, why


class Marks:
    """`folder` keeps the words of all disks that this agent has ever worked with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_known(self, disk: AgentDisk) -> bool:
        return self._kept(disk).exists()

    def check(self, disk: AgentDisk) -> None:
        """Whether the disk can work, and is the one that it was; a new one is marked."""
        disk.volumes.check()
        if disk.root is None:
            return
        try:
            self._compare(disk, disk.root / HOME / "disk", self._kept(disk))
        except OSError as error:
            raise BadInput(f"disk {disk.name}", f"its mark can't be written: {why(error)}") from None

    def verify(self, disk: AgentDisk) -> None:
        """Whether the disk is the one that it was: else whatever is done lands on another, or in an empty folder."""
        if disk.root is not None:
            self._read(disk, disk.root / HOME / "disk", self._kept(disk))

    def _read(self, disk: AgentDisk, mark: Path, kept: Path) -> tuple[str, str]:
        """The words that are remembered and that are there, "" where there is none."""
        try:
            known = kept.read_text() if kept.exists() else ""
            there = mark.read_text() if mark.exists() else ""
        except OSError as error:
            raise BadInput(f"disk {disk.name}", f"its mark can't be read: {why(error)}") from None
        if known and known != there:
            way_out = f"is it mounted? If it was replaced, remove {kept}"
            raise BadInput(f"disk {disk.name}", f"what is at {disk.root} is not the disk that was there; {way_out}")
        return known, there

    def _compare(self, disk: AgentDisk, mark: Path, kept: Path) -> None:
        known, there = self._read(disk, mark, kept)
        if not there:
            there = f"{secrets.token_hex(8)}\n"
            write_file(mark, there)
        if not known:
            write_file(kept, there)

    def _kept(self, disk: AgentDisk) -> Path:
        return self._folder / quote(disk.name, safe="")
