"""Work on a volume that goes on after it was handed over."""

from __future__ import annotations

import threading
from collections.abc import Callable

from forebay.model.errors import UserError


class Rest:
    """Begins at once, in a thread of its own. `work` is given what tells it whether to stop."""

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        self.error: UserError | None = None
        """Why it failed, if it did."""
        self._work = work
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._thread.start()

    @property
    def goes_on(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Wait until it has come to an end, which it is asked to."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work(self._stopped.is_set)
        except UserError as error:
            self.error = error
