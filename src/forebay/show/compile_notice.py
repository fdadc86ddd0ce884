"""Tells the user that kernels are being compiled: at their first call, once per machine and version."""

import math
import os
import sys
from contextlib import ExitStack

from forebay.model.compile_hooks import WITHOUT_NOTICE, hooks
from forebay.show.output import progress

_LABEL = "Compiling for this machine (once per version)"


class _Announcer:
    """Shows a bar while kernels are compiled, or one line at the first kernel if stderr is not a terminal."""

    def __init__(self, *, bar: bool = True) -> None:
        self._has_bar = bar and sys.stderr.isatty()
        self._depth = 0  # of nested compilations: a kernel that calls another compiles it
        self._bar = ExitStack()
        self._announced = False

    def before(self, _kernel: str) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if self._has_bar:
            self._bar.enter_context(progress(_LABEL, math.inf))
        elif not self._announced:
            start = "\r\x1b[K" if sys.stderr.isatty() else ""  # the parent of a worker may be drawing a bar there
            print(
                f"{start}forebay: {_LABEL[0].lower()}{_LABEL[1:]}; this takes up to a minute",
                file=sys.stderr,
                flush=True,
            )
        self._announced = True

    def after(self, _kernel: str) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._bar.close()


def announce_compiling() -> None:
    """Show on stderr when this process compiles kernels."""
    if os.environ.get(WITHOUT_NOTICE):
        return
    announcer = _Announcer()
    hooks.before, hooks.after = announcer.before, announcer.after
    hooks.set_in_worker = announce_in_worker


def announce_in_worker() -> None:
    """Print one line when this worker process compiles its first kernel."""
    announcer = _Announcer(bar=False)
    hooks.before, hooks.after = announcer.before, announcer.after
