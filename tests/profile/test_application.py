"""An application's profile, against naive answers."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.history.store.past_runs import Behaviour
from forebay.model.curve import Curve
from forebay.profile.access_pattern import pattern_of
from forebay.profile.application import commonest_count, drift_of, nearest_count, profile_of, spread
from forebay.show.history.profile import summarize
from support.made_up_runs import MIB, START, behaviour

RUN = st.fixed_dictionaries(
    {
        "nprocs": st.sampled_from([1, 16, 64]),
        "count": st.sampled_from([None, 1, 2, 8]),
        "partial_flag": st.booleans(),
        "perf_by_slowest": st.sampled_from([0.0, 1e8, 2e8, 7e8]),
        "total_bytes": st.sampled_from([0, 10**9, 4 * 10**9]),
    }
)


@given(st.lists(RUN, min_size=1, max_size=30))
def test_the_curve_is_the_median_of_whole_timed_runs_by_osts(kinds: list[dict[str, Any]]) -> None:
    runs = [behaviour(i, **kind) for i, kind in enumerate(kinds)]
    found = profile_of("vpic", runs, 16)
    perf: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        if run.nprocs == found.processes and not run.partial_flag and run.perf_by_slowest and run.stripe_count:
            perf[run.stripe_count].append(run.perf_by_slowest)
    assert {n: perf.runs for n, perf in found.points.items()} == {n: len(values) for n, values in perf.items()}
    expected = Curve.of({n: float(np.median(values)) for n, values in perf.items()}) if perf else None
    assert found.curve == expected
    assert found.runs == sum(run.nprocs == found.processes for run in runs)
    assert sum(n for _, n in found.process_counts) == len(runs)


@given(st.lists(st.integers(1, 5000), min_size=1), st.integers(1, 5000))
def test_the_nearest_number_of_processes_is_nearest_by_ratio(counts: list[int], wanted: int) -> None:
    found = nearest_count(counts, wanted)
    ratio = max(found / wanted, wanted / found)
    assert found in counts
    assert all(ratio <= max(n / wanted, wanted / n) * (1 + 1e-9) for n in counts)


def test_without_a_number_the_commonest_is_taken_and_of_several_the_latest() -> None:
    def of(*counts: int) -> list[Behaviour]:
        return [behaviour(i, nprocs=n) for i, n in enumerate(counts)]

    assert commonest_count(of(8, 8, 4)) == 8
    assert commonest_count(of(8, 4, 8, 4)) == 4
    assert commonest_count([*of(8, 8), behaviour(2, nprocs=2, partial_flag=False)]) == 8
    assert commonest_count([behaviour(0, nprocs=8, partial_flag=True), behaviour(1, nprocs=2)]) == 2


def test_runs_on_another_file_system_tell_nothing_of_this_one() -> None:
    mounts = ["/scratch", "/home", None, "", "/scratch", "/home", "/scratch"]
    runs = [behaviour(i, filesystem=mount, perf_by_slowest=1e8 * (i + 1)) for i, mount in enumerate(mounts)]
    here, there = profile_of("vpic", runs), profile_of("vpic", runs, filesystem="/home")
    assert (here.filesystem, here.runs, here.elsewhere) == ("/scratch", 5, (("/home", 2),))
    assert (there.filesystem, there.runs, there.elsewhere) == ("/home", 4, (("/scratch", 3),))
    assert here.curve == profile_of("vpic", [run for run in runs if run.filesystem != "/home"]).curve != there.curve
    assert here.elsewhere and not profile_of("vpic", runs[2:5]).elsewhere
    more = profile_of("vpic", [*runs, behaviour(9, nprocs=8, filesystem="/scratch")], filesystem="/home")
    assert more.process_counts == ((64, 4),)


def test_runs_on_an_unknown_file_system_are_counted_and_show_no_drift() -> None:
    placed = [behaviour(i, filesystem="/scratch", perf_by_slowest=1e8) for i in range(20)]
    unknown = [behaviour(20 + i, filesystem=None, perf_by_slowest=9e8) for i in range(20)]
    found = profile_of("vpic", [*placed, *unknown])
    assert (found.runs, found.unplaced_runs) == (40, 20)
    assert found.drift == profile_of("vpic", placed).drift and found.drift.verdict == "no drift"
    said = summarize(found, None)
    assert any(line.startswith("20 of 40 runs used /scratch; the file system of the other 20 is") for line in said)
    assert profile_of("vpic", unknown).unplaced_runs == 20
    assert not any("known" in line for line in summarize(profile_of("vpic", placed), None))


def test_partial_runs_are_counted_and_left_out() -> None:
    runs = [behaviour(i, perf_by_slowest=1e8) for i in range(3)]
    runs.append(behaviour(3, partial_flag=True, perf_by_slowest=9e9, total_bytes=1))
    found = profile_of("vpic", runs)
    assert (found.runs, found.partial_runs, found.only_partial) == (4, 1, False)
    assert next(iter(found.points.values())).runs == 3
    assert found.measures["total_bytes"].median == 1000 * MIB


def test_where_all_runs_are_partial_there_is_no_curve_drift_or_forecast() -> None:
    found = profile_of("vpic", [behaviour(i, partial_flag=True) for i in range(20)])
    assert found.only_partial
    assert (found.curve, found.forecast, found.drift.verdict) == (None, None, "too few runs")
    assert found.measures["total_bytes"].runs == 20
    assert found.pattern.sharing == "shared file"


def test_measures_tell_how_runs_spread() -> None:
    found = profile_of("vpic", [behaviour(i, total_bytes=(i + 1) * 10**9, common_size=i and 4096) for i in range(11)])
    volume = found.measures["total_bytes"]
    assert (volume.median, volume.p10, volume.p90, volume.runs) == (6e9, 2e9, 10e9, 11)
    assert found.measures["common_size"].runs == 10  # 0 says that nothing is known
    assert found.measures["mean_request_size"].median == 6e6
    assert (found.first_start_time, found.last_start_time) == (START, START + 600)


def test_layouts_are_told_apart_by_stripes_and_size_fastest_first() -> None:
    runs = [behaviour(0, count=24, file_stripe_count=1, perf_by_slowest=1e8)]
    runs += [behaviour(i, count=24, stripe_size=8 * MIB, perf_by_slowest=5e8) for i in (1, 2)]
    found = profile_of("vpic", runs)
    assert [(*layout, perf.runs) for layout, perf in found.layouts.items()] == [
        (24, 8 * MIB, 2),
        (1, MIB, 1),
    ]
    assert [(n, perf.runs) for n, perf in found.points.items()] == [(24, 3)]


def test_the_forecast_is_the_usual_volume_on_the_best_known_count() -> None:
    runs = [behaviour(i, count=c, perf_by_slowest=p * 1e9, total_bytes=6 * 10**9) for i, (c, p) in
            enumerate([(1, 1), (4, 3), (8, 2)])]  # fmt: skip
    forecast = profile_of("vpic", runs).forecast
    assert forecast is not None
    assert forecast.count == 4 and forecast.seconds == pytest.approx(2.0)
    assert forecast.total_bytes.median == 6e9


def test_without_osts_the_forecast_is_what_runs_took() -> None:
    forecast = profile_of("vpic", [behaviour(0, count=None, time_by_slowest=12.5)]).forecast
    assert forecast is not None
    assert (forecast.count, forecast.seconds) == (None, 12.5)


# The pattern


def test_sharing_is_by_bytes() -> None:
    def sharing(shared: int, io_procs: int = 64, total: int = 100) -> str:
        return pattern_of([behaviour(0, shared_bytes=shared, total_bytes=total, io_procs=io_procs)]).sharing

    assert [sharing(s) for s in (0, 10, 11, 89, 90, 100)] == [
        *("file per process", "file per process", "both", "both", "shared file", "shared file"),
    ]
    assert sharing(0, io_procs=1) == "one process"
    assert sharing(0, total=0) == "no I/O"


@pytest.mark.parametrize(
    ("forward", "consecutive", "strided", "order"),
    [
        (990, 900, 50, "contiguous"),
        (990, 0, 900, "strided"),
        (990, 0, 10, "with gaps"),
        (500, 0, 100, "random"),
        (100, 50, 50, "backwards"),
        (900, 400, 400, "mixed"),
    ],
)
def test_order_is_what_more_than_half_of_the_requests_do(
    forward: int, consecutive: int, strided: int, order: str
) -> None:
    found = pattern_of([
        behaviour(0, seq_requests=forward, consec_requests=consecutive, strided_requests=strided, shared_files=0)
    ])  # fmt: skip
    assert found.order == order
    shares = (found.contiguous, found.strided, found.with_gaps, found.random, found.backwards)
    assert sum(share for share in shares if share is not None) == pytest.approx(1)


def test_one_request_in_each_file_is_no_random_access() -> None:
    none = {"seq_requests": 0, "consec_requests": 0, "strided_requests": 0}
    found = pattern_of([behaviour(0, total_files=1000, shared_files=0, **none)])
    assert (found.order, found.random) == ("one request per file", None)


def test_where_only_stdio_was_recorded_the_order_is_unknown() -> None:
    none = {"seq_requests": 0, "consec_requests": 0, "strided_requests": 0, "pattern_requests": 0}
    assert pattern_of([behaviour(0, **none)]).order == "unknown"


# Drift


def of_speed(*perf: float, **others: Any) -> list[Behaviour]:
    return [behaviour(i, perf_by_slowest=p * 1e8, **others) for i, p in enumerate(perf)]


def test_runs_that_become_slower_have_a_drift() -> None:
    found = drift_of(of_speed(*[1.0, 1.01, 1.02, 1.03, 1.04, 1.05] * 2, *[0.5, 0.51, 0.52, 0.53, 0.54, 0.55]))
    assert found.verdict == "slower"
    assert found.ratio == pytest.approx(0.525 / 1.025)
    assert (found.early_runs, found.late_runs) == (6, 6)


def test_the_middle_third_does_not_matter() -> None:
    ends = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
    assert drift_of(of_speed(*ends, *[90.0] * 6, *ends)).verdict == "no drift"


def test_a_sure_difference_of_a_few_percent_is_no_drift() -> None:
    found = drift_of(of_speed(*np.linspace(1, 1.01, 20), *[1.0] * 20, *np.linspace(1.05, 1.06, 20)))
    assert found.p_value is not None
    assert found.p_value < 1e-6
    assert found.verdict == "no drift"


def test_a_large_difference_that_may_be_chance_is_no_drift() -> None:
    found = drift_of(of_speed(1, 5, 2, 4, *[1.0] * 4, 3, 9, 1.5, 4.5))
    assert found.ratio is not None
    assert found.ratio > 1.1
    assert found.verdict == "no drift"


def test_a_better_layout_is_no_drift() -> None:
    runs = [behaviour(i, count=1 if i < 15 else 8, perf_by_slowest=1e8 if i < 15 else 8e8) for i in range(30)]
    assert drift_of(runs).verdict == "too few runs"


def test_few_runs_have_no_drift_to_speak_of() -> None:
    found = drift_of(of_speed(1, 1, 1, 9, 9, 9))
    assert (found.verdict, found.ratio, found.p_value) == ("too few runs", None, None)
    assert drift_of([]).verdict == "too few runs"


@given(st.lists(st.floats(0, 1e15), min_size=1))
def test_a_spread_is_ordered_and_within_its_values(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    ordered = (min(values), found.p10, found.median, found.p90, max(values))
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(ordered))
    assert found.runs == len(values)
