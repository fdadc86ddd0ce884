"""The built-in request schedulers, and kernels that dispatch to them."""

from forebay.decide.order import queue_layout as w
from forebay.decide.order.slots import first, slot_at
from forebay.decide.order.waiting_requests import append, push, remove, smallest, unlink
from forebay.decide.policy import Policy, order
from forebay.model.kernels import Array, hot_kernel

_MESSAGE = 1 << 20  # bytes of a message, for schedulers that aggregate by default
_WINDOW = {"window": 1_000_000, "aggregate": 0}
_PAPER = "Bez et al. 2019"
_AGIOS = "Boito et al. 2013 (AGIOS)"
LEAST_COST = 4096  # bytes: the least cost of a request, however small
MOST_COST = 1 << 30
_FRACTION = 4  # bits of virtual time below a byte, so that weights divide well
TOP_LEVEL = 6  # of mlf: 64 times the quantum


@hot_kernel
def fifo(q: Array, now: int) -> int:  # noqa: ARG001
    """Requests in the order of arrival."""
    return first(q)


@hot_kernel
def to_agg(q: Array, now: int) -> int:  # noqa: ARG001
    """Requests in the order of arrival, each with those that continue where it ends."""
    return first(q)


@hot_kernel
def sjf(q: Array, now: int) -> int:  # noqa: ARG001
    """The smallest request first; at most `patience` later requests overtake one."""
    return slot_at(smallest(q))


# Self-clocked fair queueing (Golestani 1994): virtual time is the finish time of the request sent last.
@hot_kernel
def wfq(q: Array, now: int) -> int:  # noqa: ARG001
    """Flows (jobs, clients) share bandwidth in proportion to their weights."""
    at = smallest(q)
    q[w.VIRTUAL] = q[at + w.S_KEY]
    return slot_at(at)


@hot_kernel
def _finish(q: Array, at: int) -> int:
    """Return the virtual finish time of a request; the flow's next request begins there."""
    flow = q[w.FLOWS_AT] + (q[at + w.S_FLOW] << w.FLOW_SHIFT)
    begin = q[w.VIRTUAL]
    if q[flow + w.F_EPOCH] == q[w.EPOCH]:
        begin = max(begin, q[flow + w.F_FINISH])
    cost = min(max(q[at + w.S_SIZE], LEAST_COST), MOST_COST) << _FRACTION
    finish = begin + cost // max(q[flow + w.F_WEIGHT], 1)
    q[flow + w.F_FINISH], q[flow + w.F_EPOCH] = finish, q[w.EPOCH]
    return finish  # type: ignore[no-any-return]


@hot_kernel
def begin_virtual_time(q: Array) -> None:
    """Restart virtual time for all flows, in O(1)."""
    q[w.VIRTUAL] = 0
    q[w.EPOCH] += 1


@hot_kernel
def hbrr(q: Array, now: int) -> int:  # noqa: ARG001
    """Files take turns of `quantum` messages each; contiguous requests are one message."""
    return _next(q, 0)


@hot_kernel
def mlf(q: Array, now: int) -> int:  # noqa: ARG001
    """Files take turns; a file that uses up its turn gets twice as long a turn, up to 64 times."""
    return _next(q, TOP_LEVEL)


@hot_kernel
def _next(q: Array, top: int) -> int:
    file = q[w.CURRENT]
    if q[file + w.G_TURN] <= 0:
        q[file + w.G_LEVEL] = min(q[file + w.G_LEVEL] + 1, top)
        file = q[file + w.G_NEXT]
        _begin_turn(q, file)
    q[file + w.G_TURN] -= 1
    return slot_at(q[file + w.G_FIRST])


@hot_kernel
def _begin_turn(q: Array, file: int) -> None:
    q[w.CURRENT] = file
    q[file + w.G_TURN] = q[w.QUANTUM] << q[file + w.G_LEVEL]


@hot_kernel
def enter_file(q: Array, at: int) -> None:
    """Add a request to its file; a file that had none joins the ring last."""
    file = q[w.FILES_AT] + (q[at + w.S_FILE] << w.GROUP_SHIFT)
    if not append(q, file, w.S_GROUP_NEXT, at):
        return
    q[file + w.G_LEVEL] = 0
    current = q[w.CURRENT]
    if current == 0:
        q[file + w.G_NEXT] = q[file + w.G_PREVIOUS] = file
        _begin_turn(q, file)
        return
    last = q[current + w.G_PREVIOUS]
    q[file + w.G_PREVIOUS], q[file + w.G_NEXT] = last, current
    q[last + w.G_NEXT] = q[current + w.G_PREVIOUS] = file


@hot_kernel
def leave_file(q: Array, at: int) -> None:
    """Remove a request from its file; a file without requests leaves the ring."""
    file = q[w.FILES_AT] + (q[at + w.S_FILE] << w.GROUP_SHIFT)
    if not unlink(q, file, w.S_GROUP_NEXT, at):
        return
    before, behind = q[file + w.G_PREVIOUS], q[file + w.G_NEXT]
    if behind == file:
        q[w.CURRENT] = 0
        return
    q[before + w.G_NEXT], q[behind + w.G_PREVIOUS] = behind, before
    if q[w.CURRENT] == file:
        _begin_turn(q, behind)


# Bez et al. 2019, section 2. Windows divide absolute time, so that nodes with equal clocks change together. The node's
# number shifts its servers: if there are at least as many servers as nodes, no two nodes use the same server.
@hot_kernel
def twins(q: Array, now: int) -> int:
    """One server per window of time, in turn; waits if the current server has no requests."""
    if q[w.WINDOW] == 0:
        return first(q)
    at = q[_current(q, now) + w.G_FIRST]
    if at == 0:
        q[w.WAKE] = q[w.WINDOW_END] + q[w.WINDOW] * _count_idle_servers(q)
    return slot_at(at)


@hot_kernel
def twins_work_conserving(q: Array, now: int) -> int:
    """Like twins, but skips servers that have no requests."""
    if q[w.WINDOW] == 0:
        return first(q)
    at = q[_current(q, now) + w.G_FIRST]
    if at == 0:
        ahead = 1 + _count_idle_servers(q)
        server = (q[w.WINDOW_SERVER] + ahead) % q[w.SERVERS]
        at = q[server_record(q, server) + w.G_FIRST]
    return slot_at(at)


@hot_kernel
def _current(q: Array, now: int) -> int:
    """Return the record of the current window's server; divides only when a window ends."""
    if now < q[w.WINDOW_BEGIN] or now >= q[w.WINDOW_END]:
        window = q[w.WINDOW]
        turn = now // window
        q[w.WINDOW_BEGIN] = turn * window
        q[w.WINDOW_END] = turn * window + window
        q[w.WINDOW_SERVER] = (turn + q[w.NODE]) % q[w.SERVERS]
    return server_record(q, q[w.WINDOW_SERVER])


@hot_kernel
def _count_idle_servers(q: Array) -> int:
    """Count the servers without requests between the current one and the next that has some."""
    servers, server = q[w.SERVERS], q[w.WINDOW_SERVER]
    for skipped in range(servers):
        server += 1
        if server == servers:
            server = 0
        if q[server_record(q, server) + w.G_FIRST]:
            return skipped
    return w.NONE  # unreachable while requests wait


@hot_kernel
def server_record(q: Array, server: int) -> int:
    """Return the record of a server, which begins with the head of its list."""
    return q[w.SERVERS_AT] + (server << w.GROUP_SHIFT)  # type: ignore[no-any-return]


ORDERS = (
    order("fifo", keeps_file_order=True, patient=False, source="textbook", options={"aggregate": 0})(fifo),
    order("sjf", source=_AGIOS, options={"patience": 256, "aggregate": 0})(sjf),
    order("hbrr", patient=False, source="Ohta et al. 2010", options={"quantum": 8, "aggregate": _MESSAGE})(hbrr),
    order("to-agg", patient=False, source=_AGIOS, options={"aggregate": _MESSAGE})(to_agg),
    order("mlf", keeps_file_order=True, patient=False, source=_AGIOS, options={"quantum": 8, "aggregate": 0})(mlf),
    order("wfq", patient=False, source="Golestani 1994", options={"aggregate": 0})(wfq),
    order("twins", keeps_file_order=True, patient=False, source=_PAPER, options=_WINDOW)(twins),
    order(
        "twins-work-conserving",
        keeps_file_order=True,
        patient=False,
        source=f"{_PAPER}, without waiting",
        options=_WINDOW,
    )(twins_work_conserving),
)


def number(policy: Policy) -> int:
    """Return the scheduler's number for the kernels, whatever its options are; OTHER if it is not built in."""
    return next((at for at, built_in in enumerate(ORDERS) if built_in.decide is policy.decide), w.OTHER)


# Numba cannot cache a function that takes another function as an argument, so schedulers have numbers.
@hot_kernel
def pick(q: Array, now: int) -> int:
    """Return the slot that the queue's scheduler sends next, or NONE."""
    scheduler = q[w.SCHEDULER]
    if scheduler in (w.TWINS, w.TWINS_WORK_CONSERVING):
        return twins(q, now) if scheduler == w.TWINS else twins_work_conserving(q, now)
    if scheduler in (w.HBRR, w.MLF):
        return hbrr(q, now) if scheduler == w.HBRR else mlf(q, now)
    if scheduler in (w.SJF, w.WFQ):
        return sjf(q, now) if scheduler == w.SJF else wfq(q, now)
    return first(q)  # fifo, to-agg, and schedulers of other packages


@hot_kernel
def enter(q: Array, at: int) -> None:
    """Add a request to the lists or the heap of the scheduler."""
    scheduler = q[w.SCHEDULER]
    if scheduler in (w.TWINS, w.TWINS_WORK_CONSERVING):
        append(q, server_record(q, q[at + w.S_SERVER]), w.S_GROUP_NEXT, at)
    elif scheduler in (w.HBRR, w.MLF):
        enter_file(q, at)
    elif scheduler in (w.SJF, w.WFQ):
        push(q, at, q[at + w.S_SIZE] if scheduler == w.SJF else _finish(q, at))


@hot_kernel
def leave(q: Array, at: int) -> None:
    """Undo `enter` for a request that stops waiting."""
    scheduler = q[w.SCHEDULER]
    if scheduler in (w.SJF, w.WFQ):
        remove(q, at)
        if q[w.HEAPED] == 0:  # no flow is owed anything
            begin_virtual_time(q)
    elif scheduler in (w.HBRR, w.MLF):
        leave_file(q, at)
    elif scheduler in (w.TWINS, w.TWINS_WORK_CONSERVING):
        unlink(q, server_record(q, q[at + w.S_SERVER]), w.S_GROUP_NEXT, at)
