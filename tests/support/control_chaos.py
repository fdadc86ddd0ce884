"""One run of the live control system with everything going wrong that can, and what must hold after it.

A seed decides what is there, what is asked and what goes wrong; when exactly things meet is up to the machine. Each
run begins with an empty store and empty disks, and at its end everything is up again and nothing goes wrong any more.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from forebay.act.control.service.live_state import load
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.control import Control
from forebay.history.store import open_store
from support.control_chaos_clients import Book, Caller
from support.control_chaos_faults import Faults
from support.control_chaos_oracle import Tale
from support.control_chaos_site import Database, Site
from support.grants import digest_of
from support.nursery import Nursery
from support.processes import PATIENCE
from support.stores import PostgreSQL

INVARIANTS = {
    "capacity": "no disk over its capacity, at no point of the journal",
    "lost": "no grant, volume or disk lost",
    "answers": "what was answered is in the journal; one key, one grant",
    "doubled": "each key and each grant once, each state after one that it may follow",
    "owners": "no volume without an owner, no owner without a volume",
    "left": "released and expired leave nothing",
    "numbers": "the journal's numbers have no gap",
    "replay": "the journal, and every checkpoint with the rest, lead to the live state",
    "kept": "what was made before the store was put back to an earlier copy, and nobody gave back, is still there",
    "faultless": "no error but those that were to be expected",
}
_PATIENCE = 60.0
_ENDED = ("released", "refused", "failed", "expired")


@dataclass(frozen=True)
class Plan:
    """What a seed decides from the start."""

    seed: int
    store: str
    kind: str
    nodes: tuple[int, ...]
    callers: int
    faults: int
    trouble: float
    server_dies: bool
    put_back: bool

    @classmethod
    def of(cls, seed: int, *, postgresql: bool) -> Plan:
        chance = random.Random(seed)
        store = "postgresql" if postgresql and seed % 4 == 3 else "sqlite"
        return cls(
            seed=seed,
            store=store,
            kind="loop" if seed % 25 == 10 and os.geteuid() == 0 else "directory",
            nodes=tuple(chance.randint(1, 3) for _ in range(chance.randint(2, 3))),
            callers=chance.randint(2, 4),
            faults=chance.randint(2, 4),
            trouble=chance.choice([0.0, 0.1, 0.2, 0.35]),
            server_dies=store == "postgresql" and seed % 40 == 3,
            put_back=store == "sqlite" and seed % 10 == 4,
        )


@dataclass
class Outcome:
    """What happened in a run, and what was broken: by invariant, in words."""

    plan: Plan
    happened: Counter[str] = field(default_factory=Counter)
    broken: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in INVARIANTS})
    seconds: float = 0.0

    def add(self, invariant: str, *words: str) -> None:
        self.broken[invariant] += words

    @property
    def wrong(self) -> dict[str, list[str]]:
        return {name: words[:8] for name, words in self.broken.items() if words}


def run(seed: int, nursery: Nursery, server: PostgreSQL | None, keep: Path | None = None) -> Outcome:
    """One run. Its logs and its journal are copied to `keep` if something is broken."""
    begin = monotonic()
    outcome = Outcome(Plan.of(seed, postgresql=server is not None))
    with tempfile.TemporaryDirectory(prefix="fb-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        database = Database(str(folder / "db"), file=folder / "db")
        if outcome.plan.store == "postgresql":
            assert server is not None
            database = Database(server.new_database(), server=server)
        chance = random.Random(seed)
        site = Site(nursery, folder, database, list(outcome.plan.nodes), outcome.plan.kind, chance)
        try:
            _run(site, outcome, chance)
        except Exception as error:  # whatever it is, the other runs go on
            outcome.add("faultless", f"{type(error).__name__}: {error}"[:2000])
        finally:
            site.clean()
            if outcome.wrong and keep is not None:
                _keep(site, keep / f"seed-{seed}")
    outcome.seconds = monotonic() - begin
    return outcome


def _run(site: Site, outcome: Outcome, chance: random.Random) -> None:
    site.start()
    try:
        book = _storm(site, outcome, chance)
        if outcome.plan.put_back:
            _check_kept(site, outcome)
        _check_standing(site, outcome)
        _check_all_given_back(site, outcome)
        _check_stopped(site, outcome)
    finally:
        site.wire.stop()
    tale = Tale(site.database.journal())
    _check_tale(tale, outcome)
    if not outcome.plan.put_back:
        _check_answers(tale, book, outcome)
    _count(site, tale, book, outcome)


def _storm(site: Site, outcome: Outcome, chance: random.Random) -> Book:
    """Everybody asks, and everything goes wrong; at the end nothing does any more."""
    plan, book, over = outcome.plan, Book(put_back=outcome.plan.put_back), threading.Event()
    faults = Faults(site, chance, server_dies=plan.server_dies, put_back=plan.put_back)
    site.wire.trouble = plan.trouble
    callers = [
        Caller(at, site.wire.path, book, over, random.Random(chance.random())) for at in range(plan.callers)
    ]  # fmt: skip
    hands = [faults.hand(plan.faults, random.Random(chance.random())) for _ in range(2)]
    for thread in (*callers, *hands):
        thread.start()
    for hand in hands:
        hand.join(PATIENCE)
    over.set()
    for unit in site.units:
        unit.set_clock(0)
    for caller in callers:
        caller.join(PATIENCE)
    site.wire.calm()
    outcome.add("faultless", *book.troubles, *faults.troubles, *map(repr, site.wire.errors))
    outcome.add("faultless", *(f"{unit.name} ended by itself" for unit in site.units if not unit.runs))
    outcome.happened += faults.happened
    site.registered()
    return book


def _check_kept(site: Site, outcome: Outcome) -> None:
    """Whatever agents had made that the copy does not know, or may not know all of; then an administrator looks."""
    site.looked()  # so that nobody is still to notice
    tale, there = Tale(site.database.journal()), site.on_disks()
    for lost, known in site.put_back:
        names_known = {volume for volume, _ in known.on_disk()}
        for name, told in lost.grants.items():
            given_back = name in tale.grants and tale.grants[name].given_back
            for volume, (disk, _, state) in told.parts.items():
                agent_knows = volume not in names_known or disk.partition("/")[0] in tale.doubted
                if state == "made" and told.state in ("ready", "in-use") and agent_knows and not given_back:
                    outcome.happened["volumes that outlive the store"] += 1
                    if (volume, disk) not in there:
                        disks = sorted(where for name, where in there if name == volume)
                        outcome.add("kept", f"{volume} was on {disk}, and is on {disks}")
                    elif sum(name == volume for name, _ in there) > 1:
                        outcome.happened["volumes made twice by two journals"] += 1
    with site.client() as client:
        for agent in site.agents:
            client.discard(agent.name)


def _check_standing(site: Site, outcome: Outcome) -> None:
    """Those that live have their volumes, and there are no others."""
    _settle(site, outcome, "owners", lambda tale: tale.on_disk() == site.on_disks())


def _settle(site: Site, outcome: Outcome, invariant: str, holds: Callable[[Tale], bool]) -> None:
    """Time goes on, so what ends meanwhile is waited for."""

    def settled() -> bool:
        tale = Tale(site.database.journal())
        return not tale.busy() and holds(tale)

    end = monotonic() + _PATIENCE
    while not settled():
        if monotonic() < end:
            sleep(0.05)
            continue
        tale = Tale(site.database.journal())
        words = f"journal {tale.on_disk()}, disks {site.on_disks()}, to do {tale.busy()}, litter {site.litter()}"
        outcome.add(invariant, words)
        return


def _check_all_given_back(site: Site, outcome: Outcome) -> None:
    with site.client() as client:
        for grant in client.grants():
            if grant["state"] not in _ENDED:
                client.release(grant["id"])
    _settle(site, outcome, "left", lambda tale: all(told.state in _ENDED for told in tale.grants.values()))
    if left := [*site.on_disks(), *site.litter()]:
        outcome.add("left", f"still there: {left}")
    tale = Tale(site.database.journal())
    told = {name: grant.state for name, grant in tale.grants.items()}
    for at in range(len(site.services)):
        with site.client(at) as client:
            if told != (live := {grant["id"]: grant["state"] for grant in client.grants()}):
                outcome.add("replay", f"instance {at} says {live}, the journal {told}")


def _check_stopped(site: Site, outcome: Outcome) -> None:
    """A service that ends in peace keeps its whole state: it must be where the journal leads to."""
    for agent in site.agents:
        agent.end(signal.SIGTERM)
    for service in site.services:
        last, _ = site.database.journal()[-1]
        service.end(signal.SIGTERM)
        kept = dict(site.database.checkpoints())
        alone = len(site.services) == 1  # of two, one may not have seen yet what the other wrote
        if max(kept, default=0) < (last if alone else 1):
            outcome.add("replay", f"{service.name} did not keep its state after event {last}")
        _check_states(site.database, kept, outcome)


def _check_states(database: Database, kept: dict[int, str], outcome: Outcome) -> None:
    """Kept states, and what a service that starts now has, are where the journal leads to."""
    with open_store(database.address) as store:
        found = load(store)
    states = {number: Control.from_document(json.loads(text)["control"]) for number, text in kept.items()}
    control = Control()
    for number, line in database.journal():
        control.apply(from_line(line))
        if number in states and digest_of(states[number]) != digest_of(control):
            outcome.add("replay", f"checkpoint {number} is not where the journal leads to")
        if number == found.last and digest_of(found.control) != digest_of(control):
            outcome.add("replay", f"the last checkpoint, and the rest up to {number}, lead elsewhere than the journal")


def _check_tale(tale: Tale, outcome: Outcome) -> None:
    for invariant, words in tale.wrong.items():
        if outcome.plan.put_back and invariant in ("lost", "owners", "capacity"):
            continue  # there is more on the disks than such a journal knows, and less
        outcome.add("doubled" if invariant == "grants" else invariant, *words)


def _check_answers(tale: Tale, book: Book, outcome: Outcome) -> None:
    by_key: dict[str, list[str]] = {}
    for name, told in tale.grants.items():
        by_key.setdefault(told.key, []).append(name)
    for key, wish in book.wishes.items():
        found = by_key.get(key, [])
        if len(found) > 1 or set(wish.answers) - set(found) or (found and tale.grants[found[0]].size != wish.size):
            outcome.add("answers", f"key {key}: answered {wish.answers}, in the journal {found}")
    if strange := by_key.keys() - book.wishes.keys():
        outcome.add("answers", f"nobody asked for {strange}")
    for name in book.released:
        if not tale.grants[name].been & {"releasing", *_ENDED}:
            outcome.add("answers", f"{name} was given back, and the journal does not know")
    for name, end in book.extended:
        if end not in tale.grants[name].ends:
            outcome.add("answers", f"{name} was extended to {end}, and the journal does not know")
    for name in book.used:
        if "in-use" not in tale.grants[name].been:
            outcome.add("answers", f"{name} was in use, and the journal does not know")


def _count(site: Site, tale: Tale, book: Book, outcome: Outcome) -> None:
    outcome.happened += site.wire.happened + book.heard
    outcome.happened.update({f"event {kind}": count for kind, count in tale.kinds.items()})
    outcome.happened["starts in vain"] += sum(unit.in_vain for unit in site.units)
    outcome.happened["requests"] += len(book.wishes)
    outcome.happened["expiries"] += sum("expired" in told.been for told in tale.grants.values())
    outcome.happened["split"] += sum(len(told.parts) > 1 for told in tale.grants.values())


def _keep(site: Site, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for path in site.folder.glob("*.log"):
        shutil.copy(path, place)
    try:
        lines = [f"{number} {line}\n" for number, line in site.database.journal()]
    except Exception as error:  # there may be none yet
        lines = [f"{error}\n"]
    (place / "journal.txt").write_text("".join(lines))
