"""The built-in request schedulers, and kernels that are any of them."""

from forebay.decide.order import queue_layout as w
from forebay.decide.order.slots import first, slot_at
from forebay.decide.order.waiting_requests import append, push, remove, smallest, unlink
from forebay.decide.policy import Policy, order
from forebay.model.kernels import Array, hot_kernel

_MESSAGE = 1 << 20  # bytes of an aggregate, where aggregating is what a scheduler is about
_WINDOW = {"window": 1_000_000, "aggregate": 0}
_PAPER = "Bez et al. 2019"
_AGIOS = "Boito et al. 2013 (AGIOS)"
LEAST_COST = 4096  # bytes: what a request costs a server at least, however small it is
MOST_COST = 1 << 30
_FRACTION = 4  # bits of virtual time below a byte, for the weights to divide
TOP_LEVEL = 6  # of mlf: 64 times the quantum


@hot_kernel
def fifo(q: Array, now: int) -> int:  # noqa: ARG001
    """In the order of arrival."""
    return first(q)


@hot_kernel
def to_agg(q: Array, now: int) -> int:  # noqa: ARG001
    """In the order of arrival, and whatever goes on where a request ends goes with it."""
    return first(q)


@hot_kernel
def sjf(q: Array, now: int) -> int:  # noqa: ARG001
    """The smallest request first, but none is overtaken by more than `patience` later ones."""
    return slot_at(smallest(q))


# Self-clocked fair queueing (Golestani 1994): virtual time is the finish of the request that was sent last.
@hot_kernel
def wfq(q: Array, now: int) -> int:  # noqa: ARG001
    """Flows (jobs, clients) share the bytes sent in proportion to their weights."""
    at = smallest(q)
    q[w.VIRTUAL] = q[at + w.S_KEY]
    return slot_at(at)


@hot_kernel
def _finish(q: Array, at: int) -> int:
    """The virtual time at which a request's flow will have had its share; the flow's next one begins there."""
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
    """Forget what each flow had, in O(1)."""
    q[w.VIRTUAL] = 0
    q[w.EPOCH] += 1


@hot_kernel
def hbrr(q: Array, now: int) -> int:  # noqa: ARG001
    """Files take turns of `quantum` messages each; contiguous requests are one message."""
    return _next(q, 0)


@hot_kernel
def mlf(q: Array, now: int) -> int:  # noqa: ARG001
    """Files take turns; the turn doubles, up to 64-fold, each time that it was not enough."""
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
    """A request joins those of its file; a file that had none joins the ring as the last to have its turn."""
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
    """A request leaves those of its file; a file that has no more leaves the ring."""
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


# Bez et al. 2019, section 2. Windows are cut from absolute time, so that nodes whose clocks agree change together,
# and the node's number is its translation rule: as long as there are at least as many servers as nodes, no two
# nodes are on the same server.
@hot_kernel
def twins(q: Array, now: int) -> int:
    """One server for a window of time, then the next; waits where the current server has no requests."""
    at = q[_current(q, now) + w.G_FIRST]
    if at == 0:
        q[w.WAKE] = q[w.WINDOW_END] + q[w.WINDOW] * _count_idle_servers(q)
    return slot_at(at)


@hot_kernel
def twins_work_conserving(q: Array, now: int) -> int:
    """Like twins, but where the current server has no requests the next one that has some is served."""
    at = q[_current(q, now) + w.G_FIRST]
    if at == 0:
        ahead = 1 + _count_idle_servers(q)
        server = (q[w.WINDOW_SERVER] + ahead) % q[w.SERVERS]
        at = q[server_record(q, server) + w.G_FIRST]
    return slot_at(at)


@hot_kernel
def _current(q: Array, now: int) -> int:
    """The record of the server whose window it is; divides only when a window is over."""
    if now < q[w.WINDOW_BEGIN] or now >= q[w.WINDOW_END]:
        window = q[w.WINDOW]
        turn = now // window
        q[w.WINDOW_BEGIN] = turn * window
        q[w.WINDOW_END] = turn * window + window
        q[w.WINDOW_SERVER] = (turn + q[w.NODE]) % q[w.SERVERS]
    return server_record(q, q[w.WINDOW_SERVER])


@hot_kernel
def _count_idle_servers(q: Array) -> int:
    """How many servers after the current one have no requests either, before the first that has some."""
    servers, server = q[w.SERVERS], q[w.WINDOW_SERVER]
    for skipped in range(servers):
        server += 1
        if server == servers:
            server = 0
        if q[server_record(q, server) + w.G_FIRST]:
            return skipped
    return w.NONE  # not while anything waits


@hot_kernel
def server_record(q: Array, server: int) -> int:
    """The record of that server, which begins with the head of its list."""
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
        source=f"{_PAPER}, without its waiting",
        options=_WINDOW,
    )(twins_work_conserving),
)


def number(policy: Policy) -> int:
    """What the kernels know a scheduler by, whatever its options are; OTHER for somebody else's."""
    return next((at for at, built_in in enumerate(ORDERS) if built_in.decide is policy.decide), w.OTHER)


# Numba can't keep machine code of a function that gets another as an argument, hence numbers.
@hot_kernel
def pick(q: Array, now: int) -> int:
    """The slot that the queue's scheduler would send now, or NONE."""
    scheduler = q[w.SCHEDULER]
    if scheduler in (w.TWINS, w.TWINS_WORK_CONSERVING):
        return twins(q, now) if scheduler == w.TWINS else twins_work_conserving(q, now)
    if scheduler in (w.HBRR, w.MLF):
        return hbrr(q, now) if scheduler == w.HBRR else mlf(q, now)
    if scheduler in (w.SJF, w.WFQ):
        return sjf(q, now) if scheduler == w.SJF else wfq(q, now)
    return first(q)  # fifo, to-agg, and a stranger that nobody asked


@hot_kernel
def enter(q: Array, at: int) -> None:
    """A request begins to wait: it enters what its scheduler keeps of those that wait."""
    scheduler = q[w.SCHEDULER]
    if scheduler in (w.TWINS, w.TWINS_WORK_CONSERVING):
        append(q, server_record(q, q[at + w.S_SERVER]), w.S_GROUP_NEXT, at)
    elif scheduler in (w.HBRR, w.MLF):
        enter_file(q, at)
    elif scheduler in (w.SJF, w.WFQ):
        push(q, at, q[at + w.S_SIZE] if scheduler == w.SJF else _finish(q, at))


@hot_kernel
def leave(q: Array, at: int) -> None:
    """A request waits no longer: the reverse of `enter`."""
    scheduler = q[w.SCHEDULER]
    if scheduler in (w.SJF, w.WFQ):
        remove(q, at)
        if q[w.HEAPED] == 0:  # when nobody waits, nobody is owed anything
            begin_virtual_time(q)
    elif scheduler in (w.HBRR, w.MLF):
        leave_file(q, at)
    elif scheduler in (w.TWINS, w.TWINS_WORK_CONSERVING):
        unlink(q, server_record(q, q[at + w.S_SERVER]), w.S_GROUP_NEXT, at)
