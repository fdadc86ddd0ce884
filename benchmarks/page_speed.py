"""How fast the page is, and what it costs the service: 1,000 disks, 10,000 grants, a real browser on this machine.

    .venv/bin/python benchmarks/page_speed.py [--loads 5] [--events 10] [--seconds 2] [--rounds 24] [--pages 1]

Goals: what is useful is painted within 1 s of the click, an event is on the page within 1 s of its answer, and to have
the page open costs the service less than 5 % of its request rate. The rate itself follows from what else runs here, so
that CPU seconds are counted, with and without a page by turns: what pages take of a core is what a service that has
nothing left to spare loses of its rate. A request is one that is asked for and released. For that, pages are loaded and
followed without a browser, which would take from the service's own cores here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np
from bench import SEED, verdict
from control_load import Load, cpu, post

from forebay.act.control.service.live_state import EventRecord, Live
from forebay.act.control.service.settings import private_files
from forebay.decide.grants import commands as co
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.machine import DiskSpec
from forebay.history.store import open_store
from forebay.history.store.journal import append_entries
from forebay.model.grant import Ask

GB = 10**9
T = TypeVar("T")
NODES, DISKS, GRANTS = 125, 8, 10_000
GOAL_PAINT, GOAL_EVENT, GOAL_COST = 1.0, 1.0, 0.05
_ROW = "tr[data-grant='%s']"


def fill(db: Path) -> None:
    """A journal of 1,000 disks and 10,000 grants: most of them there, others planned, ended or refused."""
    live, rng, now = Live(), np.random.default_rng(SEED), time.time() - 3600.0
    entries = []

    def do(command: co.Command, at: float) -> None:
        for event in live.control.handle(command, at):
            entries.append(EventRecord.of(live.last + 1, event))
            live.apply(entries[-1])

    do(co.ChangeRules(caller=co.SERVICE, rules=GrantRules(split=200 * GB)), now)
    for number in range(NODES):
        node = f"s{number:03d}"
        fields = {"tier": "nvme" if number % 3 else "hdd"}
        disks = tuple(
            DiskSpec(name=f"d{d}", capacity=4000 * GB, write_bandwidth=3e9, read_bandwidth=3e9, fields=fields)
            for d in range(DISKS)
        )
        caller = co.Caller(role="agent", node=node)
        do(co.Register(caller=caller, node=node, network_bandwidth=1e10, disks=disks, volumes=()), now)
    for number in range(GRANTS):
        name = f"{number + 1:032x}"
        ask = Ask(
            grant=name, key=name, uid=1000 + number % 40, gid=100, job=str(number), user=f"user{number % 40}",
            size=int(rng.integers(1, 300)) * GB if number % 50 else 10**17, seconds=float(rng.integers(3600, 80_000)),
            start=now + 3600 + float(rng.integers(0, 20_000)) if number % 4 == 0 else None,
        )  # fmt: skip
        do(co.Request(caller=co.SERVICE, ask=ask), now + 3000 * number / GRANTS)
    for node in live.control.tables.nodes:
        for action in live.control.actions(node):
            do(co.Made(caller=co.Caller(role="agent", node=node), volume=action.volume), now + 3300)
    for number in range(1, GRANTS, 9):
        do(co.Release(caller=co.SERVICE, grant=f"{number + 1:032x}"), now + 3500)
    for node in live.control.tables.nodes:
        for action in live.control.actions(node):
            caller = co.Caller(role="agent", node=node)
            do(co.Gone(caller=caller, volume=action.volume, disk=action.disk), now + 3550)
    with private_files(), open_store(str(db)) as store, store.open_writer() as connection:
        append_entries(connection, [one.entry for one in entries])


@contextmanager
def service(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The process, the page's address, and an administrator's token."""
    key, own = folder / "key.pem", folder / "cert.pem"
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    subprocess.run((*made, "-keyout", str(key), "-out", str(own)), check=True, capture_output=True)
    key.chmod(0o600)
    forebay = (sys.executable, "-m", "forebay")
    words = ("--socket", str(folder / "s"), "--db", str(folder / "db"), "--certificate", str(own), "--key", str(key))
    subprocess.run((*forebay, "token", "make", "admin", "--role", "administrator", "--out", str(folder / "token"),
                    "--db", str(folder / "db")), check=True, capture_output=True)  # fmt: skip
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(
            (*forebay, "serve", *words, "--listen", "127.0.0.1:0", "--silent", "1d", "--json"),
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert running.stdout is not None
        url = json.loads(running.stdout.readline())["addresses"][1]
        yield running, url, (folder / "token").read_text().strip()
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(30)


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*arguments, "--disable-gpu", "--disable-dev-shm-usage"],
            chromium_sandbox=False,
        )  # fmt: skip
        try:
            yield found
        finally:
            found.close()


def logged_in(browser: Any, url: str, token: str) -> Any:
    """What the browser remembers of a login."""
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(url)
    page.fill("#secret", token)
    page.get_by_role("button", name="Log in").click()
    page.locator("button.disk[data-key]").first.wait_for()
    state = context.storage_state()
    context.close()
    return state


def paints(browser: Any, url: str, state: Any, loads: int) -> list[float]:
    """Seconds from the navigation until the machine is drawn, each with a browser's empty cache."""
    found = []
    for _ in range(loads):
        context = browser.new_context(ignore_https_errors=True, storage_state=state)
        page = context.new_page()
        page.goto(url)
        page.locator("button.disk[data-key]").nth(NODES * DISKS - 1).wait_for(state="attached")
        shown = "() => performance.getEntriesByName('forebay-shown')[0]?.startTime ?? 0"
        while not (at := page.evaluate(shown)):
            time.sleep(0.02)
        found.append(at / 1000)
        context.close()
    return found


def events(page: Any, at: Path, count: int) -> list[float]:
    """Seconds from the answer to a request until its row is on the page."""
    page.evaluate("() => { location.hash = '/grants/list'; }")
    page.locator("tr[data-grant]").first.wait_for()
    watch = """() => { window.seen = {}; new MutationObserver(() => {
        for (const row of document.querySelectorAll('tr[data-grant]')) window.seen[row.dataset.grant] ??= Date.now();
    }).observe(document.body, { childList: true, subtree: true }); }"""
    page.evaluate(watch)
    taken = []
    for number in range(count):
        answer = run(ask_once(at, number))
        answered = time.time()
        page.locator(_ROW % answer["id"]).wait_for()
        taken.append(page.evaluate("(id) => window.seen[id]", answer["id"]) / 1000 - answered)
        time.sleep(0.3)
    return taken


def run(work: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own, as the browser's driver has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def ask_once(at: Path, number: int) -> Any:
    load = await Load.on(at, 1)
    (answer,) = await load.all_of([post("/v1/grants", {"size": GB, "seconds": 600, "job": f"event {number}"})])
    return json.loads(answer)


async def cost(at: Path, pid: int, seconds: float) -> tuple[float, float]:
    """CPU seconds of the service for each request, and requests a second, over so many seconds."""
    load = await Load.on(at, 16)
    begin, used, asked = time.perf_counter(), cpu(pid), 0
    while time.perf_counter() - begin < seconds:
        wishes = [post("/v1/grants", {"size": GB, "seconds": 600 + asked + n}) for n in range(50)]
        grants = [json.loads(answer)["id"] for answer in await load.all_of(wishes)]
        await load.all_of([post(f"/v1/grants/{grant}/release", {}) for grant in grants])
        asked += len(grants)
    return (cpu(pid) - used) / asked, asked / (time.perf_counter() - begin)


class Reader(threading.Thread):
    """Loads what the page loads and follows it, without drawing: a browser here would take from the service's cores."""

    def __init__(self, url: str, state: Any) -> None:
        super().__init__(daemon=True)
        self._host, port = url.removeprefix("https://").split(":")
        cookie = next(f"{each['name']}={each['value']}" for each in state["cookies"])
        self._head = f"Host: {self._host}\r\nCookie: {cookie}\r\nAccept-Encoding: gzip\r\n\r\n"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._socket = context.wrap_socket(socket.create_connection((self._host, int(port))))
        self.taken = 0
        self.start()

    def run(self) -> None:
        with suppress(OSError):
            self._ask("/v1/page")
            number = 2**61  # later than all: the service says where it is
            self._ask(f"/v1/page/events?after={number}")
            while got := self._socket.recv(1 << 20):
                self.taken += len(got)

    def _ask(self, path: str) -> None:
        self._socket.sendall(f"GET {path} HTTP/1.1\r\n{self._head}".encode())

    def close(self) -> None:
        self._socket.close()


def costs(url: str, state: Any, at: Path, pid: int, options: argparse.Namespace) -> list[float]:
    """The share of a core that pages take, in each round."""
    found = []
    run(cost(at, pid, 2.0))  # so that all is compiled and warm
    for _ in range(options.rounds):
        without, rate = run(cost(at, pid, options.seconds))
        readers = [Reader(url, state) for _ in range(options.pages)]
        time.sleep(0.5)
        with_pages, rate_with = run(cost(at, pid, options.seconds))
        for reader in readers:
            assert reader.taken > 10_000, "the page was told nothing"
            reader.close()
        found.append((with_pages - without) * rate_with)
        print(
            f"  without {without * 1e3:.2f} ms CPU a request ({rate:.0f}/s), with {options.pages} page(s) "
            f"{with_pages * 1e3:.2f} ms ({rate_with:.0f}/s): {100 * found[-1]:+.1f} % of a core"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--events", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--pages", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fb-") as name:
        folder = Path(name)
        fill(folder / "db")
        with service(folder) as (running, url, token):
            with chromium() as browser:
                state = logged_in(browser, url, token)
                look(browser, url, state, folder / "s", options)
            found = median(costs(url, state, folder / "s", running.pid, options))
            print(f"a page costs {100 * found:.1f} % of the rate, goal 5 %: {verdict(found < GOAL_COST)}")


def look(browser: Any, url: str, state: Any, at: Path, options: argparse.Namespace) -> None:
    """How fast the page is."""
    painted = paints(browser, url, state, options.loads)
    print(f"first useful paint: {', '.join(f'{p:.2f}' for p in painted)} s")
    print(f"  median {median(painted):.2f} s, goal {GOAL_PAINT:g} s: {verdict(median(painted) < GOAL_PAINT)}")
    page = browser.new_context(ignore_https_errors=True, storage_state=state).new_page()
    page.goto(url)
    page.locator("button.disk[data-key]").first.wait_for()
    taken = events(page, at, options.events)
    told = f"an event on the page: median {median(taken):.2f} s, at most {max(taken):.2f} s, goal {GOAL_EVENT:g} s"
    print(f"{told}: {verdict(max(taken) < GOAL_EVENT)}")


if __name__ == "__main__":
    main()
