"""The agent of a storage node: it reports the node's disks to the service, and makes and releases volumes for it.

One thread gets the actions from the service, other threads carry them out, one volume at a time each, and one thread
sends the reports. Every action is safe to repeat, so that the agent recovers from a crash at its next start.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from forebay.act.command import inherited_descriptors
from forebay.act.control.agent.actions import LONGEST_REASON, read_action, report_trouble
from forebay.act.control.agent.copies import Copies
from forebay.act.control.agent.disk import AgentDisk
from forebay.act.control.agent.disk_marks import DiskMarks
from forebay.act.control.agent.disk_rates import RateReporter
from forebay.act.control.agent.outbox import Outbox
from forebay.act.control.agent.settings import AgentFile, AgentSettings
from forebay.act.control.agent.state_folder import JournalMemory, ReportNumbers
from forebay.act.control.api.forms import CopyForm, DiskForm, HelloForm, Level, ReportForm, VolumeForm
from forebay.act.control.client import Client, TurnedAway, parse_service
from forebay.act.control.documents import ActionDocument, ActionList
from forebay.act.control.errors import ErrorCode
from forebay.act.files import remove_unfinished
from forebay.act.volumes.volume import VolumeFailed
from forebay.decide.grants.machine import Action
from forebay.model.errors import BadInput, UserError, why
from forebay.model.units import format_duration, format_size, plural

_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds before the service is called again; the last repeats
_BUSY = 0.5  # the longest wait in seconds of a new action while others are under way
_TRIES = 5  # to bring up or remove an existing volume, before the agent reports a failure
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0  # seconds between such tries: they double each time
_SOON = 2.0  # seconds until the disks are checked after a failure: a check can take long
_PATIENCE = 20  # tenths of a second to wait for the last commands of a killed agent
_COPIES = "copies"  # the folder of plans and journals of copies
_SAY_HELLO = (ErrorCode.NOT_FOUND, ErrorCode.OTHER_JOURNAL, ErrorCode.CONFLICT)
"""The codes of errors after which the agent must report its disks again."""


class Agent:
    """Runs until `stop`. While the service does not answer, it keeps its reports and tries again."""

    def __init__(self, file: AgentFile, say: Callable[[str], None]) -> None:
        settings = file.settings
        self._settings, self._node, self._say = settings, file.node, say
        self._lock_file = _lock(settings)
        for folder in (settings.folder, settings.folder / _COPIES):
            remove_unfinished(folder)
        self._numbers = ReportNumbers(settings.folder / "numbers")
        self._memory = JournalMemory(settings.folder / "journal")
        self._client = Client(
            parse_service(settings.service), token=settings.token, authority=settings.authority, patience=0.0
        )
        self.outbox = Outbox(self._client, settings.node, self._numbers.next, say)
        self._copies = Copies(settings.folder / _COPIES, self._node.find_path, self._report_copy, self._note_server)
        self._pool = ThreadPoolExecutor(settings.parallel, thread_name_prefix="work")
        self._changed = threading.Condition()
        self._in_hand: set[str] = set()
        self._fresh: set[str] = set()
        self._tries: dict[str, tuple[int, float]] = {}
        self._marks = DiskMarks(settings.folder / "disks")
        self._blind: dict[str, float] = {}
        self._capacities: dict[str, int] = {}
        self._still = self._has_copied = False
        self._looked: float | None = None
        self._ended = threading.Event()
        self._listens = False  # waits for an answer of the service
        self._thread = threading.Thread(target=self._run, name="poll", daemon=True)
        self._rates = RateReporter(self._node.disks, lambda rates: self._client.report_rates(settings.node, rates))

    def start(self) -> None:
        """Check the disks, then continue in the background.

        A node with a broken disk works with the others. A node without any disk does not start.
        """
        broken = []
        for disk in self._node.disks.values():
            try:
                disk.volumes.check()
            except UserError as error:
                self._say(f"error: {error}")
                broken.append(error)
        if len(broken) == len(self._node.disks):
            raise broken[0]
        self._node.resume(self._note_server)
        self.outbox.start()
        self._thread.start()
        self._rates.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Finish the actions under way and report them, if the service answers; begin no new ones."""
        with self._changed:
            self._ended.set()
            self._changed.notify_all()
        self._rates.stop()
        self._copies.close()
        self._pool.shutdown(wait=True)
        self._node.close()
        self.outbox.end(seconds)
        if not self._listens:  # else the thread ends when the client closes
            self._thread.join(seconds)
        self._client.close()
        inherited_descriptors.discard(self._lock_file)
        os.close(self._lock_file)

    def _run(self) -> None:
        """Get actions and carry them out. Nothing but `stop` ends this."""
        quiet = away = 0
        while not self._ended.is_set():
            try:
                begun = self._dispatch(self._get_actions())
            except Exception as error:  # after any error, the node still needs its agent
                if self._ended.is_set():
                    return
                if isinstance(error, TurnedAway) and error.code in _SAY_HELLO:
                    self._looked = None
                if away == 0:
                    text = str(error) if isinstance(error, UserError) else f"internal error: {error!r}"
                    self._say(f"warning: {text}; trying again")
                away += 1
                self._ended.wait(_PAUSES[min(away, len(_PAUSES) - 1)])
                continue
            if away:
                self.outbox.log("info", f"node {self._settings.node}: the service answers again")
            away = 0
            with self._changed:
                quiet = 0 if begun or self._has_copied else quiet + 1
                self._has_copied = False
                if self._still:  # the service answers at once while actions are under way, so pause
                    self._changed.wait(min(_PAUSES[min(quiet, len(_PAUSES) - 1)], _BUSY))

    def _report_copy(self, form: CopyForm) -> None:
        """Report how far a copy is; if it is complete, ask soon whether those of the other nodes are, too."""
        self.outbox.report_copy(form)
        if form.step == "copied":
            with self._changed:
                self._has_copied = True
                self._changed.notify_all()

    def _get_actions(self) -> Sequence[ActionDocument]:
        with self._changed:
            self._fresh = self.outbox.undelivered_volumes()
            idle = not self._in_hand
        if self._looked is None or (idle and time.monotonic() - self._looked >= self._settings.look):
            return self._report_node()
        self._listens = True
        try:
            seconds = min(self._settings.heartbeat, self._settings.look)
            answer = self._client.actions(self._settings.node, seconds, self._memory.seen)
        finally:
            self._listens = False
        return () if self._ended.is_set() else self._remember(answer)

    def _remember(self, answer: ActionList) -> Sequence[ActionDocument]:
        """The actions of an answer; the agent stores their journal before it carries them out."""
        self._memory.keep(answer.get("seen", ""))
        self._copies.follow(answer.get("copies", ()))
        return answer["actions"]

    def _report_node(self) -> Sequence[ActionDocument]:
        """Report the disks with all volumes on them; returns the actions of the service."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._in_hand or self._ended.is_set(), _LONGEST_PAUSE):
                raise UserError("cannot check the disks: actions on them are still under way")
        number = self._numbers.next()  # before the look, so that later changes get higher numbers
        report = self._read_disks()
        report.number, report.seen = number, self._memory.seen
        document = report.model_dump(exclude_unset=True)
        actions = self._remember(self._client.hello(self._settings.node, document))
        if self._looked is None:
            count = f"{plural(len(document['disks']), 'disk')}, {plural(len(document['volumes']), 'volume')} on them"
            self.outbox.log("info", f"node {self._settings.node}: {count}, {len(actions)} to make or release")
        self._looked = time.monotonic()
        return actions

    def _read_disks(self) -> HelloForm:
        disks: list[DiskForm] = []
        volumes: list[VolumeForm] = []
        unseen: dict[str, str] = {}
        for disk in self._node.disks.values():
            try:
                self._marks.check(disk)
                described = disk.describe(self._capacities.get(disk.name, 0))
                volumes += disk.find_volumes(self._node.exposures)
            except UserError as error:
                if self._may_come_back(disk, error):
                    unseen[disk.name] = str(error)[:LONGEST_REASON]
                continue
            self._blind.pop(disk.name, None)
            self._capacities[disk.name] = described.capacity
            disks.append(described)
        settings = self._settings
        report = HelloForm(
            address=settings.address, network_bandwidth=settings.network_bandwidth, fields=settings.fields,
            disks=disks, volumes=volumes,
        )  # fmt: skip
        if unseen:
            report.unseen = unseen
        return report

    def _may_come_back(self, disk: AgentDisk, error: UserError) -> bool:
        """Whether to wait for a disk. The agent gives up a disk that it never used at once."""
        known, now = self._marks.is_known(disk), time.monotonic()
        if disk.name not in self._blind:
            more = f"; its volumes count as lost after {format_duration(self._settings.give_up)}" if known else ""
            self.outbox.log("error", f"disk {disk.name} of node {self._settings.node}: {error}{more}")
        return known and now - self._blind.setdefault(disk.name, now) < self._settings.give_up

    def _dispatch(self, documents: Sequence[ActionDocument]) -> int:
        """Begin the new actions; returns how many."""
        begun = 0
        for action in map(read_action, documents):
            _, until = self._tries.get(f"{action.kind} {action.volume}", (0, 0.0))
            with self._changed:
                under_way = action.volume in self._in_hand | self._fresh  # or carried out, but not reported yet
                if self._ended.is_set() or under_way or time.monotonic() < until:
                    continue
                self._in_hand.add(action.volume)
                self._pool.submit(self._work, action)
            begun += 1
        self._still = bool(documents) or self._copies.is_busy
        return begun

    def _work(self, action: Action) -> None:
        begun = time.monotonic()
        try:
            try:
                self._marks.verify(self._node.disk(action.disk))
            except BadInput as error:  # another disk is mounted there, so the request is not at fault
                raise VolumeFailed(str(error)) from None
            report = self._node.do(action)
        except Exception as error:  # after any error, retry this volume and go on with the others
            known = error if isinstance(error, UserError) else UserError(f"internal error: {error!r}")
            self._try_later(action, known)
        else:
            self._tries.pop(f"{action.kind} {action.volume}", None)
            self._report(action, report, time.monotonic() - begun)
        finally:
            with self._changed:
                self._in_hand.discard(action.volume)
                self._fresh.add(action.volume)
                self._changed.notify_all()

    def _report(self, action: Action, report: ReportForm, seconds: float) -> None:
        level: Level = "info"
        size, on_disk = format_size(action.size), f"on {action.disk}"
        text = f"{report.kind}: volume {action.volume} of {size} {on_disk}, in {seconds:.2f} s"
        if report.kind == "failed":
            self._look_soon()
            level, text = "error", f"could not make volume {action.volume} {on_disk}: {report.because}"
        self.outbox.log(level, text, action.volume)  # first, so that the grant's story is in order
        self.outbox.report(report)

    def _try_later(self, action: Action, error: UserError) -> None:
        """Retry an action later. After several tries, report that it failed."""
        key = f"{action.kind} {action.volume}"
        count = self._tries.get(key, (0, 0.0))[0] + 1
        self._tries[key] = count, time.monotonic() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**count)
        self.outbox.log("error", f"{key} on {action.disk}: {error} (try {count})", action.volume)
        self._look_soon()
        if action.kind == "make" and count >= _TRIES:
            self._tries.pop(key)
            self.outbox.report(report_trouble("failed", action, error))
        elif action.kind == "release" and count == _TRIES:
            self.outbox.report(report_trouble("stuck", action, error))

    def _note_server(self, level: str, text: str, volume: str) -> None:
        self.outbox.log("info" if level == "info" else "warning", text, volume)

    def _look_soon(self) -> None:
        """Check all disks soon, because one may differ from what the service knows."""
        looked = self._looked
        if looked is not None:
            self._looked = min(looked, time.monotonic() - self._settings.look + _SOON)


def _lock(settings: AgentSettings) -> int:
    """Lock the folder, so that no other agent, and no command of a killed agent, works on the same volumes."""
    path = settings.folder / "lock"
    try:
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadInput(str(path), f"cannot be written: {why(error)}") from None
    for _ in range(_PATIENCE):
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            inherited_descriptors.add(descriptor)
            return descriptor
        time.sleep(0.1)
    os.close(descriptor)
    raise BadInput(
        str(path), f"another agent of node {settings.node!r} uses this folder, or its last command still runs; stop it"
    )
