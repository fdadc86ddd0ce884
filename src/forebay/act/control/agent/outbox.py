"""What an agent sends to the service: reports, log lines and the progress of copies, kept until they arrive."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from forebay.act.control.api.forms import CopyForm, Level, LogForm, ReportForm
from forebay.act.control.client import Client, ServiceAway, TurnedAway
from forebay.act.control.errors import ErrorCode
from forebay.history.toml import Table

_AT_ONCE = 200
_MOST_LINES = 2000  # log lines that wait for the service; older lines are dropped
_RESEND = 0.5  # seconds before the agent sends again
_REJECTED = (
    ErrorCode.MALFORMED, ErrorCode.NOT_ALLOWED, ErrorCode.CONFLICT, ErrorCode.OTHER_JOURNAL, ErrorCode.TOO_LARGE,
)  # fmt: skip
"""The codes of errors for a report that the service will never accept."""
_Queue = deque[ReportForm] | deque[LogForm] | deque[CopyForm]
_Send = Callable[[str, Sequence[Mapping[str, object]]], None]


class Outbox:
    """Keeps reports and log lines in order until the service has them. Only a rejected report is dropped."""

    def __init__(self, client: Client, node: str, numbers: Callable[[], int], say: Callable[[str], None]) -> None:
        self._node, self._number, self._say = node, numbers, say
        self._reports: deque[ReportForm] = deque()
        self._copies: deque[CopyForm] = deque()
        self._lines: deque[LogForm] = deque(maxlen=_MOST_LINES)
        self._changed = threading.Condition()
        self._queues: tuple[tuple[_Queue, _Send], ...] = (
            (self._reports, client.report), (self._lines, client.log), (self._copies, client.report_copies),
        )  # fmt: skip
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def report(self, report: ReportForm) -> None:
        with self._changed:
            report.number = self._number()
            self._reports.append(report)
            self._changed.notify_all()

    def report_copy(self, form: CopyForm) -> None:
        """Report what was copied; an older report of the same copy that still waits is dropped."""
        with self._changed:
            if self._copies and (self._copies[-1].grant, self._copies[-1].key) == (form.grant, form.key):
                self._copies.pop()
            self._copies.append(form)
            self._changed.notify_all()

    def log(self, level: Level, text: str, volume: str = "") -> None:
        """Log a line here, and send it to the service for the grant's story."""
        self._say(f"{level}: {text}")
        line = LogForm(time=time.time(), level=level, grant=volume.partition(".")[0], text=text[:2000])
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def undelivered_volumes(self) -> set[str]:
        """Volumes with a report that is not delivered yet."""
        with self._changed:
            return {report.volume for report in self._reports}

    def end(self, seconds: float) -> bool:
        """Send for at most `seconds`, then stop; returns whether everything was sent."""
        with self._changed:
            sent = self._changed.wait_for(lambda: not self._has_any(), seconds)
            self._ended = True
            self._changed.notify_all()
        return sent

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._has_any())
                if self._ended:
                    return
                batches = [(queue, send, list(queue)[:_AT_ONCE]) for queue, send in self._queues]
            sent = all(self._deliver(*batch) for batch in batches)
            with self._changed:
                self._changed.wait_for(lambda: self._ended, 0 if sent else _RESEND)

    def _has_any(self) -> bool:
        return any(queue for queue, _ in self._queues)

    def _deliver(self, queue: _Queue, send: _Send, items: Sequence[Table]) -> bool:
        """Send items; returns whether the service has them. After a rejection, send each alone; drop rejected ones."""
        if not items:
            return True
        try:
            send(self._node, [item.model_dump(mode="json", exclude_unset=True) for item in items])
        except ServiceAway:
            return False
        except TurnedAway as error:
            if error.code not in _REJECTED:
                return False
            if len(items) > 1:
                return all(self._deliver(queue, send, [item]) for item in items)
            if isinstance(report := items[0], ReportForm):
                self.log("error", f"dropped report {report.kind!r}, which the service rejected: {error}", report.volume)
        with self._changed:
            for item in items:
                if queue and queue[0] is item:  # else newer lines have pushed it out
                    queue.popleft()
            self._changed.notify_all()
        return True
