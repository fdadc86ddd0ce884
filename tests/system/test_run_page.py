"""The page of a run in a real browser: it fits on a phone, needs no script, and complains of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.profile.findings.diagnosis import diagnose_log
from forebay.show.run.from_log import make_log_page
from forebay.show.run.page import render_page
from support.browser import MISSING, browser, visitor
from support.darshan_logs import all_logs, wheel_log
from support.hostile_names import write_hostile_log

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is a browser")
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
_DIFFERENT = (
    "sample-badost", "ior_hdf5_example", "dxt", "noposix", "shane_macsio", "e3sm_io_heatmap_only", "empty_log",
    "imbalanced-io", "partial_data_stdio", "snyder_ior-DFS", "shane_ior-PNETCDF", "nonmpi_dxt",
)  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pages")
    logs = {path.name: path for path in all_logs() if path.name.startswith(_DIFFERENT)}
    logs["hostile"] = write_hostile_log(folder / "hostile.darshan")
    made = []
    for name, log in logs.items():
        made.append(folder / f"{name}.html")
        made[-1].write_text(render_page(make_log_page(diagnose_log(log), None)), encoding="utf-8")
    return made


@pytest.mark.parametrize("viewport", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_scrolls_sideways_or_complains(
    chromium: Any, pages: list[Path], viewport: dict[str, int], scheme: str
) -> None:
    with visitor(chromium, viewport=viewport, scheme=scheme) as guest:
        for page in pages:
            guest.page.goto(page.as_uri())
            width = guest.page.evaluate("document.documentElement.scrollWidth")
            assert width <= viewport["width"], page.name
        assert guest.said == [] and guest.elsewhere("file:") == []


def test_files_are_sorted_without_a_script(chromium: Any, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    page.write_text(render_page(make_log_page(diagnose_log(wheel_log("sample-badost.darshan")), None)))
    context = chromium.new_context(java_script_enabled=False)
    try:
        tab = context.new_page()
        tab.goto(page.as_uri())
        tables = tab.locator(".choice")
        assert [tables.nth(place).is_visible() for place in range(3)] == [True, False, False]
        tab.locator("label", has_text="Slowest").click()
        assert [tables.nth(place).is_visible() for place in range(3)] == [False, True, False]
        tab.emulate_media(media="print")
        assert all(tables.nth(place).is_visible() for place in range(3))
    finally:
        context.close()
