"""What an agent has to tell the service: kept until it is delivered, in the order in which it happened."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from forebay.act.control.client import Client, ServiceAway, TurnedAway
from forebay.act.control.errors import ErrorCode

_AT_ONCE = 200
_MOST_LINES = 2000
"""Lines of the log that wait for a service that is away; older ones are dropped."""
_PAUSE = 0.5
"""Seconds before something is sent again."""
_REJECTED = (
    ErrorCode.MALFORMED, ErrorCode.NOT_ALLOWED, ErrorCode.CONFLICT, ErrorCode.OTHER_JOURNAL, ErrorCode.TOO_LARGE,
)  # fmt: skip
"""What a service answers to a report that it will never take."""


class Outbox:
    """Sends from a thread of its own. Reports are never dropped, unless the service says that they make no sense."""

    def __init__(self, client: Client, node: str, numbers: Callable[[], int], say: Callable[[str], None]) -> None:
        self._client, self._node, self._number, self._say = client, node, numbers, say
        self._reports: deque[dict[str, Any]] = deque()
        self._lines: deque[dict[str, Any]] = deque(maxlen=_MOST_LINES)
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def report(self, report: dict[str, Any]) -> None:
        with self._changed:
            self._reports.append(report | {"number": self._number()})
            self._changed.notify_all()

    def log(self, level: str, text: str, volume: str = "") -> None:
        """Say it here, and to the service: one place tells the story of a grant."""
        self._say(f"{level}: {text}")
        with self._changed:
            self._lines.append(
                {"time": time.time(), "level": level, "grant": volume.partition(".")[0], "text": text[:2000]}
            )
            self._changed.notify_all()

    def waiting(self) -> set[str]:
        """Volumes with a report that is not delivered yet."""
        with self._changed:
            return {report["volume"] for report in self._reports}

    def end(self, seconds: float) -> bool:
        """Send what there is for at most so long, then no more; whether all was sent."""
        with self._changed:
            sent = self._changed.wait_for(lambda: not self._reports and not self._lines, seconds)
            self._ended = True
            self._changed.notify_all()
        return sent

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._reports or self._lines)
                if self._ended:
                    return
                reports, lines = list(self._reports)[:_AT_ONCE], list(self._lines)[:_AT_ONCE]
            if not (self._delivered(reports) and self._logged(lines)):
                self._wait()

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended, _PAUSE)

    def _delivered(self, reports: list[dict[str, Any]]) -> bool:
        """Whether the service has them; where it can't make sense of some, each is sent alone and those are dropped."""
        if not reports:
            return True
        try:
            self._client.report(self._node, reports)
        except ServiceAway:
            return False
        except TurnedAway as error:
            if error.code not in _REJECTED:
                return False
            if len(reports) > 1:
                return all(self._delivered([report]) for report in reports)
            self.log("error", f"the service takes no report of {reports[0]['kind']}: {error}", reports[0]["volume"])
        self._forget(self._reports, len(reports))
        return True

    def _logged(self, lines: list[dict[str, Any]]) -> bool:
        if not lines:
            return True
        try:
            self._client.log(self._node, lines)
        except ServiceAway:
            return False
        except TurnedAway as error:
            if error.code not in _REJECTED:
                return False
        with self._changed:
            while self._lines and lines and self._lines[0] is lines[0]:  # some may have been pushed out meanwhile
                self._lines.popleft()
                lines.pop(0)
            self._changed.notify_all()
        return True

    def _forget(self, queue: deque[dict[str, Any]], count: int) -> None:
        with self._changed:
            for _ in range(count):
                queue.popleft()
            self._changed.notify_all()
