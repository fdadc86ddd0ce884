"""What to change in Slurm so that it follows a plan.

Two levers, both of which are harmless if nobody pulls them back (docs/jobs.md says how they were chosen):

- Priorities are only raised, by a negative nice value, so that the jobs of the plan go in its order. A job whose
  planner has died is at worst earlier than Slurm alone would start it.
- A job that would take space which the plan gives to another one is kept back by a begin time in the near future.
  Slurm forgets it by itself.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import or_
from pathlib import Path

from forebay.act.files import write_file
from forebay.act.slurm.planner.cluster import SlurmJob
from forebay.act.slurm.planner.plan import Because, Plan, PlannedJob, is_own_begin
from forebay.act.slurm.planner.settings import Steering
from forebay.model.errors import BadInput

HIGHEST = 4_294_967_000
"""The highest priority that is given to a job. Slurm's priorities have 32 bits, and nice values wrap around."""
_LARGEST_RAISE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job as the planner left it: `nice` is what it set, `own_nice` what the job had; kept back until `kept`."""

    number: str
    own_nice: int
    nice: int
    kept: float = 0.0

    @property
    def raised_by(self) -> int:
        return self.own_nice - self.nice


Book = Mapping[str, Change]
"""What is changed in Slurm, by job number. It is written before Slurm is asked."""


def steer(plan: Plan, book: Book, settings: Steering) -> tuple[dict[str, Change], list[str]]:
    """Return the book after the plan, and the commands for scontrol."""
    known = refresh_book(plan.waiting_jobs, plan.at, book)
    nices = order_priorities(plan.planned, known)
    keep = choose_kept(plan, settings)
    after: dict[str, Change] = {}
    commands = []
    for planned in plan.planned:
        number = planned.job.number
        before = known.get(number, Change(number=number, own_nice=planned.job.nice, nice=planned.job.nice))
        nice, kept = nices[number], _renew(before.kept, plan.at, settings.lease, number in keep)
        change = replace(before, nice=nice, kept=kept)
        if change.raised_by or change.kept:
            after[number] = change
        if command := format_command(before, change, planned.job.nice, settings.lease):
            commands.append(command)
    for number in known.keys() - after.keys() - {planned.job.number for planned in plan.planned}:
        after[number] = known[number]  # it waits for something else at the moment
    excluded = {each.job.number for each in plan.others if each.because is Because.EXCLUDED}
    commands += undo({number: after.pop(number) for number in after.keys() & excluded})
    return after, commands


def refresh_book(waiting: Iterable[SlurmJob], at: float, book: Book) -> dict[str, Change]:
    """Return the changes that still hold: of jobs that wait, with leases that have not ended.

    A nice value above the job's own was set by its user, and is its own now: only the planner and administrators can
    set a lower one. Nor is a later begin time than the planner's its own.
    """
    known = {}
    for job in waiting:
        change = book.get(job.number)
        if change is None:
            continue
        if job.nice != change.nice:
            own_nice = change.own_nice if job.nice < change.own_nice else job.nice
            change = replace(change, own_nice=own_nice, nice=job.nice)
        if change.kept and (job.eligible <= at or not is_own_begin(job, change.kept)):
            change = replace(change, kept=0.0)
        if change.raised_by or change.kept:
            known[change.number] = change
    return known


def _renew(kept: float, now: float, lease: float, is_kept: bool) -> float:
    """Return until when the job is kept back; the lease is renewed in its second half."""
    if not is_kept:
        return 0.0
    return kept if kept - now > lease / 2 else math.ceil(now + lease)


def choose_kept(plan: Plan, settings: Steering) -> set[str]:
    """Choose the jobs that must not take space yet: all but those that may, and the next one that the plan wants.

    The next one may take its space as soon as there is enough, without waiting for the next plan. It is kept back, too,
    while another job that is due has yet to take its space: Slurm does not always take them in order of priority.
    Strict settings also keep back jobs without burst buffer (`find_intruders`).

    While overdue jobs wait for space, all but the first of them are kept back, however many. Else smaller ones would
    take the space again and again.
    """
    intruders = {planned.job.number for planned in find_intruders(plan)} if settings.strict else set[str]()
    needy = [p for p in plan.planned if (p.space and not p.holds) or p.job.number in intruders]
    later = [planned for planned in needy if not planned.may_stage or not planned.space]
    overdue = [planned for planned in needy if planned.is_overdue]
    if overdue and settings.most:
        oldest = min(overdue, key=lambda planned: (planned.job.submit, int(planned.job.number)))
        return {planned.job.number for planned in later if planned is not oldest}
    first = 0 if len(later) < len(needy) else 1
    return {planned.job.number for planned in later[first : first + settings.most]}


def find_intruders(plan: Plan) -> list[PlannedJob]:
    """Return the jobs without burst buffer whose turn comes after that of a job that waits for space.

    Slurm reserves no nodes for a job that lacks space, and would give them to whatever fits.
    """
    waits = (planned.space > 0 and not planned.holds and planned.start > plan.at for planned in plan.planned)
    behind = accumulate(waits, or_)
    return [
        planned
        for planned, is_behind in zip(plan.planned, behind, strict=True)
        if is_behind and not planned.space and planned.start > plan.at
    ]


def order_priorities(planned: Sequence[PlannedJob], known: Book) -> dict[str, int]:
    """Return a nice value for each job such that the priorities fall along the plan.

    No priority falls below the job's own. Priorities that are in order already stay as they are.
    """
    jobs = [(p.job, known[p.job.number].own_nice if p.job.number in known else p.job.nice) for p in planned]
    for base in ([job.priority for job, _ in jobs], [job.priority - (own_nice - job.nice) for job, own_nice in jobs]):
        wanted = _descend(base)
        nices = {job.number: job.nice - (want - job.priority) for (job, _), want in zip(jobs, wanted, strict=True)}
        raises = [own_nice - nices[job.number] for job, own_nice in jobs]
        if max(wanted, default=0) < HIGHEST and max(raises, default=0) <= _LARGEST_RAISE:
            break
    return nices


def _descend(priorities: Sequence[int]) -> list[int]:
    """Raise priorities so that each is above the next one.

    >>> _descend([5, 9, 2, 2])
    [10, 9, 3, 2]
    """
    wanted = list(priorities)
    for at in range(len(wanted) - 2, -1, -1):
        wanted[at] = max(wanted[at], wanted[at + 1] + 1)
    return [min(priority, max(HIGHEST, before)) for priority, before in zip(wanted, priorities, strict=True)]


def format_command(before: Change, after: Change, nice: int, lease: float) -> str:
    """Return the line for scontrol that makes the change, "" if there is none. `nice` is what the job has now."""
    settings = []
    if after.nice != nice:
        settings.append(f"Nice={after.nice}")
    if after.kept != before.kept:
        settings.append(f"StartTime=now+{math.ceil(lease)}" if after.kept else "StartTime=now")
    return f"update JobId={after.number} {' '.join(settings)}" if settings else ""


def undo(book: Book) -> list[str]:
    """Return the commands that give all jobs back what they had."""
    undone = ((change, replace(change, nice=change.own_nice, kept=0.0)) for change in book.values())
    return [format_command(change, after, change.nice, lease=0.0) for change, after in undone]


def write_book(path: Path, book: Book) -> None:
    rows = ({"job": each.number, "own": each.own_nice, "nice": each.nice, "kept": each.kept} for each in book.values())
    write_file(path, "".join(json.dumps(row) + "\n" for row in rows), 0o600)


def read_book(path: Path) -> dict[str, Change]:
    """Read what an earlier planner left; {} if there is no file."""
    if not path.exists():
        return {}
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        changes = [
            Change(number=str(row["job"]), own_nice=int(row["own"]), nice=int(row["nice"]), kept=float(row["kept"]))
            for row in rows
        ]
    except (ValueError, TypeError, KeyError):
        reason = "is damaged; delete it: jobs that were kept back start by themselves when the lease ends"
        raise BadInput(str(path), reason) from None
    return {change.number: change for change in changes}
