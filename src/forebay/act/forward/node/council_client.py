"""An I/O node's link to the council: reports its load each second, and follows decisions."""

import asyncio
from collections import Counter, deque
from contextlib import suppress
from time import monotonic

from forebay.act.forward.council.parameters import check_parameter
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import PersistentLink
from forebay.act.forward.net.auth import Credentials
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.council_payloads import Announcement, Decision, JobPart, JobReport
from forebay.act.forward.net.payloads import Payload
from forebay.act.forward.net.wire import LONGEST, BadMessage, Flag, Kind, Message, pack, unpack_as
from forebay.act.forward.node.io_node import IoNode
from forebay.model.errors import ForebayError
from forebay.model.observation import Observation

EVERY = 1.0
_EARLY = 0.9
"""The length of the first period after a decision, as a share of the others."""
SUMMED = ("reads", "writes", "bytes_read", "bytes_written")
_LATEST = 5.0
_MOST_QUEUED = 1 << 20
_MOST_REPORTS = 1000
_MOST_PARTS = 64
"""The most processes of a job in one message."""


class CouncilClient(PersistentLink):
    """Observes the node every `every` seconds, even without a council; `totals` sums up all periods."""

    def __init__(self, node: IoNode, council: Address | None, *, every: float = EVERY) -> None:
        settings = node.settings
        credentials = Credentials(settings.key, settings.me, ("council",))
        super().__init__(council or Address(), credentials, node.buffers, _LATEST)
        self._node, self._every = node, every
        self._reports: deque[tuple[int, JobReport]] = deque()
        self._serial = 0
        self.observed = Observation(seconds=every)
        self.totals: Counter[str] = Counter()
        self.parameter = "window"
        self._early = asyncio.Event()

    async def run(self) -> None:
        """Observe and report until cancelled; without a council, the node keeps its parameters."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._observe())
            if self.address != Address():
                group.create_task(self.keep_connected())

    def record(self, parts: list[JobPart]) -> None:
        """Report a job that has ended to the council, now or when it is back."""
        for begin in range(0, len(parts), _MOST_PARTS):
            if len(self._reports) >= _MOST_REPORTS:
                self._reports.popleft()
                self._node.counts["jobs_lost"] += 1
            self._serial += 1
            self._reports.append((self._serial, JobReport(parts=parts[begin : begin + _MOST_PARTS])))
            self._send(Kind.JOB, *self._reports[-1])

    async def flush(self, seconds: float) -> None:
        """Wait until the council has acknowledged all jobs, at most `seconds`."""
        end = monotonic() + seconds
        while self._reports and self.connection is not None and monotonic() < end:
            await asyncio.sleep(0.02)

    async def _observe(self) -> None:
        while True:
            # A period begins with each change, and its report arrives before the council decides again.
            seconds = _EARLY * self._every if self._early.is_set() else self._every
            self._early.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._early.wait(), seconds)
                continue  # `_follow` ended the period
            self._end_period()
            self._announce()

    def _end_period(self) -> None:
        self.observed = self._node.end_period()
        self.totals.update({name: getattr(self.observed, name) for name in SUMMED})

    def _announce(self) -> None:
        if self.connection is None or self.connection.queued > _MOST_QUEUED:  # it does not read them
            return
        value, held = self._node.dispatch.parameter(self.parameter)
        announcement = Announcement(
            observed=self.observed, parameter=self.parameter, value=value, held=held, servers=self._node.backend.count
        )
        self._send(Kind.ANNOUNCE, 0, announcement)

    def _send(self, kind: Kind, tag: int, content: Payload) -> None:
        payload = pack(content)
        if self.connection is not None and len(payload) <= LONGEST:
            self.connection.send([Message(kind, tag=tag, payload=payload).header(), payload])

    def _on_connect(self) -> None:
        for report in self._reports:
            self._send(Kind.JOB, *report)

    def _receive(self, _connection: Connection, message: Message) -> None:
        try:
            if message.kind == Kind.JOB and message.flags & Flag.REPLY:
                self._reports = deque(report for report in self._reports if report[0] != message.tag)
            elif message.kind == Kind.DECIDE:
                self._follow(unpack_as(Decision, message.payload))
            else:
                raise BadMessage(f"unexpected message from the council: {message!r}")
        except ForebayError:
            self._node.counts["nonsense"] += 1  # the node keeps its parameters
        finally:
            message.release()

    def _follow(self, decision: Decision) -> None:
        value = check_parameter(decision.parameter, decision.value)
        self.parameter = decision.parameter
        self._node.counts["decisions"] += 1
        if not decision.ignore and self._node.dispatch.parameter(decision.parameter)[0] != value:
            self._node.dispatch.set_parameter(decision.parameter, value)
            self._end_period()  # it is short if the last report was in time, and nobody needs it
            self._early.set()
