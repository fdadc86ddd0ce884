"""The heap of waiting requests."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forebay.decide.order.queue import new_queue
from forebay.decide.order.queue_layout import S_SERIAL
from forebay.decide.order.slots import address
from forebay.decide.order.waiting_requests import push, remove, smallest

SLOTS = 40


@given(st.integers(0, 2**32))
def test_the_smallest_is_first_whichever_were_taken_out(seed: int) -> None:
    chance = np.random.default_rng(seed)
    keys = chance.permutation(SLOTS) // 2
    q = new_queue("fifo", servers=1, slots=SLOTS, files=1, flows=1)
    for slot, key in enumerate(keys):
        q[address(slot) + S_SERIAL] = slot
        push(q, address(slot), key)
    removed = set(chance.permutation(SLOTS)[: SLOTS // 3].tolist())
    for slot in removed:
        remove(q, address(slot))
    for slot in sorted(set(range(SLOTS)) - removed, key=lambda slot: (keys[slot], slot)):
        assert smallest(q) == address(slot)
        remove(q, address(slot))
    assert smallest(q) == 0
