"""One run: applies a policy to requests on a platform, and records the fate of every request and disk."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.decide.storage.policies import number
from forebay.decide.storage.policy_memory import REFUSED, turn
from forebay.decide.storage.request_placement import PART
from forebay.model.errors import PolicyError
from forebay.model.kernels import Array
from forebay.model.ledger import Ledger, ledger, widen
from forebay.model.space_requests import Requests
from forebay.model.system import Platform
from forebay.simulate.sharing import with_more_seats
from forebay.simulate.storage import plan as planning
from forebay.simulate.storage.feedback import advance, jobs, schedule_starts
from forebay.simulate.storage.rules import DAY, Feedback, Rules
from forebay.simulate.storage.usage import Usage, replay, usage

if TYPE_CHECKING:
    from forebay.decide.storage.optimal import Bound

REQUESTS_PER_SLICE = 200_000  # Ctrl-C takes effect between slices


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The results: the VERDICT, PARTs and end of every request, and the usage of every disk and node."""

    platform: Platform
    requests: Requests
    policy: str
    rules: Rules
    feedback: Feedback | None
    seed: int
    verdicts: NDArray[np.void]
    parts: NDArray[np.void]
    ends: NDArray[np.float64]
    disks: NDArray[np.void]
    nodes: NDArray[np.void]
    total: NDArray[np.void]


def sizes_of(run: Run) -> Array:
    """Return the size of each request; StorAlloc rounds every part up to whole gigabytes."""
    if not run.rules.letter:
        return run.requests.bytes
    size: NDArray[np.int64] = run.parts["bytes"]
    first: NDArray[np.int64] = run.verdicts["first"]
    return np.add.reduceat(size, first) if size.size else run.requests.bytes


def can_be_split(run: Run) -> Array:
    """Select the requests that may be split; `forebay` can still choose a single part."""
    return (run.rules.split > 0) & (run.requests.bytes > run.rules.split)


def run_storage(
    platform: Platform,
    requests: Requests,
    policy: Policy,
    rules: Rules,
    *,
    feedback: Feedback | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Decide every request in the order of arrival, and hold the granted space."""
    rules.check(requests)
    if policy.prepares:
        policy = replace(policy, decide=policy.decide(platform))
    planned = 0.0 if feedback is None else expected_io(platform, requests, rules)
    session = _Session(
        ledger(platform), policy, rules, rules.asks(requests, planned), seed, progress or (lambda _: None)
    )
    use = usage(session.ledger)
    if feedback is None:
        session.decide_until(len(requests))
        ends = session.plan.verdicts["start"] + (requests.duration % DAY if rules.letter else requests.duration)
        granted = np.flatnonzero(session.plan.verdicts["state"] == planning.GRANTED)
        by_start = granted[np.argsort(session.plan.verdicts["start"][granted], kind="stable")]
        by_end = by_start[np.argsort(ends[by_start], kind="stable")]
        replay(session.ledger, use, session.plan, by_start, by_end, ends, rules.letter)
    else:
        ends = _run_with_feedback(session, use, feedback, requests.volume)
    return Run(
        platform=platform,
        requests=requests,
        policy=policy.name,
        rules=rules,
        feedback=feedback,
        seed=seed,
        verdicts=session.plan.verdicts,
        parts=session.plan.parts[: session.plan.cursor["parts"][0]],
        ends=ends,
        disks=use.disks,
        nodes=use.nodes,
        total=use.total[0],
    )


def expected_io(platform: Platform, requests: Requests, rules: Rules) -> NDArray[np.float64]:
    """Return the planned I/O seconds of each request: alone, with one median disk per part."""
    usual = float(np.median([disk.write_bandwidth for disk in platform.disks]))
    parts = np.ceil(requests.bytes / rules.split) if rules.split else np.ones(len(requests))
    seconds: NDArray[np.float64] = requests.volume / (np.minimum(parts, len(platform.disks)) * usual)
    return seconds


class _Session:
    """Decides requests in sequence, and enlarges the ledger and the plan when needed."""

    def __init__(
        self, space: Ledger, policy: Policy, rules: Rules, asks: Array, seed: int, progress: Callable[[float], None]
    ) -> None:
        self.ledger, self.asks = space, asks
        self.plan = planning.Plan(
            verdicts=np.zeros(len(asks), dtype=planning.VERDICT),
            parts=np.zeros(len(asks) + len(asks) // 2 + 1000, dtype=PART),
            cursor=np.zeros(1, dtype=planning.CURSOR),
        )
        self._turn = turn(space, seed=seed, letter=rules.letter)
        self._policy, self._progress = policy, progress
        self._switches = (number(policy), rules.letter, rules.split, rules.tries, rules.interval)

    def decide_until(self, last: int) -> None:
        """Decide all requests before number `last`."""
        cursor = self.plan.cursor[0]
        while cursor["request"] < last:
            until = min(last, int(cursor["request"]) + REQUESTS_PER_SLICE)
            wanted = planning.decide(self.ledger, self._turn, self.asks, until, self.plan, *self._switches)
            if wanted == planning.MORE_ROOM:
                self.ledger = widen(self.ledger)
            elif wanted == planning.MORE_PARTS:
                more = np.zeros(self.plan.parts.size + self._turn.share.size, dtype=PART)
                self.plan = self.plan._replace(parts=np.concatenate([self.plan.parts, more]))
            elif wanted == planning.ANSWER:
                cursor["answer"], cursor["answered"] = self._ask_policy(cursor), True
            self._progress(int(cursor["request"]))

    def _ask_policy(self, cursor: Array) -> int:
        size, start, end, duration = (cursor[name].item() for name in ("size", "start", "end", "duration"))
        disk = self._policy.decide(self.ledger, size, start, end, duration, self._turn)
        disks = self.ledger.disks.size
        if not isinstance(disk, int | np.integer) or not REFUSED <= disk < disks:
            raise PolicyError(f"{self._policy.name}: returns disk {disk!r}; expected 0 to {disks - 1}, or {REFUSED}")
        return int(disk)


def _run_with_feedback(session: _Session, use: Usage, feedback: Feedback, volumes: Array) -> NDArray[np.float64]:
    """Decide each request as late as the order of arrival allows. Return the end of every job."""
    horizons = session.asks["horizon"]
    state = jobs(session.ledger, volumes, feedback.pfs)
    decided = 0
    while True:
        now = horizons[decided] if decided < horizons.size else np.inf
        wanted = advance(state, session.ledger, use, session.plan, session.asks, feedback.phases, now)
        if wanted == planning.MORE_ROOM:
            session.ledger = widen(session.ledger)
        elif wanted == planning.MORE_SEATS:
            state = state._replace(flows=with_more_seats(state.flows))
        elif decided == horizons.size:
            ends: NDArray[np.float64] = state.jobs["end"].copy()
            return ends
        else:
            last = int(np.searchsorted(horizons, now, side="right"))
            session.decide_until(last)
            schedule_starts(state, session.plan, decided, last)
            decided = last


def bound_of(platform: Platform, requests: Requests, rules: Rules) -> Bound:
    """Return an upper bound for all policies under the correct rules."""
    from forebay.decide.storage.optimal import upper_bound  # needs SciPy

    with _discard_output():
        return upper_bound(platform, requests, split=rules.split, longest_delay=rules.tries * rules.interval)


@contextmanager
def _discard_output() -> Iterator[None]:
    """Discard standard output: the solver sometimes prints a line in spite of its options (HiGHS.jl issue 312)."""
    c = ctypes.CDLL(None)
    c.fflush(None)
    try:
        kept = os.dup(1)
    except OSError:  # standard output is closed
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        yield
    finally:
        c.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
