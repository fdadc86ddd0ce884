"""Which thread of a mount reads the kernel's next request.

Requests that a mount answers by itself take less time than a change of threads. So one thread reads and answers them
one after the other. It passes its turn on before it waits for the layer.
"""

from threading import Lock, get_ident


class Turn:
    """The right to read the next request, which one thread at a time has."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread = 0

    def take(self) -> None:
        """Wait until it is this thread's turn; it is still, if it was not passed on."""
        if self._thread != get_ident():
            self._lock.acquire()
            self._thread = get_ident()

    def pass_on(self) -> None:
        """Let another thread read the next request, if it is this thread's turn."""
        if self._thread == get_ident():
            self._thread = 0
            self._lock.release()
