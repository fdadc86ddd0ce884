"""Request schedulers on plain lists, as slow and as simple as can be: what the queue's kernels are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

NEVER = 2**63 - 1
NONE = -1
MOST_IN_MESSAGE = 256
TOP_LEVEL = {"hbrr": 0, "mlf": 6}


@dataclass
class Asked:
    """One request."""

    slot: int
    server: int
    file: int
    flow: int
    offset: int
    size: int
    write: int
    overtaken: int = 0  # by later ones that left
    finish: int = 0  # wfq


@dataclass
class Naive:
    """One I/O node's queue."""

    scheduler: str
    servers: int
    slots: int
    in_flight: int
    node: int = 0
    window: int = 1_000_000
    quantum: int = 8
    aggregate: int = 0
    patience: int = 256
    weights: dict[int, int] = field(default_factory=dict)
    waiting: list[Asked] = field(default_factory=list)  # in the order of arrival
    sent: dict[int, list[Asked]] = field(default_factory=dict)  # messages, by their first slot
    wake: int = NEVER
    ring: list[int] = field(default_factory=list)  # of files; the first one's turn it is
    turn: int = 0
    level: dict[int, int] = field(default_factory=dict)
    virtual: int = 0
    finishes: dict[int, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.slots - len(self.waiting) - sum(map(len, self.sent.values()))

    def arrive(self, asked: Asked) -> None:
        self.waiting.append(asked)
        self._enter(asked)

    def take(self, now: int) -> list[int]:
        """The slots of the next message."""
        self.wake = NEVER
        if not self.waiting or len(self.sent) == self.in_flight:
            return []
        oldest = self.waiting[0]
        patient = self.scheduler == "sjf"
        budget = self.patience - oldest.overtaken
        chosen = oldest if patient and budget <= 0 else self._pick(now)
        if chosen is None:
            return []
        most = min((budget if chosen is oldest else budget - 1) if patient else 10**9, MOST_IN_MESSAGE - 1)
        self._leave(chosen)
        message = [chosen, *self._followers(chosen, most)]
        self.sent[chosen.slot] = message
        return [asked.slot for asked in message]

    def done(self, slot: int) -> None:
        del self.sent[slot]

    def drop(self, slot: int) -> None:
        self._leave(next(asked for asked in self.waiting if asked.slot == slot))

    def depth(self, server: int) -> int:
        return sum(asked.server == server for asked in self.waiting)

    def switch(self, scheduler: str) -> None:
        if scheduler != self.scheduler:
            self.scheduler, self.ring, self.finishes, self.virtual = scheduler, [], {}, 0
            for asked in self.waiting:
                self._enter(asked)

    def set_quantum(self, quantum: int) -> None:
        self.quantum = quantum
        if self.ring:
            self.turn = min(self.turn, quantum << self.level[self.ring[0]])

    def _followers(self, head: Asked, most: int) -> list[Asked]:
        found: list[Asked] = []
        last, room = head, self.aggregate - head.size
        while self.aggregate and len(found) < most:
            fits = (a for a in self.waiting if (a.server, a.file, a.write) == (head.server, head.file, head.write))
            behind = next((a for a in fits if a.offset == last.offset + last.size), None)
            if behind is None or behind.size > room:
                break
            self._leave(behind)
            found.append(behind)
            last, room = behind, room - behind.size
        return found

    def _enter(self, asked: Asked) -> None:
        if self.scheduler in TOP_LEVEL and asked.file not in self.ring:
            self.ring.append(asked.file)
            self.level[asked.file] = 0
            if len(self.ring) == 1:
                self._begin_turn()
        if self.scheduler == "wfq":
            cost = min(max(asked.size, 4096), 1 << 30) * 16
            begin = max(self.virtual, self.finishes.get(asked.flow, 0))
            asked.finish = self.finishes[asked.flow] = begin + cost // self.weights.get(asked.flow, 1)

    def _leave(self, asked: Asked) -> None:
        place = self.waiting.index(asked)
        for older in self.waiting[:place]:
            older.overtaken += 1
        del self.waiting[place]
        if self.scheduler in TOP_LEVEL and all(other.file != asked.file for other in self.waiting):
            current = self.ring[0]
            self.ring.remove(asked.file)
            if self.ring and current == asked.file:
                self._begin_turn()
        if not self.waiting:
            self.virtual, self.finishes = 0, {}

    def _begin_turn(self) -> None:
        self.turn = self.quantum << self.level[self.ring[0]]

    def _pick(self, now: int) -> Asked | None:
        picks: dict[str, Callable[[], Asked | None]] = {
            "sjf": lambda: min(self.waiting, key=lambda a: a.size),
            "hbrr": self._by_turns,
            "mlf": self._by_turns,
            "wfq": self._by_finish,
            "twins": lambda: self._by_window(now),
            "twins-work-conserving": lambda: self._by_window(now),
        }
        return picks.get(self.scheduler, lambda: self.waiting[0])()

    def _by_turns(self) -> Asked:
        if self.turn <= 0:
            file = self.ring.pop(0)
            self.level[file] = min(self.level[file] + 1, TOP_LEVEL[self.scheduler])
            self.ring.append(file)
            self._begin_turn()
        self.turn -= 1
        return next(asked for asked in self.waiting if asked.file == self.ring[0])

    def _by_finish(self) -> Asked:
        chosen = min(self.waiting, key=lambda a: a.finish)
        self.virtual = chosen.finish
        return chosen

    def _by_window(self, now: int) -> Asked | None:
        for ahead in range(self.servers):
            server = (now // self.window + self.node + ahead) % self.servers
            found = next((asked for asked in self.waiting if asked.server == server), None)
            if found is not None and (ahead == 0 or self.scheduler == "twins-work-conserving"):
                return found
            if found is not None:
                self.wake = (now // self.window + ahead) * self.window
                return None
        raise AssertionError("nothing waits")
