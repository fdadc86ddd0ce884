"""What goes wrong at a site, by a seed: each fault begins, lasts a moment, and is over when its function returns."""

from __future__ import annotations

import random
import resource
import signal
import threading
from collections import Counter
from collections.abc import Callable
from time import sleep

import psycopg

from forebay.act.control.client import ServiceAway, TurnedAway
from support.control_chaos_oracle import Tale
from support.control_chaos_site import Site, Unit, kill_server, lock_of
from support.nursery import has_clocks

_JUMPS = (-259_200.0, -3600.0, -60.0, -2.0, 0.0, 2.0, 60.0, 3600.0, 86_400.0)
_WAIT = 0.4  # seconds for the right moment to come
_LOOKS = 30
Fault = Callable[[], None]


class Faults:
    """Those that can happen at this site, and how often each did."""

    def __init__(self, site: Site, chance: random.Random, *, server_dies: bool = False, put_back: bool = False) -> None:
        self._site, self._chance = site, chance
        self.happened: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._kinds: list[Fault] = [self.kill_service] * 4 + [self.kill_agent] * 4 + [self.stop, self.drain]
        if has_clocks():
            self._kinds += [self.jump] * 3
        if site.database.server is None:
            self._kinds += [self.lock_store, self.lock_store, self.fill_store]
        else:
            self._kinds += [self.cut_connections] * 3
        self._server_dies, self._put_back = server_dies, put_back

    def hand(self, count: int, chance: random.Random) -> threading.Thread:
        """One who does so many of them, one after the other."""
        kinds = [chance.choice(self._kinds) for _ in range(count)]
        if self._server_dies:
            kinds[count // 2] = self.kill_store
            self._server_dies = False
        if self._put_back:
            kinds[count // 2] = self.restore_store
            self._put_back = False
        return threading.Thread(target=self._go, args=(kinds, chance), name="faults")

    def _go(self, kinds: list[Fault], chance: random.Random) -> None:
        try:
            for fault in kinds:
                sleep(chance.uniform(0.0, 0.25))
                fault()
                self.happened[fault.__name__.replace("_", " ")] += 1
        except BaseException as error:
            self.troubles.append(f"{type(error).__name__}: {error}")

    def kill_service(self) -> None:
        what = self._chance.choice(["ask", "ask", "told ask", "told ask", "report", "told report", "told release"])
        self._kill(self._chance.choice(self._site.services), lambda name: name.startswith(what), 0.01)

    def kill_agent(self) -> None:
        agent = self._chance.choice(self._site.agents)
        what = self._chance.choice(["orders", "orders", "report"])
        self._kill(agent, lambda name: name == f"{what} {agent.name}", 0.03)

    def _kill(self, unit: Unit, of: Callable[[str], bool], most: float) -> None:
        """When something goes over the wire that it has to do with, at once or a little later: in the middle of it."""
        with unit.lock:
            child, now = unit.child, self._chance.random() < 0.5
            assert child is not None
            moment = self._site.wire.next(of, (lambda: child.signal(signal.SIGKILL)) if now else None)
            moment.wait(_WAIT)
            moment.set()  # not later
            sleep(0.0 if now else self._chance.uniform(0.0, most))
            unit.end(signal.SIGKILL)
            sleep(self._chance.choice([0.0, 0.0, 0.1, 0.4]))
            unit.start()

    def stop(self) -> None:
        """It hangs for a while, whatever it holds; others may take it for dead."""
        unit = self._chance.choice(self._site.units)
        with unit.lock:
            assert unit.child is not None
            unit.child.signal(signal.SIGSTOP)
            sleep(self._chance.uniform(0.1, 1.4))
            unit.child.signal(signal.SIGCONT)

    def jump(self) -> None:
        """The wall clock of one process, or of all of them."""
        units, by = self._site.units, self._chance.choice(_JUMPS)
        for unit in self._chance.choice([units, [self._chance.choice(units)]]):
            unit.set_clock(by)
        sleep(self._chance.uniform(0.0, 0.2))

    def lock_store(self) -> None:
        assert self._site.database.file is not None
        with lock_of(self._site.database.file):
            sleep(self._chance.uniform(0.05, 0.6))

    def fill_store(self) -> None:
        """No file of the service may grow for a while: what it writes fails."""
        unit = self._site.services[0]
        with unit.lock:
            assert unit.child is not None
            _, hard = resource.prlimit(unit.child.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(unit.child.pid, resource.RLIMIT_FSIZE, (4096, hard))
            sleep(self._chance.uniform(0.05, 0.4))
            resource.prlimit(unit.child.pid, resource.RLIMIT_FSIZE, (hard, hard))

    def cut_connections(self) -> None:
        """The services' connections to the database are ended, a few times in a row."""
        own = "datname = current_database() AND pid <> pg_backend_pid()"
        for _ in range(self._chance.randint(1, 3)):
            try:
                with psycopg.connect(self._site.database.address) as server:
                    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {own}".encode())
            except psycopg.OperationalError:  # the whole server is being killed
                return
            sleep(self._chance.uniform(0.0, 0.05))

    def kill_store(self) -> None:
        assert self._site.database.server is not None
        self._site.wire.next(lambda name: name == "ask").wait(_WAIT)
        kill_server(self._site.database.server)

    def restore_store(self) -> None:
        """The store is put back to a copy that was taken a while ago; since then something was made, if possible."""
        database, service = self._site.database, self._site.services[0]
        copy = self._site.folder / "copy"
        database.copy(copy)
        known = Tale(database.journal()).grants.keys()
        for _ in range(_LOOKS):
            sleep(self._chance.uniform(0.0, 0.2))
            now = Tale(database.journal()).grants
            if any(told.state == "ready" for name, told in now.items() if name not in known):
                break
        with service.lock:
            service.end(signal.SIGKILL)
            lost = Tale(database.journal())
            database.put_back(copy)
            self._site.put_back.append((lost, Tale(database.journal())))
            sleep(self._chance.choice([0.0, 0.3]))
            service.start()

    def drain(self) -> None:
        """By an administrator, over the same wire."""
        agent = self._chance.choice(self._site.agents).name
        try:
            with self._site.client() as client:
                client.drain(agent)
                sleep(self._chance.uniform(0.0, 0.3))
                client.undrain(agent)
        except (ServiceAway, TurnedAway) as error:
            self.troubles.append(f"drain: {error}")
