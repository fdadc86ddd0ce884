"""One run: requests, a platform and a policy in; what became of every request and disk out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forebay.decide.policy import Policy
from forebay.decide.storage.policies import number
from forebay.decide.storage.policy_memory import REFUSED, Turn, turn
from forebay.model.errors import PolicyError
from forebay.model.ledger import Ledger, ledger, widen
from forebay.model.request import Requests
from forebay.model.system import Platform
from forebay.simulate.storage.feedback import MORE_ROOM as NEEDS_ROOM
from forebay.simulate.storage.feedback import MORE_SEATS as NEEDS_SEATS
from forebay.simulate.storage.feedback import advance, expect, jobs, with_seats
from forebay.simulate.storage.plan import ANSWER, CURSOR, MORE_PARTS, MORE_ROOM, PART, VERDICT, Plan, decide
from forebay.simulate.storage.rules import DAY, Feedback, Rules
from forebay.simulate.storage.usage import Usage, in_time, replay, usage

REQUESTS_PER_SLICE = 200_000  # between slices Ctrl-C is heard


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came out. `verdicts` has a VERDICT for each request, `parts` a PART for each part of each of them,
    `ends` the time at which a request that was served let go of its space.
    """

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
    """Decide every request in the order in which they ask, and let them hold what they were granted.

    `progress` is told how many requests have been decided.
    """
    rules.check(requests)
    space = ledger(platform)
    state = turn(space, seed=seed, letter=rules.letter)
    if policy.prepares:
        policy = replace(policy, decide=policy.decide(platform))
    planned = 0.0 if feedback is None else expected_io(platform, requests, rules)
    session = _Session(space, state, policy, rules, requests, planned, progress)
    use = usage(space)
    if feedback is None:
        session.decide_until(len(requests))
        held = requests.duration % DAY if rules.letter else requests.duration
        by_start, by_end, ends = in_time(session.plan, held)
        replay(session.ledger, use, session.plan, by_start, by_end, ends, rules.letter)
    else:
        ends = _with_feedback(session, use, feedback)
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
    """Seconds of I/O to plan with for each request: what it takes alone, on as many usual disks as it has parts."""
    usual = float(np.median([disk.write_bandwidth for disk in platform.disks]))
    parts = np.ceil(requests.bytes / rules.split) if rules.split else np.ones(len(requests))
    seconds: NDArray[np.float64] = requests.volume / (np.minimum(parts, len(platform.disks)) * usual)
    return seconds


class _Session:
    """Requests being decided one after the other: the ledger and the plan grow on the way."""

    def __init__(
        self,
        space: Ledger,
        state: Turn,
        policy: Policy,
        rules: Rules,
        requests: Requests,
        io_seconds: Any,
        progress: Callable[[float], None] | None,
    ) -> None:
        self.ledger = space
        self.asks = rules.asks(requests, io_seconds)
        self.volumes = requests.volume
        self.plan = Plan(
            verdicts=np.zeros(len(requests), dtype=VERDICT),
            parts=np.zeros(len(requests) + len(requests) // 2 + 1000, dtype=PART),
            cursor=np.zeros(1, dtype=CURSOR),
        )
        self._turn, self._policy, self._number = state, policy, number(policy)
        self._rules = rules
        self._progress = progress or (lambda _: None)

    def widen(self) -> None:
        self.ledger = widen(self.ledger)

    def decide_until(self, last: int) -> None:
        """Decide all requests before number `last`."""
        cursor, rules = self.plan.cursor[0], self._rules
        while cursor["request"] < last:
            until = min(last, int(cursor["request"]) + REQUESTS_PER_SLICE)
            switches = (rules.letter, rules.split, rules.tries, rules.interval)
            wanted = decide(self.ledger, self._turn, self.asks, until, self.plan, self._number, *switches)
            if wanted == MORE_ROOM:
                self.widen()
            elif wanted == MORE_PARTS:
                more = np.zeros(self.plan.parts.size + self._turn.share.size, dtype=PART)
                self.plan = self.plan._replace(parts=np.concatenate([self.plan.parts, more]))
            elif wanted == ANSWER:
                cursor["answer"], cursor["answered"] = self._ask_policy(cursor), True
            self._progress(int(cursor["request"]))

    def _ask_policy(self, cursor: Any) -> int:
        """What somebody else's policy says."""
        size, start, end, duration = (cursor[name].item() for name in ("size", "start", "end", "duration"))
        disk = self._policy.decide(self.ledger, size, start, end, duration, self._turn)
        disks = self.ledger.disks.size
        if not isinstance(disk, int | np.integer) or not REFUSED <= disk < disks:
            raise PolicyError(f"{self._policy.name}: answers disk {disk!r}; there are 0 to {disks - 1}, or {REFUSED}")
        return int(disk)


def _with_feedback(session: _Session, use: Usage, feedback: Feedback) -> NDArray[np.float64]:
    """Decide each request as late as their order allows, with all that has happened until then; returns the ends."""
    horizons = session.asks["horizon"]
    state = jobs(session.ledger, session.volumes, feedback.pfs)
    decided = 0
    while True:
        now = horizons[decided] if decided < horizons.size else np.inf
        wanted = advance(state, session.ledger, use, session.plan, session.asks, feedback.phases, now)
        if wanted == NEEDS_ROOM:
            session.widen()
        elif wanted == NEEDS_SEATS:
            state = with_seats(state)
        elif decided == horizons.size:
            ends: NDArray[np.float64] = state.jobs["end"].copy()
            return ends
        else:
            last = int(np.searchsorted(horizons, now, side="right"))
            session.decide_until(last)
            expect(state, session.plan, decided, last)
            decided = last
