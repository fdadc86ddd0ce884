"""How commands that run until somebody ends them are ended."""

import signal
import threading


def end_on_signals() -> threading.Event:
    """Return an event that SIGTERM or Ctrl-C sets; a second signal ends the process at once."""
    ended = threading.Event()

    def end(number: int, _frame: object) -> None:
        ended.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return ended
