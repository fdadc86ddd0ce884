"""The page of a run: what it says, that it is well-formed, and that names in a log cannot change it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forebay.profile.findings.diagnosis import diagnose_log
from forebay.profile.findings.finding import Code, Finding
from forebay.show.run import drawings
from forebay.show.run.findings import TITLES, show_finding
from forebay.show.run.from_log import make_log_page
from forebay.show.run.page import render_page
from support.darshan_logs import POSIX, Parts, all_logs, wheel_log, wheel_logs
from support.hostile_names import write_hostile_log
from support.html_pages import Page
from support.labelled_logs import KIB, MIB, Program, many_files, own, shared_turns, striped


def page_of(path: Path) -> str:
    return render_page(make_log_page(diagnose_log(path), None))


@pytest.mark.parametrize("path", wheel_logs(), ids=lambda path: path.name)
def test_the_page_of_every_log_is_well_formed_and_has_its_findings(path: Path) -> None:
    diagnosis = diagnose_log(path)
    html = render_page(make_log_page(diagnosis, None))
    page = Page(html)
    for finding in diagnosis.findings:
        assert str(finding.code) in page.text and finding.seen in page.text
    if not diagnosis.findings:
        assert "No finding" in page.text or "no I/O" in page.text
    assert len(html) < 200_000


def test_titles_exist_for_every_code() -> None:
    assert set(TITLES) == set(Code)


def test_a_finding_has_its_commands_apart() -> None:
    remedy = "Before the run: lfs setstripe -c 8 -S 4M DIR (existing files keep theirs), hint romio_cb_write=enable."
    shown = show_finding(Finding(code=Code.STRIPE_COUNT, seen="a", because="b", remedy=remedy, predicted_gain=1.5))
    assert shown.commands == ["lfs setstripe -c 8 -S 4M DIR"]
    assert "<code>lfs setstripe -c 8 -S 4M DIR</code>" in shown.remedy
    assert "<code>romio_cb_write=enable</code>" in shown.remedy
    assert shown.badges == ["1.5 times as fast without it", "predicted by a model"]


def test_names_in_a_log_are_text_on_the_page(tmp_path: Path) -> None:
    html = page_of(write_hostile_log(tmp_path / "hostile.darshan"))
    page = Page(html)
    assert set(page.tags) & {"script", "img", "b", "iframe"} <= {"b"}
    assert "/tmp/<script>alert(1)</script>" in page.text and "{{ 7 * 7 }}{% raw %}&lt;b&gt;" in page.text
    assert not any(character in html for character in "\x1b\u202e\x00")
    html.encode("utf-8")


def test_a_command_line_is_text_on_the_page(tmp_path: Path) -> None:
    path = wheel_log("sample-goodost.darshan")
    log = tmp_path / "x<i>y\xff.darshan"
    Parts(path).with_mounts(("<b>lustre", "/scratch1/<u>")).write(log)
    page = Page(page_of(log))
    assert "x<i>y" in page.text and "u" not in page.tags


def test_what_is_not_in_the_log_is_said(tmp_path: Path) -> None:
    text = Page(page_of(wheel_log("sample-badost.darshan"))).text
    assert "neither a heat map nor a trace of requests" in text and "it hides who moved what" in text
    empty = Page(page_of(Program(nprocs=2).write(tmp_path / "empty.darshan"))).text
    assert "The log records no I/O of files." in empty and "Storage targets" not in empty


def test_a_slow_ost_is_red_and_named() -> None:
    html = page_of(wheel_log("sample-badost.darshan"))
    assert 'class="slow"' in html and "OST 14 took much longer for each byte than the others." in Page(html).text


def test_a_page_stays_small_however_many_files_and_osts(tmp_path: Path) -> None:
    program = Program(nprocs=64)
    many_files(program, 100)
    shared_turns(program, 50, 64 * KIB)
    striped(program, 1, list(range(2000)))
    own(program, MIB, MIB)
    assert len(page_of(program.write(tmp_path / "large.darshan"))) < 200_000


def test_records_of_other_formats_are_shown(tmp_path: Path) -> None:
    stdio_only = Parts(wheel_log("noposix.darshan")).without_module(POSIX).write(tmp_path / "stdio.darshan")
    assert "does not record those of the C library's streams" in Page(page_of(stdio_only)).text
    for path in all_logs():
        if "DFS" in path.name:
            assert "Requests to DAOS" in Page(page_of(path)).text


# Drawings


def test_the_cells_of_a_heat_map_cover_what_moved() -> None:
    rates = np.zeros((3, 10))
    rates[0, 2:5], rates[2, 9] = 100.0, 1.0
    picture, (least, most) = drawings.draw_heat(rates, "heat")
    assert (least, most) == (1.0, 100.0)
    assert f'<path class="heat-{drawings.LEVELS}" d="M2 0h3v1H2z"/>' in picture
    assert '<path class="heat-1" d="M9 2h1v1H9z"/>' in picture and picture.count("<path") == 2


def test_equal_rates_have_one_colour() -> None:
    picture, _ = drawings.draw_heat(np.full((2, 4), 7.0), "heat")
    assert picture.count("<path") == 1


def test_a_hostile_label_stays_a_label() -> None:
    picture = drawings.draw_columns([1.0, 2.0], ["past", "this"], '"><script>', ["<b>", "&"])
    assert "<script>" not in picture and "<b>" not in picture and "&lt;b&gt;" in picture


def test_parts_never_exceed_the_whole() -> None:
    picture = drawings.draw_parts([(0.7, "read"), (0.7, "write"), (0.1, "meta")])
    assert 'x="70" width="30"' in picture and "meta" not in picture


def test_findings_beyond_the_first_are_counted(tmp_path: Path) -> None:
    program = Program(nprocs=8)
    shared_turns(program, 1000, 47008)
    diagnosis = diagnose_log(program.write(tmp_path / "hard.darshan"))
    assert len(diagnosis.findings) > 1
    text = Page(render_page(make_log_page(diagnosis, None))).text
    assert f"{len(diagnosis.findings) - 1} more below." in text
    nothing = replace(diagnosis, findings=[])
    assert "No finding" in Page(render_page(make_log_page(nothing, None))).text
