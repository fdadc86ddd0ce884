"""`forebay show` in a real browser: a journal at any moment, and a study, without a service."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.history.store import open_store
from forebay.history.store.journal import append_entries
from support.browser import MISSING, Visitor, browser, visitor
from support.page_world import ANN, PageWorld
from support.processes import limited, piped, started

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is a browser")


@contextmanager
def showing(what: Path) -> Iterator[str]:
    """The address that the command tells; it ends at Ctrl-C as it should."""
    argv = (sys.executable, "-m", "forebay", "show", str(what), "--json")
    with started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield str(json.loads(limited(piped(process.stdout).readline))["address"])
        finally:
            process.send_signal(signal.SIGINT)
            assert (process.wait(60), limited(piped(process.stderr).read)) == (0, "")


@pytest.fixture(scope="module")
def guest() -> Iterator[Visitor]:
    with browser() as chromium, visitor(chromium) as made:
        yield made
        assert [url for url in made.asked if not url.startswith("http://127.0.0.1:")] == [] and made.said == []


def test_a_journal_is_shown_at_any_moment(guest: Visitor, tmp_path: Path) -> None:
    world = PageWorld()
    world.node("a", "x", "y", fields={"tier": "nvme"})
    before = world.live.last
    grant = world.ask(ANN, 50, job="4713")
    world.carry_out()
    with open_store(str(tmp_path / "service.db")) as store, store.open_writer() as connection:
        append_entries(connection, list(world.live.recent))
    with showing(tmp_path / "service.db") as address:
        page = guest.page
        page.goto(address)
        page.get_by_text(f"event {world.live.last} of {world.live.last}").wait_for()
        page.get_by_role("link", name="Decisions", exact=True).click()
        page.get_by_role("link", name=grant[:8]).first.click()
        page.locator("aside .story").get_by_text("requests 50 B").wait_for()
        assert page.get_by_role("button", name="Release").count() == 0
        slider = page.get_by_role("slider", name="Moment")
        slider.focus()
        for _ in range(world.live.last - before):
            page.keyboard.press("ArrowLeft")
        page.get_by_text(f"event {before} of {world.live.last}").wait_for()
        page.get_by_text("This grant is no longer listed.").wait_for()
        page.get_by_text("At this moment it was not requested yet").wait_for()
        guest.shot("show-journal")
    guest.said.clear()  # the browser tells of the 404, too


def test_a_study_is_shown_with_its_figures_and_its_report(guest: Visitor, tmp_path: Path) -> None:
    import matplotlib.image
    import numpy as np

    told = {"study": "io-nodes", "conclusions": ["one policy is faster"], "settings": {"seed": 7}}
    (tmp_path / "results.json").write_text(json.dumps(told))
    (tmp_path / "report.html").write_text("<!doctype html><title>r</title><h1>The report</h1>")
    matplotlib.image.imsave(tmp_path / "figure-05-slowdown.png", np.zeros((8, 8, 3)))
    with showing(tmp_path) as address:
        page = guest.page
        page.goto(address)
        page.get_by_text("one policy is faster").wait_for()
        image = page.get_by_alt_text("Figure 5: slowdown")
        image.scroll_into_view_if_needed()
        image.wait_for()
        with page.expect_popup() as opened:
            page.get_by_role("link", name="The whole report").click()
        opened.value.get_by_role("heading", name="The report").wait_for()
        opened.value.close()


def test_a_folder_with_nothing_in_it_is_told_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "forebay", "show", str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "contains neither a study" in done.stderr


def test_the_switch_between_light_and_dark_lasts(guest: Visitor, tmp_path: Path) -> None:
    world = PageWorld()
    world.node("a", "x", fields={"tier": "nvme"})
    with open_store(str(tmp_path / "service.db")) as store, store.open_writer() as connection:
        append_entries(connection, list(world.live.recent))
    ground = "() => getComputedStyle(document.documentElement).getPropertyValue('--bg')"
    with showing(tmp_path / "service.db") as address:
        page = guest.page
        page.emulate_media(color_scheme="light")
        page.goto(address)
        switch = page.get_by_role("button", name="Light or dark")
        switch.wait_for()
        light = page.evaluate(ground)
        page.emulate_media(color_scheme="dark")
        dark = page.evaluate(ground)
        assert light != dark  # as the system has it
        switch.click()
        assert page.evaluate(ground) == light
        page.reload()
        switch.wait_for()
        assert page.evaluate(ground) == light
        switch.click()
        page.emulate_media(color_scheme="light")
        assert page.evaluate(ground) == dark
