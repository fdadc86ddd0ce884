"""Callers who ask, give back, extend and use at random over a bad wire, and note what they heard."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay.act.control.client import Client, ServiceAway, TurnedAway, parse_service

MB = 10**6
_DECLINED = 409
_UNKNOWN = 404
_SIZES = (3, 8, 8, 15, 20, 30, 40, 60, 100, 110, 160, 5000)  # a disk has 100
_SECONDS = (0.2, 0.5, 1.0, 1.5, 3600.0, 86_400.0)


@dataclass
class Wish:
    """What was asked for with one key, and which grants the answers spoke of."""

    size: int
    seconds: float
    start: str
    answers: list[str] = field(default_factory=list)


@dataclass
class Book:
    """All that callers were told. What nobody answered may have happened or not.

    Where the store is `put_back` to an earlier copy, the service may not know a grant any more.
    """

    put_back: bool = False
    wishes: dict[str, Wish] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    extended: set[tuple[str, float]] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    heard: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    @property
    def grants(self) -> list[str]:
        return [wish.answers[0] for wish in list(self.wishes.values()) if wish.answers]


class Caller(threading.Thread):
    """Goes on until `over`; several share a book, and each other's grants."""

    def __init__(self, number: int, socket: Path, book: Book, over: threading.Event, chance: random.Random) -> None:
        super().__init__(name=f"caller-{number}")
        self._number, self._book, self._over, self._chance = number, book, over, chance
        self._client = Client(parse_service(f"unix:{socket}"), patience=chance.choice([0.0, 0.0, 1.0]))

    def run(self) -> None:
        acts = [self._ask] * 6 + [self._ask_again] * 2 + [self._release] * 3 + [self._extend, self._use, self._look]
        try:
            with self._client:
                while not self._over.wait(self._chance.uniform(0.0, 0.04)):
                    self._try(self._chance.choice(acts))
        except BaseException as error:
            self._book.troubles.append(f"{self.name}: {error!r}")

    def _try(self, act: Any) -> None:
        try:
            act()
        except ServiceAway:
            self._book.heard["no answer"] += 1
        except TurnedAway as error:
            self._book.heard[f"answer {error.code.status}"] += 1
            may = act in (self._extend, self._use) and error.code.status == _DECLINED
            may = may or (self._book.put_back and error.code.status == _UNKNOWN)
            if not may:  # a grant that somebody was told of is known, and a request sent again is that request
                self._book.troubles.append(f"{act.__name__}: {error.code.status}: {error}")

    def _ask(self) -> None:
        key = f"{self._number}-{len(self._book.wishes)}-{self._chance.getrandbits(48):x}"
        start = self._chance.choice([""] * 8 + ["1 s", "1 h"])
        wish = Wish(self._chance.choice(_SIZES) * MB, self._chance.choice(_SECONDS), start)
        self._book.wishes[key] = wish
        self._send(key, wish)

    def _ask_again(self) -> None:
        """With the key of somebody, perhaps at the same time as they."""
        wishes = list(self._book.wishes.items())
        if wishes:
            self._send(*self._chance.choice(wishes[-20:]))

    def _send(self, key: str, wish: Wish) -> None:
        found = self._client.request(wish.size, wish.seconds, key=key, start=wish.start)
        wish.answers.append(found["id"])
        self._book.heard["answers to requests"] += 1

    def _any(self) -> str | None:
        known = self._book.grants
        return self._chance.choice(known[-15:]) if known else None

    def _release(self) -> None:
        if (name := self._any()) is not None:
            self._client.release(name)
            self._book.released.add(name)
            self._book.heard["releases"] += 1

    def _extend(self) -> None:
        if (name := self._any()) is not None:
            found = self._client.extend(name, self._chance.choice([0.5, 1.0, 600.0]))
            self._book.extended.add((name, found["until"]))
            self._book.heard["extensions"] += 1

    def _use(self) -> None:
        if (name := self._any()) is not None:
            self._client.mark_used(name)
            self._book.used.add(name)
            self._book.heard["uses"] += 1

    def _look(self) -> None:
        if (name := self._any()) is not None:
            assert self._client.grant(name)["id"] == name
            known = set(self._book.grants)
            listed = {grant["id"] for grant in self._client.grants()}
            assert known <= listed or self._book.put_back, "a grant is not listed"
