"""The annealed plan of Kopanski and Rzadca 2021: a start for every waiting job, from the best order of jobs found."""

import numpy as np

from forebay.decide.schedule.backfill import plan_holders, start_where_possible
from forebay.decide.schedule.memory import DEPTH, DUE, DURATIONS, KEYS, SPARE, WEIGHTS
from forebay.decide.schedule.profile import copy_profile, earliest_start_beside, project_ends, reserve
from forebay.decide.schedule.view import nothing_starts, soonest_start, start_at
from forebay.model.kernels import Array, hot_kernel
from forebay.model.random_numbers import draw

ORDERS, LAST = 10, 9  # orders to begin with; the last one is that of the last plan, with new jobs behind it
SWAPS = 189
COOLING, STEPS = 0.9, 31
_WARMTH = 0.1  # the first temperature, in the difference of the worst and the best order to begin with
_FINE = 1 << 30
_LATENESS = 0.2  # what a second after its due time costs, over a second of waiting of every job in the plan


@hot_kernel
def plan(view: Array, memory: Array, starts: Array) -> None:
    """Each job at the earliest time in the order with the least sum of waiting^alpha that annealing finds."""
    base = memory.profile
    if nothing_starts(view):
        return
    project_ends(view, base)
    if view.machine[0].holding > 0:
        plan_holders(view, base, starts, view.queue)
    count, behind = list_jobs(view, memory, -1)
    for k in range(count):
        memory.reals[DURATIONS, k] = view.jobs[np.uint64(memory.rows[2, k])].walltime
        memory.reals[WEIGHTS, k], memory.reals[SPARE, k], memory.reals[DUE, k] = 1.0, 0.0, np.inf
    plan_jobs(view, memory, starts, count, memory.options[0], SWAPS, False)
    start_where_possible(view, base, starts, behind)


@hot_kernel
def list_jobs(view: Array, memory: Array, planned: int) -> tuple[int, int]:
    """Write the jobs to plan, without `planned`, into `memory.rows[2]`; return how many, and where the others begin."""
    count, behind = 0, 0
    while behind < view.queue.size and count < DEPTH:
        row = view.queue[behind]
        behind += 1
        if row != planned and not view.jobs[np.uint64(row)].held:
            memory.rows[2][count] = row
            count += 1
    return count, behind


@hot_kernel
def plan_jobs(view: Array, memory: Array, starts: Array, count: int, alpha: float, changes: int, inserts: bool) -> None:
    """Plan the first `count` jobs of `memory.rows[2]` for their durations in the order with the least cost found.

    The cost is the sum of weight * waiting^alpha, and of what jobs that start after their due times add. Of `changes`
    of the order, each swaps two jobs; if it `inserts`, every second one moves a job to the place of another instead.
    """
    if count == 0:
        return
    jobs_to_plan, order, best, keys = memory.rows[2][:count], memory.rows[0], memory.rows[1], memory.reals[KEYS]
    least, worst = np.inf, 0.0
    for which in range(ORDERS):
        for k in range(count):
            job = view.jobs[np.uint64(jobs_to_plan[k])]
            length = memory.reals[DURATIONS, k] / memory.reals[WEIGHTS, k]
            keys[k] = _key(job, length, which) if which < LAST else _last_place(memory, job.id)
        sort_by(keys, order, count)
        cost = _cost(view, memory, jobs_to_plan, order, alpha, np.inf)
        worst = max(worst, cost)
        if cost < least:
            least = cost
            copy(order, best, count)
    if count > 1:
        copy(best, order, count)
        _anneal(view, memory, jobs_to_plan, alpha, least, worst, changes, inserts)
    memory.planned[0] = count
    for k in range(count):
        row = jobs_to_plan[best[k]]
        job = view.jobs[np.uint64(row)]
        memory.ids[k] = job.id
        duration, spare = memory.reals[DURATIONS, best[k]], memory.reals[SPARE, best[k]]
        start = earliest_start_beside(memory.profile, job, soonest_start(view, job), duration, spare)
        if start < np.inf:
            reserve(memory.profile, job, start, duration)
            start_at(starts, row, start)


@hot_kernel
def copy(source: Array, target: Array, count: int) -> None:
    """Copy the first `count` elements."""
    for k in range(count):
        target[k] = source[k]


@hot_kernel
def _key(job: Array, length: float, which: int) -> float:
    """Return what order number `which` sorts by; `length` is the duration over the weight."""
    if which == 0:
        return 0.0  # order of arrival
    if which <= 2:
        return length if which == 1 else -length
    if which <= 4:
        return float(job.nodes) if which == 3 else -float(job.nodes)
    if which <= 6:
        return float(job.bytes) if which == 5 else -float(job.bytes)
    return job.nodes * length if which == 7 else job.bytes / job.nodes  # type: ignore[no-any-return]


@hot_kernel
def _last_place(memory: Array, job: int) -> float:
    """Return the job's place in the last plan; inf for a new one."""
    for k in range(memory.planned[0]):
        if memory.ids[k] == job:
            return float(k)
    return np.inf


@hot_kernel
def sort_by(keys: Array, order: Array, count: int) -> None:
    """Write 0 to `count` - 1 into `order`, by key; ties by number. (A Shell sort: np.argsort would make an array.)"""
    for k in range(count):
        order[k] = k
    gap = count // 2
    while gap > 0:
        for k in range(gap, count):
            moved = order[k]
            key = keys[moved]
            at = k
            while at >= gap and (
                keys[order[at - gap]] > key or (keys[order[at - gap]] == key and order[at - gap] > moved)
            ):
                order[at] = order[at - gap]
                at -= gap
            order[at] = moved
        gap //= 2


@hot_kernel
def _anneal(
    view: Array,
    memory: Array,
    jobs_to_plan: Array,
    alpha: float,
    least: float,
    worst: float,
    changes: int,
    inserts: bool,
) -> None:
    """Change the order, and leave the best order seen in `memory.rows[1]`."""
    order, best, chance, count = memory.rows[0], memory.rows[1], memory.chance, jobs_to_plan.size
    temperature = _WARMTH * (worst - least if worst > least else least)
    present, changes_per_step = least, changes // STEPS
    for change in range(changes):
        first, second = draw(chance, count), draw(chance, count)
        luck = (draw(chance, _FINE) + 1.0) / _FINE
        moves = inserts and change % 2 == 1
        _change(order, first, second, moves)
        limit = present - temperature * np.log(luck)  # Metropolis: accepted below it
        cost = _cost(view, memory, jobs_to_plan, order, alpha, limit)
        if cost < limit:
            present = cost
            if cost < least:
                least = cost
                copy(order, best, count)
        else:
            _change(order, second, first, moves)
        if change % changes_per_step == changes_per_step - 1:
            temperature *= COOLING


@hot_kernel
def _change(order: Array, first: int, second: int, moves: bool) -> None:
    """Move the first job to the place of the second, or let them change places."""
    step = 1 if first < second else -1
    while moves and abs(second - first) > 1:
        order[first], order[first + step] = order[first + step], order[first]
        first += step
    order[first], order[second] = order[second], order[first]


@hot_kernel
def _cost(view: Array, memory: Array, jobs_to_plan: Array, order: Array, alpha: float, limit: float) -> float:
    """Return the cost of an order; inf as soon as it cannot stay below `limit`."""
    trial, durations, weights, due = memory.trial, memory.reals[DURATIONS], memory.reals[WEIGHTS], memory.reals[DUE]
    lateness = _LATENESS * jobs_to_plan.size
    copy_profile(memory.profile, trial)
    total = 0.0  # with every job that has no start yet at its soonest one
    for k in range(jobs_to_plan.size):
        job = view.jobs[np.uint64(jobs_to_plan[k])]
        total += weights[k] * _raise(soonest_start(view, job) - job.submit, alpha)
    for k in range(jobs_to_plan.size):
        at = order[k]
        job = view.jobs[np.uint64(jobs_to_plan[at])]
        soonest = soonest_start(view, job)
        start = earliest_start_beside(trial, job, soonest, durations[at], memory.reals[SPARE, at])
        if start == np.inf:  # in every order: it needs more nodes or bytes than there are at any time
            continue
        total += weights[at] * (_raise(start - job.submit, alpha) - _raise(soonest - job.submit, alpha))
        total += lateness * max(start - due[at], 0.0)
        if total >= limit:
            return np.inf
        reserve(trial, job, start, durations[at])
    return total


@hot_kernel
def _raise(wait: float, alpha: float) -> float:
    if alpha == 1.0:
        return wait
    return wait * wait if alpha == 2.0 else wait**alpha
