"""The memory of a storage policy between requests."""

from typing import NamedTuple

import numpy as np

from forebay.model.kernels import Array, kernel
from forebay.model.ledger import Ledger
from forebay.model.random_numbers import draw, seed_state

REFUSED = -1

TURN = np.dtype(
    [
        ("server", np.int64),  # probes so far
        ("node", np.int64),  # rounds over all servers so far
        ("failed", np.int64),  # failed probes since the last refusal
        ("current", np.int64),  # the disk that is being filled
        ("letter", np.bool_),  # reproduce StorAlloc's errors
    ]
)


class Turn(NamedTuple):
    """Everything that a policy may change."""

    state: Array  # one TURN record
    disk: Array  # probes of every node
    chance: Array
    # Scratch, one number for each disk:
    score: Array
    taken: Array  # bytes booked
    others: Array  # number of bookings
    shared: Array  # seconds of overlap with the longest of them
    share: Array  # bytes to hold, for policies that split requests themselves


def turn(ledger: Ledger, *, seed: int, letter: bool = False) -> Turn:
    state = np.zeros(1, dtype=TURN)
    state["node"], state["letter"] = -1, letter
    probed = np.zeros(ledger.nodes.size, dtype=np.int64)
    disks = ledger.disks.size
    reals = [np.zeros(disks) for _ in range(2)]
    wholes = [np.zeros(disks, dtype=np.int64) for _ in range(3)]
    return Turn(state, probed, seed_state(seed), reals[0], wholes[0], wholes[1], reals[1], wholes[2])


@kernel
def any_best(turn: Array, first_twice: bool) -> int:
    """Draw a disk with the highest score, or return REFUSED; `first_twice` doubles the chance of the first."""
    score = turn.score
    best = score.max()
    if best == -np.inf:
        return REFUSED
    ties = 0
    for disk in range(score.size):
        ties += score[disk] == best
    lots = ties + first_twice
    drawn = draw(turn.chance, lots) - first_twice if lots > 1 else 0
    for disk in range(score.size):
        if score[disk] == best:
            if drawn <= 0:
                return disk
            drawn -= 1
    return REFUSED
