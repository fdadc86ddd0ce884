"""History and Forwarding of the page in a real browser, over a history and a layer that are made up."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from forebay.act.control.api import server as serve
from forebay.act.control.service.settings import ForwardSettings, ServiceSettings
from forebay.act.forward.net.address import Address
from forebay.act.log import Log
from forebay.act.metrics import Endpoint, Metric
from forebay.act.slurm.planner.record import write_plan
from forebay.act.slurm.planner.settings import Steering
from forebay.act.slurm.planner.steering import steer
from forebay.history.store import open_store
from forebay.history.store.decisions import record_decision
from forebay.show.web import pages
from support.browser import MISSING, Visitor, browser, visitor
from support.certificates import certificate
from support.control import Running
from support.made_up_runs import MIB, a_run, fill
from support.slurm_planner import GB, cluster, job, plan_of, running

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is a browser"),
    pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl"),
]


class WithPages(Running):
    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        log = Log(to=self.log)
        await serve.serve(self.settings, self._end, self._told, log=log, pages=pages(self.settings))


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    folder = tmp_path_factory.mktemp("looks")
    own, key = certificate(folder)
    with ExitStack() as stack:
        forward = ForwardSettings(metrics=[_metrics(stack.callback)], log=_log(folder), state=_state(folder))
        service = WithPages(
            ServiceSettings(
                socket=folder / "s",
                db=str(folder / "db"),
                listen="127.0.0.1:0",
                certificate=own,
                key=key,
                history=_history(folder),
                forward=forward,
                schedule=_plan(folder),
            )
        )
        service.start()
        stack.callback(service.stop)
        made = stack.enter_context(visitor(stack.enter_context(browser())))
        made.page.goto(service.addresses[1])
        made.page.fill("#secret", service.token("admin", "administrator"))
        made.page.get_by_role("button", name="Log in").click()
        made.page.locator("#totals").wait_for(state="visible")
        yield made
        assert made.elsewhere(service.addresses[1]) == []


def _history(folder: Path) -> str:
    with open_store(str(folder / "history.db")) as store:
        slow = [1.0, 1.0, 3.0, 1.0]
        fill(store, [a_run(n, count=1 + n % 3, perf_by_slowest=100.0 * MIB, slowness=slow) for n in range(60)])
        fill(store, [a_run(60 + n, filesystem=mount) for n, mount in enumerate(("/home", "/scratch"))])
        row = {"time": 1.0, "app": "vpic", "nprocs": 64, "policy": "forebay", "phase": "known", "outcome": "advised"}
        layout = {"stripe_count": 4, "stripe_size": MIB, "stripe_offset": 0, "because": "it was fastest"}
        layout |= {"filesystem": "/scratch"}
        with store.open_writer() as connection:
            record_decision(connection, row | layout)
    return str(folder / "history.db")


def _plan(folder: Path) -> Path:
    """What the planner writes about a busy cluster, now and in shadow mode."""
    now = time.time()
    jobs = [running(1, nodes=3, limit=600.0, start=now - 60), running(2, space=60.0 * GB, start=now - 60, limit=3600.0)]
    jobs += [job(k, nodes=1 + k % 3, space=20.0 * k * GB, limit=100.0 * k, submit=now - 3000) for k in range(3, 9)]
    plan = plan_of(cluster(*jobs, job(9, reason="Dependency"), at=now))
    about = {"mode": "shadow", "policy": "sjf-bb", "interval": 10.0}
    write_plan(folder / "plan.json", plan, steer(plan, {}, Steering())[0], about)
    return folder / "plan.json"


def _metrics(at_the_end: Callable[[Callable[[], None]], object]) -> str:
    depths = [Metric("forebay_ion_queue_depth", "", ("server",)).number(2 + n, str(n)) for n in range(2)]
    numbers = [Metric("forebay_ion_window_seconds", "").number(0.0005), *depths]
    endpoint = Endpoint(Address(host="127.0.0.1", port=0), lambda: numbers)
    at_the_end(endpoint.close)
    return str(endpoint.address)


def _log(folder: Path) -> Path:
    rows = [
        {"time": 1000.0 + n, "parameter": "window", "value": 500_000, "because": "the best so far", "nodes": 1,
         "patterns": ["shared-strided"], "operation": "write", "bandwidth": 1e9} for n in range(5)
    ]  # fmt: skip
    (folder / "council.log").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder / "council.log"


def _state(folder: Path) -> Path:
    about = {"operation": "read", "pattern": "file-per-process", "servers": 4, "io_nodes": 2, "clients": 8}
    bandit = {"counts": [1.0, 9.0], "means": [0.2, 0.8]}
    told = {
        "parameter": "window",
        "values": [125_000, 2_000_000],
        "situations": [about | {"processes": 8, "bandits": [bandit]}],
    }
    (folder / "council.json").write_text(json.dumps(told))
    return folder / "council.json"


def test_the_history_names_the_sick_ost_and_an_application_has_its_curve_and_advice(admin: Visitor) -> None:
    page = admin.page
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_text("62 runs of 1 application,").wait_for()
    page.get_by_text("over all file systems: ").wait_for()
    page.get_by_text("sick: 2").wait_for()
    page.get_by_role("cell", name="vpic").get_by_role("link").click()
    page.get_by_role("img", name="Bandwidth by OSTs").wait_for()
    page.get_by_text("4 stripes of 1 MiB from OST 0").wait_for()
    page.get_by_text("it was fastest").wait_for()
    page.get_by_text("1 run on /home").wait_for()
    assert page.get_by_text("/scratch", exact=True).count() == 2, "of the curve, and of the advice"
    admin.shot("history")


def test_a_run_of_an_application_has_a_page_of_its_own(admin: Visitor) -> None:
    page = admin.page
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_role("cell", name="vpic").get_by_role("link").click()
    runs = page.get_by_role("table", name="Runs", exact=True)
    runs.get_by_role("link", name="62", exact=True).wait_for()
    with admin.context.expect_page() as opened:
        runs.get_by_role("link", name="60", exact=True).click()
    sheet = opened.value
    sheet.get_by_role("heading", name="Earlier runs").wait_for()
    assert sheet.get_by_role("heading", level=1).inner_text() == "vpic"
    answer = admin.context.request.get(sheet.url)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in answer.headers["content-security-policy"] and "script" not in answer.text()
    assert admin.context.request.get(sheet.url.replace("/60", "/999")).status == 400
    assert admin.context.request.get(sheet.url.replace("/run/", "/nothing/")).status == 404
    sheet.close()


def test_forwarding_shows_queues_the_window_over_time_and_what_was_learned(admin: Visitor) -> None:
    page = admin.page
    page.get_by_role("link", name="Forwarding", exact=True).click()
    page.get_by_role("cell", name="2 · 3").wait_for()
    page.get_by_role("img", name="Window over time").wait_for()
    page.get_by_role("cell", name="the best so far").wait_for()
    learned = page.get_by_role("table", name="What the council learned").get_by_role("row").nth(1)
    assert "file-per-process" in learned.inner_text() and "2 ms" in learned.inner_text()
    admin.shot("forwarding")


def test_the_schedule_shows_which_jobs_start_when_and_why_the_others_wait(admin: Visitor) -> None:
    page = admin.page
    page.get_by_role("link", name="Schedule", exact=True).click()
    page.get_by_text("Shadow mode: this is what the planner would do.").wait_for()
    waiting = page.get_by_role("table", name="Planned jobs").get_by_role("row")
    assert [waiting.nth(k).get_by_role("cell").first.inner_text() for k in range(1, 4)] == ["3", "4", "5"]
    assert "It waits for" in waiting.nth(2).inner_text()
    assert "Dependency" in page.get_by_role("table", name="Jobs that are not planned").inner_text()
    page.get_by_role("img", name="Jobs over time").wait_for()
    admin.shot("schedule")
    page.set_viewport_size({"width": 360, "height": 844})
    assert page.evaluate("() => document.querySelector('main').scrollWidth <= innerWidth")
    admin.shot("schedule-narrow")
    page.set_viewport_size({"width": 1360, "height": 860})
