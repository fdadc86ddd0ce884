"""The council as a process: a clock, sockets and files around `decide/tune/council`."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from time import time
from typing import TextIO

from forebay.act.files import write_file
from forebay.act.forward.council.parameters import check_parameter
from forebay.act.forward.daemon import Numbers, Ready, background, run_daemon
from forebay.act.forward.metrics import ADMISSION, COUNCIL
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import TIMEOUT, NodeListener
from forebay.act.forward.net.auth import Credentials, Peer
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.connection import Closed, CloseReason, Connection
from forebay.act.forward.net.council_payloads import Announcement, Decision, JobReport
from forebay.act.forward.net.wire import BadMessage, Kind, Message, answer_header, pack, unpack_as
from forebay.act.forward.node.job_history import store_parts
from forebay.act.metrics import Sample
from forebay.decide.tune.council import Council, Decided, Report, as_json, decide, from_json
from forebay.history.store import Store, open_store
from forebay.model.errors import BadInput, ForebayError, why
from forebay.model.observation import Observation
from forebay.model.random_numbers import seed_state
from forebay.model.situation import PATTERNS, situation
from forebay.profile.pattern_detector import detect_pattern, read_detector, shipped_detector

_MOST_QUEUED = 256 << 10
_SAVED_EVERY = 5.0
Recognise = Callable[[Observation], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CouncilSettings:
    """A council that decides every `every` seconds; with `ignore`, I/O nodes do not follow its decisions."""

    address: Address
    key: bytes
    proof: float = TIMEOUT
    council: Council
    state: Path | None = None
    log: Path | None = None
    weights: Path | None = None  # of the pattern detector; None: those that come with Forebay
    every: float = 1.0
    ignore: bool = False
    seed: int = 0


class CouncilProcess:
    """Listens from its creation, in a running loop, until `close`."""

    def __init__(
        self, settings: CouncilSettings, store: Store | None = None, recognise: Recognise = detect_pattern
    ) -> None:
        """`store` is the history that records jobs; `recognise` returns the access pattern of a period."""
        self._settings, self._store, self._recognise = settings, store, recognise
        self._loop = asyncio.get_running_loop()
        self.council = load_state(settings.council, settings.state)
        self._chance = seed_state(settings.seed)
        self._reports: dict[str, Report] = {}
        self._saved = 0.0
        self._jobs: asyncio.Queue[tuple[Connection, Message, bytes]] = asyncio.Queue(1000)
        self.counts: Counter[str] = Counter()
        self.decided: Decided | None = None
        self._log: TextIO | None = settings.log.open("a", encoding="utf-8") if settings.log else None
        self._listener = NodeListener(
            settings.address,
            Credentials(settings.key, Peer(role="council", name="council"), ("node",)),
            self._receive,
            self._lose,
            buffers=Buffers(64 << 20),
            counts=self.counts,
            timeout=settings.proof,
            most_queued=_MOST_QUEUED,
        )
        self.address, self.nodes = self._listener.address, self._listener.nodes

    async def run(self) -> None:
        """Decide and store jobs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_jobs())
            group.create_task(self._decide())

    async def close(self) -> None:
        self._listener.close()
        await asyncio.sleep(0)
        self._save()
        if self._log is not None:
            self._log.close()

    def metrics(self) -> Iterator[Sample]:
        yield COUNCIL["nodes"].number(len(self.nodes))
        yield COUNCIL["situations"].number(len(self.council.known))
        if self.decided is not None and self.decided.value is not None:
            yield COUNCIL["decision"].number(1, self.council.parameter, str(self.decided.value))
        known = (*ADMISSION, "decisions", "jobs", "jobs_refused", "stalled", "unsaved")
        yield from COUNCIL["events"].counts(self.counts, known)

    # Nodes

    def _lose(self, connection: Connection, _closed: Closed) -> None:
        if connection.peer.name not in self.nodes:  # else the node has connected again
            self._reports.pop(connection.peer.name, None)

    def _receive(self, connection: Connection, message: Message) -> None:
        name = connection.peer.name
        try:
            if message.kind == Kind.ANNOUNCE:
                self._reports[name] = self._report(name, unpack_as(Announcement, message.payload))
            elif message.kind == Kind.JOB:
                self._jobs.put_nowait((connection, message, bytes(message.payload)))
            else:
                raise BadMessage(f"unexpected message from an I/O node: {message!r}")
        except asyncio.QueueFull:
            pass  # the node sends it again
        except ForebayError as error:
            self.counts["malformed"] += 1
            connection.close(CloseReason.MALFORMED, str(error))
        finally:
            message.release()

    def _report(self, name: str, announcement: Announcement) -> Report:
        observed = announcement.observed
        check_observed(observed)
        kind = self._recognise(observed)
        nodes = max(len(self.nodes), 1)
        return Report(
            node=name,
            observed=observed,
            value=announcement.value if announcement.parameter == self.council.parameter else None,
            held=announcement.held,
            situation=None if kind is None else situation(observed, kind, servers=announcement.servers, io_nodes=nodes),
        )

    # Decisions

    async def _decide(self) -> None:
        while True:
            await asyncio.sleep(self._settings.every)
            reports, self._reports = list(self._reports.values()), {}
            self.council, self.decided = decide(self.council, reports, self._chance)
            self.counts["decisions"] += 1
            self._announce(self.decided)
            self._log_decision(self.decided, reports)
            if time() - self._saved >= _SAVED_EVERY:
                await self._loop.run_in_executor(None, self._save)

    def _announce(self, decided: Decided) -> None:
        """Send a decision to all nodes; drop those that do not read."""
        if decided.value is None:
            return
        payload = pack(Decision(parameter=self.council.parameter, value=decided.value, ignore=self._settings.ignore))
        header = Message(Kind.DECIDE, payload=payload).header()
        for connection in tuple(self.nodes.values()):
            if connection.queued > _MOST_QUEUED:
                self.counts["stalled"] += 1
                connection.close(CloseReason.STALLED, "the I/O node does not read decisions")
            else:
                connection.send([header, payload])

    def _log_decision(self, decided: Decided, reports: list[Report]) -> None:
        if self._log is None:
            return
        patterns = sorted({r.situation.pattern for r in reports if r.situation is not None and r.active})
        row = {
            "time": time(),
            "parameter": self.council.parameter,
            "value": decided.value,
            "because": decided.because,
            "nodes": len(reports),
            "patterns": patterns,
            "operation": next((r.observed.operation for r in reports if r.active), None),
            "bandwidth": sum(r.observed.bandwidth for r in reports),
        }
        self._log.write(json.dumps(row) + "\n")
        self._log.flush()

    def _save(self) -> None:
        if self._settings.state is not None:
            try:
                save_state(self.council, self._settings.state)
                self._saved = time()
            except OSError as error:
                self.counts["unsaved"] += 1
                print(f"forebay: council: {self._settings.state}: {why(error)}", file=sys.stderr)

    # Jobs

    async def _write_jobs(self) -> None:
        while True:
            connection, message, payload = await self._jobs.get()
            if self._store is not None:
                try:
                    parts = unpack_as(JobReport, payload).parts
                    await self._loop.run_in_executor(None, store_parts, self._store, parts)
                    self.counts["jobs"] += 1
                except (BadInput, BadMessage) as error:  # the report is malformed, or the history is not writable now
                    self.counts["jobs_refused"] += 1
                    print(f"forebay: council: {error}", file=sys.stderr)
            if not connection.closed:
                connection.send([answer_header(message)])


def load_state(council: Council, state: Path | None) -> Council:
    """Restore what the council learned before; a missing file is not an error."""
    if state is None:
        return council
    try:
        document = json.loads(state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return council
    except (OSError, ValueError) as error:
        raise BadInput(str(state), f"cannot read the council's state: {error}; remove the file to learn anew") from None
    return from_json(council, document, str(state))


def save_state(council: Council, state: Path) -> None:
    """Write the state atomically."""
    write_file(state, json.dumps(as_json(council)))


def check_observed(observed: Observation) -> None:
    """Raise BadInput unless the numbers are plausible."""
    numbers = [getattr(observed, each.name) for each in fields(Observation) if each.name != "depths"]
    if not all(0 <= number < 2**63 for number in (*numbers, *observed.depths)) or len(observed.depths) > 1 << 16:
        raise BadInput("announcement", "contains a number out of range")
    if observed.seconds <= 0:
        raise BadInput("announcement", "has a period of zero seconds")


def compile_council(council: Council, recognise: Recognise) -> None:
    """Compile all kernels in advance, so that no I/O node has to wait."""
    observed = Observation(
        seconds=1.0, files=1, writes=1, bytes_written=1, smallest=1, mean=1.0, largest=1, load=1.0, busy=1.0
    )
    here = situation(observed, recognise(observed) or PATTERNS[0], servers=1, io_nodes=1)
    report, chance = (
        Report(node="", observed=observed, value=council.values[0], held=2.0, situation=here),
        seed_state(0),
    )
    council, _ = decide(council, [report], chance)
    decide(council, [report], chance)


def run_council(settings: CouncilSettings, metrics: str | None, db: str | None, ready: Ready) -> None:
    """Run a council until a signal ends it; `db` is the history that records jobs."""

    async def start(stack: AsyncExitStack, end: asyncio.Event) -> tuple[list[Address], Numbers]:
        store = stack.enter_context(open_store(db)) if db else None
        for value in settings.council.values:
            check_parameter(settings.council.parameter, value)  # here, before an I/O node refuses it
        by = read_detector(settings.weights) if settings.weights else shipped_detector()
        recognise = partial(detect_pattern, detector=by)
        compile_council(settings.council, recognise)
        council = CouncilProcess(settings, store, recognise)
        stack.push_async_callback(council.close)
        await stack.enter_async_context(background(council.run(), end))
        return [council.address], council.metrics

    run_daemon(start, metrics, ready)
