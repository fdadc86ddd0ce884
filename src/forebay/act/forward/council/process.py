"""The council as a process: clock, sockets and a file around `decide/tune/council`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from time import time
from typing import Any, TextIO

from forebay.act.forward.net.address import Address
from forebay.act.forward.net.auth import Peer
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.admission import TIMEOUT, Door
from forebay.act.forward.net.buffers import Buffers
from forebay.act.forward.net.wire import BadMessage, Kind, Message, answer_header, packed, unpacked
from forebay.act.forward.node.council_client import checked
from forebay.act.forward.node.job_history import store_parts
from forebay.decide.tune.council import Council, Decided, Report, decide
from forebay.decide.tune.memory import as_json, from_json
from forebay.history.store import Store
from forebay.model.errors import BadInput, ForebayError, why
from forebay.model.observation import Observation
from forebay.model.random_numbers import seed_state
from forebay.model.situation import PATTERNS, situation
from forebay.profile.pattern_detector import detect_pattern, read_detector, shipped_detector

_MOST_QUEUED = 256 << 10
_SAVED_EVERY = 5.0
Recognise = Callable[[Observation], str | None]
_FIELDS = {each.name: each.type for each in fields(Observation)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CouncilSettings:
    """`every` how many seconds it decides; with `ignore`, I/O nodes hear decisions and do not follow them."""

    address: Address
    key: bytes
    council: Council
    state: Path | None = None
    every: float = 1.0
    ignore: bool = False
    seed: int = 0
    log: Path | None = None
    weights: Path | None = None  # to recognise patterns by; those that come with Forebay otherwise
    proof: float = TIMEOUT


class CouncilProcess:
    """Listens as soon as it is made, within a running loop."""

    def __init__(
        self, settings: CouncilSettings, store: Store | None = None, recognise: Recognise = detect_pattern
    ) -> None:
        """`store` is the history that gets the jobs' runs, `recognise` tells the access pattern of a period."""
        self._settings, self._store, self._recognise = settings, store, recognise
        self._loop = asyncio.get_running_loop()
        self.council = loaded(settings.council, settings.state)
        self._chance = seed_state(settings.seed)
        self._reports: dict[str, Report] = {}
        self._nodes: dict[str, Connection] = {}
        self._saved = 0.0
        self._jobs: asyncio.Queue[tuple[Connection, Message, list[Mapping[str, Any]]]] = asyncio.Queue(1000)
        self.counts: Counter[str] = Counter()
        self.decided: Decided | None = None
        self._log: TextIO | None = settings.log.open("a", encoding="utf-8") if settings.log else None
        me = Peer(role="council", name="council")
        self._door = Door(
            settings.address, settings.key, me, ("node",), self._entered, buffers=Buffers(64 << 20),
            timeout=settings.proof, most_queued=_MOST_QUEUED,
        )  # fmt: skip
        self.address = self._door.address

    @property
    def dropped(self) -> Counter[str]:
        return self._door.dropped + self.counts

    @property
    def nodes(self) -> list[str]:
        return sorted(self._nodes)

    async def run(self) -> None:
        """Decide, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_jobs())
            group.create_task(self._decide())

    async def close(self) -> None:
        self._door.close()
        for connection in tuple(self._nodes.values()):
            connection.close()
        await asyncio.sleep(0)
        self._save()
        if self._log is not None:
            self._log.close()

    # Nodes

    def _entered(self, connection: Connection) -> None:
        assert connection.peer is not None
        old = self._nodes.pop(connection.peer.name, None)
        if old is not None:
            old.close("the I/O node has connected anew")
        self._nodes[connection.peer.name] = connection
        connection.redirect(self._received, self._lost)

    def _lost(self, connection: Connection, _why: str) -> None:
        name = connection.peer.name if connection.peer else ""
        if self._nodes.get(name) is connection:
            del self._nodes[name]
            self._reports.pop(name, None)

    def _received(self, connection: Connection, message: Message) -> None:
        name = connection.peer.name if connection.peer else ""
        try:
            words = unpacked(message.payload)
            if message.kind == Kind.ANNOUNCE:
                self._reports[name] = self._report(name, words)
            elif message.kind == Kind.JOB:
                self._jobs.put_nowait((connection, message, list(words["parts"])))
            else:
                raise BadMessage(f"a council has no business with {message!r}")
        except asyncio.QueueFull:
            pass  # it is told again
        except (ForebayError, KeyError, TypeError, ValueError, AttributeError) as error:
            self.counts["malformed"] += 1
            connection.close(f"what it says makes no sense: {error}")
        finally:
            message.release()

    def _report(self, name: str, words: Any) -> Report:
        seen = observed(words["observed"])
        value = words["value"] if words["parameter"] == self.council.parameter else None
        kind = self._recognise(seen)
        servers, nodes = int(words["servers"]), max(len(self._nodes), 1)
        here = None if kind is None else situation(seen, kind, servers=servers, io_nodes=nodes)
        return Report(node=name, observed=seen, value=value, held=float(words["held"]), situation=here)

    # Decisions

    async def _decide(self) -> None:
        while True:
            await asyncio.sleep(self._settings.every)
            reports, self._reports = list(self._reports.values()), {}
            self.council, self.decided = decide(self.council, reports, self._chance)
            self.counts["decisions"] += 1
            self._tell(self.decided)
            self._note(self.decided, reports)
            if time() - self._saved >= _SAVED_EVERY:
                await self._loop.run_in_executor(None, self._save)

    def _tell(self, decided: Decided) -> None:
        """All nodes hear it; one that does not listen is dropped rather than waited for."""
        if decided.value is None:
            return
        words = {"parameter": self.council.parameter, "value": decided.value, "ignore": self._settings.ignore}
        payload = packed(words)
        header = Message(Kind.DECIDE, payload=payload).header()
        for connection in tuple(self._nodes.values()):
            if connection.queued > _MOST_QUEUED:
                self.counts["stalled"] += 1
                connection.close("it does not read what is decided")
            else:
                connection.send([header, payload])

    def _note(self, decided: Decided, reports: list[Report]) -> None:
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
                save(self.council, self._settings.state)
                self._saved = time()
            except OSError as error:
                self.counts["unsaved"] += 1
                print(f"forebay: council: {self._settings.state}: {why(error)}", file=sys.stderr)

    # Jobs

    async def _write_jobs(self) -> None:
        while True:
            connection, message, parts = await self._jobs.get()
            if self._store is not None:
                try:
                    await self._loop.run_in_executor(None, store_parts, self._store, parts)
                    self.counts["jobs"] += 1
                except BadInput as error:  # what it says can't be, or the history can't be written just now
                    self.counts["jobs_refused"] += 1
                    print(f"forebay: council: {error}", file=sys.stderr)
            if not connection.closed:
                connection.send([answer_header(message)])


def loaded(council: Council, state: Path | None) -> Council:
    """With what was learned before; a file that is not there is no mistake."""
    if state is None:
        return council
    try:
        document = json.loads(state.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return council
    except (OSError, ValueError) as error:
        raise BadInput(str(state), f"what the council learned can't be read: {error}") from None
    return from_json(council, document, str(state))


def save(council: Council, state: Path) -> None:
    """All or nothing, whatever happens in between."""
    new = state.with_name(f"{state.name}.new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(as_json(council), file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(state)
    folder = os.open(state.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def observed(words: Any) -> Observation:
    """What a node has announced, if a node can have seen that."""
    known = {name: words[name] for name in _FIELDS}
    depths = known.pop("depths")
    if any(type(value) not in (int, float) or not 0 <= value < 2**63 for value in known.values()):
        raise BadInput("announcement", "has numbers that can't be")
    if not isinstance(depths, list | tuple) or len(depths) > 1 << 16 or not all(type(d) is int for d in depths):
        raise BadInput("announcement", "has depths that can't be")
    if known["seconds"] <= 0:
        raise BadInput("announcement", "of no time at all")
    return Observation(**known, depths=tuple(depths))


def warm_council(council: Council, recognise: Recognise) -> None:
    """Have all kernels compiled before the first I/O node waits for an answer."""
    seen = Observation(
        seconds=1.0, files=1, writes=1, bytes_written=1, smallest=1, mean=1.0, largest=1, load=1.0, busy=1.0
    )
    here = situation(seen, recognise(seen) or PATTERNS[0], servers=1, io_nodes=1)
    report, chance = Report(node="", observed=seen, value=council.values[0], held=2.0, situation=here), seed_state(0)
    council, _ = decide(council, [report], chance)
    decide(council, [report], chance)


async def run_council(
    settings: CouncilSettings, store: Store | None, end: asyncio.Event, ready: Callable[[CouncilProcess], None]
) -> None:
    """Run it until `end` is set."""
    for value in settings.council.values:
        checked(settings.council.parameter, value)  # before any I/O node refuses it
    by = read_detector(settings.weights) if settings.weights else shipped_detector()
    warm_council(settings.council, partial(detect_pattern, detector=by))
    council = CouncilProcess(settings, store, partial(detect_pattern, detector=by))
    task = asyncio.get_running_loop().create_task(council.run())
    try:
        ready(council)
        await asyncio.wait((task, asyncio.ensure_future(end.wait())), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await council.close()
