"""One thread at a time reads the kernel's requests."""

import os
import threading
from pathlib import Path

from forebay.act.forward.clients.sync import Client
from forebay.act.forward.mount.turns import Turn
from support.forward import KEY
from support.forward_nodes import node_thread
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


def test_a_client_says_before_it_waits_for_an_answer(tmp_path: Path) -> None:
    waits: list[str] = []
    with node_thread(tmp_path) as layer:
        node = layer.node(layer.serve(1))
        with Client(node.addresses, KEY) as client:
            client.before_wait = lambda: waits.append(threading.current_thread().name)
            file = client.open("/a", os.O_CREAT | os.O_WRONLY)
            assert len(waits) == 1
            file.pwrite(b"x", 0)
            assert len(waits) == 2
            file.close()
            assert len(waits) == 3
            client.locks.renew()
            client._lease_socket.close()
            assert len(waits) == 4
