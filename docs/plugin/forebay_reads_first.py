"""A request scheduler in a package of its own."""

from forebay.decide.order.queue_layout import NONE
from forebay.decide.order.slots import after, first, is_write
from forebay.decide.policy import order
from forebay.model.kernels import kernel


@order("reads-first", source="an example", options={"patience": 64})
@kernel
def reads_first(queue, now):
    """The oldest read; where none waits, the oldest write."""
    slot = first(queue)
    while slot != NONE and is_write(queue, slot):
        slot = after(queue, slot)
    return first(queue) if slot == NONE else slot
