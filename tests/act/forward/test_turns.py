"""One thread at a time reads the kernel's requests."""

import threading

from forebay.act.forward.mount.turns import Turn
from support.processes import PATIENCE


def test_a_thread_keeps_its_turn_until_it_passes_it_on() -> None:
    turn, taken, may_end = Turn(), threading.Event(), threading.Event()

    def take() -> None:
        turn.take()
        taken.set()
        may_end.wait(PATIENCE)
        turn.pass_on()

    turn.take()
    turn.take()
    other = threading.Thread(target=take)
    other.start()
    assert not taken.is_set()
    turn.pass_on()
    assert taken.wait(PATIENCE)
    turn.pass_on()  # it is not this thread's turn any more
    assert turn._lock.locked()
    may_end.set()
    turn.take()
    other.join(PATIENCE)
    assert not other.is_alive()
