"""What figures of the history say, against what they draw."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from forebay.history.store.totals import LayoutSums
from forebay.profile.application import profile_of
from forebay.profile.filesystem_usage import usage
from forebay.show.figures import history as history_figures
from forebay.show.figures import profile as history_profile
from support.made_up_runs import a_run, behaviour


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    """The figures, instead of files of them."""
    figures: list[Figure] = []

    def keep(figure: Figure, path: Path) -> Path:
        figures.append(figure)
        return path

    for module in (history_profile, history_figures):
        monkeypatch.setattr(module, "write", keep)
    yield figures


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_runs_that_are_not_drawn_are_counted(drawn: list[Figure]) -> None:
    rows = [a_run(i, perf_by_slowest=0.0 if i == 7 else 1e9) for i in range(40)]
    history_figures.draw_runs("vpic", rows, Path())
    assert titles(drawn[0]) == ["vpic: 39 of 40 runs; 1 without timed I/O"]


def test_a_figure_says_on_which_file_systems_its_runs_were(drawn: list[Figure]) -> None:
    for mounts, told in (
        (["/home", None], "vpic on /home: 2 runs"),
        (["/home", "/work"], "vpic on 2 file systems: 2 runs"),
    ):
        history_figures.draw_runs("vpic", [a_run(i, filesystem=mount) for i, mount in enumerate(mounts)], Path())
        assert titles(drawn[-1]) == [told]
    runs = [behaviour(i, filesystem="/home") for i in range(2)]
    history_profile.draw_profile(profile_of("vpic", runs), runs, Path())
    assert "vpic, 64 processes on /home: 2 runs" in str(drawn[-1].get_suptitle())
    history_figures.draw_apps([], "all 2 file systems", Path())
    assert drawn[-1].get_suptitle() == "Runs on all 2 file systems"


def test_the_legend_has_what_is_drawn_and_nothing_else(drawn: list[Figure]) -> None:
    rows = [a_run(0, count=1), a_run(1, count=4, partial_flag=True), a_run(2, count=8, perf_by_slowest=0.0)]
    history_figures.draw_runs("vpic", rows, Path())
    (legend,) = drawn[0].legends
    entries = {text.get_text(): handle for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    assert list(entries) == ["1 OST", "4 OSTs, partial log"]
    looks = {(line.get_marker(), str(line.get_color())) for line in drawn[0].axes[0].lines}
    assert {(handle.get_marker(), str(handle.get_color())) for handle in entries.values()} == looks  # type: ignore[union-attr]


def test_shares_are_not_rounded_to_others_and_say_of_what(drawn: list[Figure]) -> None:
    def some(osts: int, runs: int) -> LayoutSums:
        rest = dict.fromkeys(("total_bytes", "pattern_requests", "seq_requests", "io_less_1k", "io_1k_to_100k"), 0)
        kind = {"stripe_count": osts, "file_stripe_count": 1, "stripe_size": 1 << 20, "partial_flag": False}
        return LayoutSums(**kind, runs=runs, **rest)  # type: ignore[arg-type]

    history_figures.draw_usage(usage([some(1, 6), some(2, 1), some(8, 33)]), "", Path())
    assert "15 % of the runs have one" in titles(drawn[0])[0]
    assert "on the default" not in " ".join(titles(drawn[0]))
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["15 %", "2.5 %", "82.5 %"]
    assert drawn[0].get_suptitle().startswith("100 % of the runs use the default layout")


@pytest.mark.parametrize(
    ("runs", "panels"),
    [
        ([{}], ["order of requests", "sizes of requests"]),
        ([{}, {}], ["2 runs, all on 1 OST", "order of requests", "sizes of requests"]),
        ([{}, {"count": None}], ["2 runs, 1 on 1 OST", "order of requests", "sizes of requests"]),
        ([{"count": None}] * 3, ["3 runs, OSTs unknown", "order of requests", "sizes of requests"]),
        ([{}, {"count": 4}], ["bandwidth by OSTs, b(n)", "order of requests", "sizes of requests"]),
    ],
)
def test_a_profile_draws_what_there_is_to_see(
    drawn: list[Figure], runs: list[dict[str, Any]], panels: list[str]
) -> None:
    found = [behaviour(i, **values) for i, values in enumerate(runs)]
    history_profile.draw_profile(profile_of("vpic", found), found, Path())
    assert titles(drawn[0]) == panels
    for axes in drawn[0].axes:
        points = sum(len(np.atleast_1d(line.get_xdata())) for line in axes.lines) + len(axes.patches)
        assert points >= 1
        assert axes.patches or points > 1  # never one dot in an empty frame


def test_a_profile_without_io_says_so(drawn: list[Figure]) -> None:
    none = {"perf_by_slowest": 0.0, "total_bytes": 0, "pattern_requests": 0, "seq_requests": 0, "consec_requests": 0}
    empty = {"read_sizes": ",".join("0" * 10), "write_sizes": ",".join("0" * 10)}
    found = [behaviour(0, **none, **empty)]
    history_profile.draw_profile(profile_of("vpic", found), found, Path())
    assert [text.get_text() for text in drawn[0].axes[0].texts] == ["no reads or writes were recorded"]
    assert not drawn[0].axes[0].axison
