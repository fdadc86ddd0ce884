"""Burst-buffer space on real disks: a storage policy places each job's bytes on the ledger, so that fragments count."""

from typing import NamedTuple

import numpy as np

from forebay.decide.policy import Policy
from forebay.decide.storage import request_placement as placing
from forebay.decide.storage.policies import number
from forebay.decide.storage.policy_memory import Turn, turn
from forebay.model.kernels import Array, hot_kernel
from forebay.model.ledger import Ledger, has_room, ledger, peak
from forebay.model.system import Disk, Node, Platform, Server

# What `claim` answers:
GRANTED, REFUSED, MORE_ROOM, MORE_PARTS, ASK_STORAGE = 100, 101, 102, 103, 104

HOLDING = np.dtype([*placing.PLACING, ("count", np.int64)])  # parts of each job; 0 while it holds none
RULES = np.dtype([("policy", np.int64), ("split", np.int64), ("real", np.bool_), ("parts", np.int64)])


class Space(NamedTuple):
    """The disks and what every job holds on them. Nothing is on disks unless `rules.real`."""

    ledger: Ledger
    turn: Turn
    parts: Array  # PARTs of all jobs so far
    holdings: Array  # one HOLDING for each job
    rules: Array  # one RULES record; `parts` is the number of parts so far


def new_space(platform: Platform | None, policy: Policy | None, jobs: int, *, split: int, seed: int) -> Space:
    """Return empty disks, or one pool without disks if there is no platform."""
    rules = np.zeros(1, RULES)
    if platform is not None and policy is not None:
        parts_of = split or min(disk.capacity for disk in platform.disks)
        rules[0] = (number(policy), parts_of, True, 0)
    else:
        disk = Disk(capacity=1, write_bandwidth=1.0, read_bandwidth=1.0)
        node = Node(name="", network_bandwidth=1.0, disks=(disk,))
        platform, jobs = Platform(name="", servers=(Server(name="", nodes=(node,)),)), 0
    disks = ledger(platform)
    return Space(disks, turn(disks, seed=seed), np.zeros(1024, placing.PART), np.zeros(jobs, HOLDING), rules)


def with_more_parts(space: Space) -> Space:
    """Return the same space with room for more parts."""
    more = np.zeros(space.parts.size + space.turn.share.size, placing.PART)
    return space._replace(parts=np.concatenate([space.parts, more]))


@hot_kernel
def claim(space: Space, row: int, size: int, start: float, end: float, duration: float) -> int:
    """Book a job's bytes from `start` to `end`. REFUSED if the disks have no room in the right places."""
    rules, at, disks = space.rules[0], space.holdings[np.uint64(row)], space.ledger
    if at.part == 0 and not at.answered:
        most = placing.most_parts(size, rules.split, rules.policy, space.turn.share.size)
        if rules.parts + most > space.parts.size:
            return MORE_PARTS
        if not has_room(disks, most):
            return MORE_ROOM
        disks.horizon[0] = start
    at.parts, at.start, at.end, at.duration = rules.parts, start, end, duration
    pieces = placing.place(disks, space.turn, space.parts, at, size, rules.policy, False, rules.split)
    if pieces == placing.ASK_POLICY:
        return ASK_STORAGE
    fits = placing.is_placed(at, pieces)
    for k in range(at.part if fits else 0):  # some policies do not check that every disk has room
        disk = space.parts[at.parts + k].disk
        most_bytes, _ = peak(disks, disk, start, end)
        fits = fits and most_bytes <= disks.disks[disk].capacity
    if not fits:
        placing.take_back(disks, space.parts, at)
        at.part = 0
        return REFUSED
    at.count = at.part
    rules.parts += at.part
    return GRANTED


@hot_kernel
def release_space(space: Space, row: int) -> None:
    """Give back what the job holds. Its parts stay on record."""
    at = space.holdings[np.uint64(row)]
    placing.take_back(space.ledger, space.parts, at)
    at.part = 0
