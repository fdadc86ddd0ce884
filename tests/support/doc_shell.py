"""A shell that stays, to which commands are given one after the other as somebody types them."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from select import select
from time import monotonic

from support.doc_pages import Command, first_missing


class Failed(Exception):
    """A command that does not do what its page shows; it says all there is to know."""


class Shell:
    """Bash that reads from `into` and prints, with all that it starts, to `out`; both are file descriptors."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._mark = f"end-{secrets.token_hex(8)}"
        self._end = re.compile(rf"\n{self._mark} (\d+)\n".encode())

    def close(self) -> None:
        os.close(self._into)
        os.close(self._out)

    def ready(self, patience: float) -> str:
        """What is said before the first command: a last line that starts with `ready`, where all is well."""
        until, said = monotonic() + patience, b""
        while not re.search(rb"^ready .*\n", said, re.MULTILINE) and (more := self._more(until)):
            said += more
        return said.decode(errors="replace").strip()

    def check(self, name: str, command: Command, patience: float) -> None:
        """Run a page's command, and compare. One in the background has that many seconds to print what is shown."""
        until = monotonic() + patience
        code, printed = self.run(command.text, patience)
        while command.background and first_missing(command.shown, printed) and (more := self._more(until)):
            printed += more.decode(errors="replace")
        missing = first_missing(command.shown, printed)
        if code != command.code or missing is not None:
            raise Failed(_told(name, command, code, missing, printed, patience))

    def run(self, text: str, patience: float) -> tuple[int | None, str]:
        """The exit code, None if there is none after that many seconds, and what was printed."""
        # Nothing that a command starts may read the commands after it.
        line = f"eval {shlex.quote(text)} </dev/null; printf '\\n%s %s\\n' {self._mark} $?\n"
        os.write(self._into, line.encode())
        until, printed = monotonic() + patience, b""
        while not (found := self._end.search(printed)):
            more = self._more(until)
            if not more:
                return None, printed.decode(errors="replace")
            printed += more
        return int(found[1]), self._end.sub(b"\n", printed, 1).decode(errors="replace")

    def _more(self, until: float) -> bytes:
        """What is printed next; nothing if that takes too long, or the shell has ended."""
        if not select([self._out], [], [], max(0, until - monotonic()))[0]:
            return b""
        return os.read(self._out, 1 << 16)


def _told(name: str, command: Command, code: int | None, missing: str | None, printed: str, patience: float) -> str:
    ended = f"had not ended after {patience:.0f} s, or ended the shell" if code is None else f"exit code {code}"
    lines = [f"{name}:{command.line}: {command.text}", f"{ended}, where {command.code} is shown"]
    if missing is not None:
        lines.append(f"this line is shown, but not printed (there): {missing}")
    return "\n".join((*lines, "what is shown:", *command.shown, "what is printed:", printed.strip("\n")))
