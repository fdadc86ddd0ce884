"""An agent's reports and log lines, kept in order until the service has them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from forebay.act.control.agent.reports import LogLine, VolumeReport
from forebay.act.control.client import Client, ServiceAway, TurnedAway
from forebay.act.control.errors import ErrorCode

_AT_ONCE = 200
_MOST_LINES = 2000
"""Log lines that wait for the service; older ones are dropped."""
_PAUSE = 0.5
"""Seconds before something is sent again."""
_REJECTED = (
    ErrorCode.MALFORMED, ErrorCode.NOT_ALLOWED, ErrorCode.CONFLICT, ErrorCode.OTHER_JOURNAL, ErrorCode.TOO_LARGE,
)  # fmt: skip
"""What a service answers to a report that it will never take."""


class Outbox:
    """Sends from a thread of its own. It drops a report only if the service rejects it."""

    def __init__(self, client: Client, node: str, numbers: Callable[[], int], say: Callable[[str], None]) -> None:
        self._client, self._node, self._number, self._say = client, node, numbers, say
        self._reports: deque[VolumeReport] = deque()
        self._lines: deque[LogLine] = deque(maxlen=_MOST_LINES)
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def report(self, report: VolumeReport) -> None:
        with self._changed:
            self._reports.append({**report, "number": self._number()})
            self._changed.notify_all()

    def log(self, level: str, text: str, volume: str = "") -> None:
        """Log it here and at the service, where the grant's story is."""
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
        """Send for at most so many seconds, then no more; returns whether everything was sent."""
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
            if not (self._deliver(reports) and self._send_log(lines)):
                self._wait()

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended, _PAUSE)

    def _deliver(self, reports: list[VolumeReport]) -> bool:
        """Whether the service has them. If it rejects some, each is sent alone, and those are dropped."""
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
                return all(self._deliver([report]) for report in reports)
            self.log("error", f"the service rejects the report {reports[0]['kind']!r}: {error}", reports[0]["volume"])
        with self._changed:
            for _ in reports:
                self._reports.popleft()
            self._changed.notify_all()
        return True

    def _send_log(self, lines: list[LogLine]) -> bool:
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
