"""What a real Lustre answered, command by command, where the recordings are present."""

import gzip
import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[3] / "shared" / "data" / "lustre" / "transcripts.jsonl.gz"
needs_recordings = pytest.mark.skipif(not PATH.exists(), reason=f"no recordings of a real Lustre at {PATH}")
_AS_USER = "setpriv --reuid=1000 --regid=1000 --clear-groups -- "


@dataclass(frozen=True)
class Recorded:
    """One command; `code` is None where it did not end."""

    number: int
    state: str
    command: str
    out: str
    err: str
    code: int | None

    @property
    def words(self) -> list[str]:
        """The command's words, without who ran it and how long it was given; none if a shell was needed for it."""
        plain = re.sub(r"^timeout \d+ ", "", self.command.removeprefix(_AS_USER))
        return [] if re.search(r"[|&;$]|2>", plain) else shlex.split(plain)

    @property
    def by_user(self) -> bool:
        return self.command.startswith(_AS_USER)


@cache
def recordings() -> tuple[Recorded, ...]:
    with gzip.open(PATH, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return tuple(
        Recorded(number, row["state"], row["command"], row["stdout"], row["stderr"], row["rc"])
        for number, row in enumerate(rows)
    )


def recorded(*verb: str) -> list[Recorded]:
    """Those of this command that ended well."""
    return [row for row in recordings() if row.code == 0 and tuple(row.words[: len(verb)]) == verb]
