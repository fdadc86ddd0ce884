"""A person is told while kernels are compiled, once, and only then."""

from __future__ import annotations

import pytest

from forebay.model.compile_hooks import WITHOUT_NOTICE, hooks
from forebay.show.compile_notice import announce_compiling


@pytest.fixture(autouse=True)
def own_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "before", hooks.before)
    monkeypatch.setattr(hooks, "after", hooks.after)
    monkeypatch.setattr(hooks, "set_in_worker", hooks.set_in_worker)


def compile_two_kernels() -> None:
    """The first of which calls another."""
    hooks.before("outer")
    hooks.before("inner")
    hooks.after("inner")
    hooks.after("outer")
    hooks.before("second")
    hooks.after("second")


def test_elsewhere_than_on_a_terminal_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    announce_compiling()
    compile_two_kernels()
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err == "forebay: compiling for this machine (once per version); this takes up to a minute\n"


def test_on_a_terminal_it_is_a_bar_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    announce_compiling()
    compile_two_kernels()
    heard = capsys.readouterr().err
    assert "Compiling for this machine" in heard
    assert heard.endswith("\r\x1b[K")  # the line is empty again


def test_a_worker_prints_one_line_also_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    announce_compiling()
    hooks.set_in_worker()
    compile_two_kernels()
    line = "forebay: compiling for this machine (once per version); this takes up to a minute\n"
    assert capsys.readouterr().err == f"\r\x1b[K{line}"  # over the bar of its parent


def test_a_process_whose_errors_a_program_reads_prints_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WITHOUT_NOTICE, "1")
    announce_compiling()
    compile_two_kernels()
    assert capsys.readouterr().err == ""


def test_nothing_is_said_where_nothing_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    announce_compiling()
    assert capsys.readouterr().err == ""
