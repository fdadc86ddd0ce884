"""An agent's reports and log lines, kept in order until the service has them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from forebay.act.control.api.forms import Level, LogForm, ReportForm
from forebay.act.control.client import Client, ServiceAway, TurnedAway
from forebay.act.control.errors import ErrorCode

_AT_ONCE = 200
_MOST_LINES = 2000  # of the log that wait for the service; older ones are dropped
_PAUSE = 0.5  # seconds before something is sent again
_REJECTED = (
    ErrorCode.MALFORMED, ErrorCode.NOT_ALLOWED, ErrorCode.CONFLICT, ErrorCode.OTHER_JOURNAL, ErrorCode.TOO_LARGE,
)  # fmt: skip
"""What a service answers to a report that it will never take."""


class Outbox:
    """Sends from a thread of its own. It drops a report only if the service rejects it."""

    def __init__(self, client: Client, node: str, numbers: Callable[[], int], say: Callable[[str], None]) -> None:
        self._client, self._node, self._number, self._say = client, node, numbers, say
        self._reports: deque[ReportForm] = deque()
        self._lines: deque[LogForm] = deque(maxlen=_MOST_LINES)
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def report(self, report: ReportForm) -> None:
        with self._changed:
            report.number = self._number()
            self._reports.append(report)
            self._changed.notify_all()

    def log(self, level: Level, text: str, volume: str = "") -> None:
        """Log it here and at the service, where the grant's story is."""
        self._say(f"{level}: {text}")
        line = LogForm(time=time.time(), level=level, grant=volume.partition(".")[0], text=text[:2000])
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def waiting(self) -> set[str]:
        """Volumes with a report that is not delivered yet."""
        with self._changed:
            return {report.volume for report in self._reports}

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
            sent = self._deliver(self._reports, reports) and self._deliver(self._lines, lines)
            with self._changed:
                self._changed.wait_for(lambda: self._ended, 0 if sent else _PAUSE)

    def _deliver(self, queue: deque[ReportForm] | deque[LogForm], items: Sequence[ReportForm | LogForm]) -> bool:
        """Whether the service has them. If it rejects some, each is sent alone, and those are dropped."""
        if not items:
            return True
        send = self._client.report if queue is self._reports else self._client.log
        try:
            send(self._node, [item.model_dump(exclude_unset=True) for item in items])
        except ServiceAway:
            return False
        except TurnedAway as error:
            if error.code not in _REJECTED:
                return False
            if len(items) > 1:
                return all(self._deliver(queue, [item]) for item in items)
            if isinstance(report := items[0], ReportForm):
                self.log("error", f"the service rejects the report {report.kind!r}: {error}", report.volume)
        with self._changed:
            for item in items:
                if queue and queue[0] is item:  # else it was pushed out meanwhile
                    queue.popleft()
            self._changed.notify_all()
        return True
