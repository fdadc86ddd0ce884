"""What an agent remembers of the journal that it acts on: should the service ever have another, nobody loses data."""

from __future__ import annotations

from pathlib import Path

from forebay.act.volumes.record import write_file
from forebay.model.errors import BadInput, why


class Memory:
    """One word of the service, kept in a file before anything is done by what came with it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self.seen = file.read_text().strip() if file.exists() else ""
        except (OSError, ValueError) as error:
            raise BadInput(str(file), f"can't be read: {error}") from None

    def keep(self, seen: str) -> None:
        if seen == self.seen:
            return
        try:
            write_file(self._file, f"{seen}\n")
        except OSError as error:
            raise BadInput(str(self._file), f"can't be written: {why(error)}") from None
        self.seen = seen
