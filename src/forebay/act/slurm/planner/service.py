"""The planner's loop: read Slurm, plan, steer, record; again after the interval.

Nothing that it does in Slurm needs it afterwards: if it is killed at any moment, raised jobs stay raised, and what it
kept back starts by itself when the lease ends. The book of changes is on disk before Slurm is asked.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forebay.act.command import CommandFailed
from forebay.act.files import remove_unfinished, try_lock
from forebay.act.metrics import Metric, Sample
from forebay.act.slurm.planner.cluster import SlurmCommands
from forebay.act.slurm.planner.plan import Because, Plan
from forebay.act.slurm.planner.planning import Planner, compile_kernels
from forebay.act.slurm.planner.record import Record, write_plan
from forebay.act.slurm.planner.settings import ScheduleSettings
from forebay.act.slurm.planner.steering import Book, read_book, refresh_book, steer, undo, write_book
from forebay.decide.registry import find
from forebay.history.jobs.planner_record import read_record
from forebay.model.errors import BadInput, UserError, why
from forebay.model.jobs import Jobs
from forebay.model.units import plural

PLAN, RECORD, BOOK = "plan.json", "record.jsonl", "changes.json"
_TOO_LATE = ("Invalid job id", "no longer pending", "already finished")  # the job has started or ended meanwhile
_LONGEST_SHARE = 0.5  # of the time that cycles may take; a slow Slurm is asked less often

Report = Callable[[str], None]


@dataclass(slots=True)
class Counts:
    """What has happened since the start, for the metrics."""

    cycles: int = 0
    failures: int = 0
    updates: int = 0
    complaints: int = 0
    last: float = 0.0
    seconds: float = 0.0
    plan: Plan | None = None
    kept: int = 0
    raised: int = 0


class PlannerService:
    """Runs the planner until `end` is set. `report` gets one line whenever something changes for the administrator."""

    def __init__(self, settings: ScheduleSettings, report: Report) -> None:
        self._settings, self._report = settings, report
        schedule = settings.schedule
        self._slurm = SlurmCommands(conf=settings.slurm.conf, timeout=settings.slurm.timeout)
        policy, record = find("schedule", schedule.policy), schedule.folder / RECORD
        self._planner = Planner(settings, policy, self._read_ended(record) if policy.foresees else None)
        self._book_file = schedule.folder / BOOK
        self._book: Book = read_book(self._book_file)
        self._record = Record(record)
        self._states: dict[str, tuple[str, float, float]] = {}
        self._trouble, self._was_refused = "", False
        self.counts = Counts()

    def _read_ended(self, record: Path) -> Jobs | None:
        """Return the jobs of an earlier planner's record."""
        if not record.exists():
            return None
        try:
            return read_record(record).jobs
        except BadInput as error:
            self._report(f"run times are predicted without earlier jobs: {error}")
            return None

    @property
    def plan_file(self) -> Path:
        return self._settings.schedule.folder / PLAN

    @property
    def _about(self) -> dict[str, object]:
        schedule = self._settings.schedule
        return {"mode": schedule.mode, "policy": schedule.policy, "interval": schedule.interval}

    def run(self, end: threading.Event) -> None:
        """Plan until `end` is set; then give all jobs back what they had."""
        with _lock_folder(self._settings.schedule.folder):
            if self._settings.schedule.mode == "shadow":
                self._try_release()  # what an earlier planner changed
            compile_kernels()  # before the first plan, as the pause after a plan is at least as long as it took
            while not end.is_set():
                begin = time.monotonic()
                self.run_cycle()
                took = time.monotonic() - begin
                end.wait(max(self._settings.schedule.interval - took, took * (1 / _LONGEST_SHARE - 1)))
            self._try_release()

    def _try_release(self) -> None:
        try:
            self.release()
        except (CommandFailed, OSError) as error:
            self._report(f"cannot give jobs back what they had: {error}; run: forebay schedule --config FILE --release")

    def run_cycle(self) -> Plan | None:
        """Read, plan, steer and record once. None if Slurm does not answer; nothing is changed then."""
        begin = time.monotonic()
        try:
            plan = self.make_plan()
            self._follow(plan)
        except CommandFailed as error:
            self._fail("slurm", f"no new plan, as Slurm does not answer: {error}")
            return None
        except BadInput as error:
            self._fail("settings", f"no new plan: {error}")
            return None
        except OSError as error:
            file = error.filename or self._settings.schedule.folder
            self._fail("folder", f"{file}: cannot record the plan: {why(error)}")
            return None
        if self._trouble:
            self._report("plans are made again")
        self._trouble = ""
        self.counts.cycles += 1
        self.counts.last, self.counts.seconds, self.counts.plan = plan.at, time.monotonic() - begin, plan
        return plan

    def make_plan(self) -> Plan:
        """Read Slurm and plan; change nothing."""
        cluster = self._slurm.read(time.time(), self._settings.exclude.partitions)
        self._states = {job.number: (job.state, job.start, job.end) for job in cluster.jobs}
        return self._planner.plan(cluster, {change.number: change.kept for change in self._book.values()})

    def _follow(self, plan: Plan) -> None:
        """Steer Slurm, unless in shadow mode, and record what was planned and what happened."""
        book, commands = steer(plan, self._book, self._settings.steering)
        if self._settings.schedule.mode == "steer":
            self._carry_out(book, commands)
        write_plan(self.plan_file, plan, book, self._about)
        self._record.write(plan, self._states, self._about)
        self.counts.kept = sum(change.kept > 0 for change in book.values())
        self.counts.raised = sum(change.raised_by > 0 for change in book.values())

    def _carry_out(self, book: Book, commands: list[str]) -> None:
        if book != self._book:
            write_book(self._book_file, {**self._book, **book})  # until Slurm has agreed, either may hold
        complaints = self._slurm.update(commands)
        self._book = book
        write_book(self._book_file, book)
        self.counts.updates += len(commands)
        self.counts.complaints += len(complaints)
        refusals = _find_refusals(complaints)
        if refusals and not self._was_refused:
            self._report(f"Slurm refused changes: {refusals[0]}")
        self._was_refused = bool(refusals)

    def release(self) -> int:
        """Give all jobs that still wait back what they had; return their number.

        The book stays if Slurm refuses.
        """
        if not self._book:
            return 0
        cluster = self._slurm.read(time.time(), self._settings.exclude.partitions)
        waiting = (job for job in cluster.jobs if job.is_waiting)
        changed = refresh_book(waiting, cluster.at, self._book)
        if refusals := _find_refusals(self._slurm.update(undo(changed))):
            raise CommandFailed(f"scontrol: {refusals[0]}")
        self._book = {}
        write_book(self._book_file, {})
        return len(changed)

    def _fail(self, trouble: str, line: str) -> None:
        """Count a failure, and report it when this kind of trouble begins."""
        self.counts.failures += 1
        if trouble != self._trouble:
            self._report(line)
        self._trouble = trouble

    def metrics(self) -> Iterator[Sample]:
        """Return the planner's metrics as they are now."""
        counts = self.counts
        yield _CYCLES.number(counts.cycles)
        yield _FAILURES.number(counts.failures)
        yield _UPDATES.number(counts.updates)
        yield _COMPLAINTS.number(counts.complaints)
        yield _LAST.number(counts.last)
        yield _SECONDS.number(counts.seconds)
        yield _STEERS.number(self._settings.schedule.mode == "steer")
        yield _KEPT.number(counts.kept)
        yield _RAISED.number(counts.raised)
        plan = counts.plan
        if plan is None:
            return
        waits = [plan.at - planned.job.submit for planned in plan.planned]
        yield _LONGEST.number(max(waits, default=0.0))
        reasons = [planned.because for planned in (*plan.planned, *plan.others)]
        yield _DEEP.number(len(plan.deep))
        yield from _WAITING.counts({str(code): reasons.count(code) for code in set(reasons)}, map(str, Because))
        machine = plan.machine
        for name, value in (("nodes", machine.free_nodes), ("bytes", machine.free_space)):
            yield _FREE.number(value, name)


def _find_refusals(complaints: Sequence[str]) -> list[str]:
    return [line for line in complaints if not any(phrase in line for phrase in _TOO_LATE)]


_NAME = "forebay_schedule"
_CYCLES = Metric(f"{_NAME}_cycles", "Plans made.", kind="counter")
_FAILURES = Metric(
    f"{_NAME}_failures", "Plans that were not made or recorded, mostly because Slurm did not answer.", kind="counter"
)
_UPDATES = Metric(f"{_NAME}_updates", "Changes to jobs that the planner requested from Slurm.", kind="counter")
_COMPLAINTS = Metric(f"{_NAME}_complaints", "Changes to jobs that Slurm refused.", kind="counter")
_LAST = Metric(f"{_NAME}_last_plan_time_seconds", "When the last plan was made, in seconds since 1970.")
_SECONDS = Metric(f"{_NAME}_cycle_seconds", "How long the last plan took, with Slurm's commands.")
_STEERS = Metric(f"{_NAME}_steers", "1 if the planner steers Slurm, 0 in shadow mode.")
_KEPT = Metric(f"{_NAME}_kept_jobs", "Jobs that are kept back; in shadow mode, that would be.")
_RAISED = Metric(f"{_NAME}_raised_jobs", "Jobs with a raised priority; in shadow mode, that would have one.")
_LONGEST = Metric(f"{_NAME}_longest_wait_seconds", "How long the planned job that was submitted first has waited.")
_WAITING = Metric(f"{_NAME}_waiting_jobs", "Waiting jobs by the reason in the plan.", ("because",))
_DEEP = Metric(f"{_NAME}_deep_jobs", "Waiting jobs beyond the planned ones, because of schedule.depth.")
_FREE = Metric(f"{_NAME}_free", "Free nodes and burst-buffer bytes.", ("resource",))


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Let only one planner use the folder; the lock ends with the process."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        if not try_lock(file.fileno()):
            raise UserError(f"{folder}: another planner uses this folder; end it, or set schedule.folder")
        remove_unfinished(folder)
        yield


def describe_plan(plan: Plan) -> str:
    """Summarise the plan in one line."""
    due = sum(planned.start <= plan.at for planned in plan.planned)
    left = len(plan.others) + len(plan.deep)
    return f"{plural(len(plan.planned), 'job')} planned, {due:,} of them to start now; {left:,} left to Slurm"
