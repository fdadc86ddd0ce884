"""The memory of a scheduling policy between its calls."""

from typing import NamedTuple

import numpy as np

from forebay.decide.policy import Policy
from forebay.decide.schedule.profile import Profile, new_profile
from forebay.model.kernels import Array
from forebay.model.random_numbers import seed_state

SLOTS = 64
KEYS, DURATIONS, WEIGHTS, SPARE, DUE = 0, 1, 2, 3, 4  # what plans keep in `reals`
WIDEST = 16  # jobs for which there is always room
DEPTH = 1000
"""Jobs that a policy plans at most; those behind them only start where they fit."""


class Memory(NamedTuple):
    """Everything that a policy may change. All policies have the same, as numba caches one type better than many."""

    options: Array  # the policy's options, in the order of their declaration
    chance: Array
    state: Array  # SLOTS numbers, for whatever the policy counts
    ids: Array  # jobs of the last plan, in its order
    times: Array  # their starts
    planned: Array  # [number of them]
    # Scratch:
    profile: Profile
    trial: Profile
    rows: Array  # three lists of rows
    reals: Array  # five lists of numbers


def new_memory(policy: Policy, *, seed: int, capacity: int) -> Memory:
    """Return the memory of a policy that sees at most `capacity` jobs at once, waiting and running."""
    options = np.array([float(str(value)) for value in policy.options.values()])
    whole, capacity = np.int64, max(capacity, 2 * WIDEST)
    # A running job makes two steps, a reservation four, and one that is undone and made again eight.
    steps = 4 * capacity + 8 * min(capacity, DEPTH) + 2
    return Memory(
        options=options,
        chance=seed_state(seed),
        state=np.zeros(SLOTS),
        ids=np.zeros(capacity, whole),
        times=np.zeros(capacity),
        planned=np.zeros(1, whole),
        profile=new_profile(steps),
        trial=new_profile(steps),
        rows=np.zeros((3, capacity), whole),
        reals=np.zeros((5, capacity)),
    )


def with_room(memory: Memory, policy: Policy, capacity: int) -> Memory:
    """Return the same memory with room for more jobs."""
    larger = new_memory(policy, seed=0, capacity=capacity)
    larger.ids[: memory.ids.size], larger.times[: memory.times.size] = memory.ids, memory.times
    return larger._replace(chance=memory.chance, state=memory.state, planned=memory.planned)
