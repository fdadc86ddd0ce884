"""Have all kernels of an I/O node compiled before the first request comes."""

from __future__ import annotations

import numpy as np

from forebay.act.forward.net.auth import Peer
from forebay.act.forward.node.job_accounting import Jobs
from forebay.decide.order.queue import arrive, depth, done, drop, follower, new_queue, take
from forebay.model.layout import Layout
from forebay.profile.request_watch import end_period, finish, forget, new_watch, observe


def warm() -> None:
    """Seconds on the first start after an installation, a moment on all others."""
    q = new_queue("fifo", servers=1, slots=2, files=2, flows=2)
    slot = arrive(q, 1, 0, 0, 0, 0, 1, 1)
    drop(q, arrive(q, 1, 0, 0, 0, 1, 1, 1))
    follower(q, take(q, 1))
    done(q, slot)
    depth(q, 0)
    watch = new_watch(2, 1)
    observe(watch, 1, 0, 0, 1, 1)
    finish(watch, 1)
    forget(watch, 0)
    end_period(watch, 2)
    client = Jobs("warm").enter(Peer(role="client"), 1)
    client.opened(0, 1, Layout(count=1), b"")
    client.began(1, 0, 0, 1, 1)
    client.ended(2, 1, 1)
    assert isinstance(q, np.ndarray)
