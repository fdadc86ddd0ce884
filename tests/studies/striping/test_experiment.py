"""The evaluation of Kim et al. 2022 on a small grid, and its statements on a larger one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.errors import UnknownName
from forebay.model.layout import MIB, Layout
from forebay.show.rows import select
from forebay.simulate.striping.first_runs import Case
from forebay.simulate.striping.machine import CORI, FIO_SEQUENTIAL, GCRM, LOCAL, VPIC, VPIC_INDEPENDENT
from forebay.studies.finished_pieces import Interrupted
from forebay.studies.runner import run_study
from forebay.studies.striping.experiment import (
    LEVELS,
    NUMBERS,
    SIZES,
    StripingStudy,
    best_layout,
    judge_runs,
    noise_cases,
    paper_panels,
    policies_for,
)
from forebay.studies.striping.results import APART, ASSUMED, NOISE, PAPER, RUN, StripingResults, gains, later_runs

KEYS = ("figure-07/processes-1", "figure-09/processes-4", "figure-14/vpic-io/processes-2/fio-2")
SMALL = StripingStudy(
    panels={key: paper_panels()[key] for key in KEYS},
    cases={"vpic-io-4": noise_cases()["vpic-io-4"]},
    assumed=("process_bandwidth",),
    policies=("default", "tapp-io", "dca-io"),
    repetitions=2,
    seeds=2,
    seed=3,
    runs=4,
    noise_runs=6,
)


def quiet(_: int) -> None: ...


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> StripingResults:
    return run_study(SMALL, tmp_path_factory.mktemp("small") / "pieces", workers=1, progress=quiet)


# The grid


def test_the_papers_figures_are_all_there() -> None:
    settings = paper_panels()
    for figure in range(7, 12):
        own = [s.case for s in settings.values() if s.figure == figure]
        assert [(c.processes, c.machine.name, c.others) for c in own] == [(n, "local", ()) for n in (1, 2, 4, 8)]
    for figure in (12, 13):
        own = [s.case for s in settings.values() if s.figure == figure]
        assert [c.machine.nodes(c.processes) for c in own] == [1, 4, 16, 64]
        assert all(c.machine is CORI for c in own)
    beside = [s for s in settings.values() if s.figure == 14 and s.case.processes == 4]
    assert [(s.case.program.name, s.fio) for s in beside] == [
        (name, fio) for name in ("VPIC-IO", "GCRM-IO", "VORPAL-IO") for fio in (1, 2, 4)
    ]
    assert beside[1].case.others == (4, 4, 0, 0)


def test_beside_fio_the_policies_are_those_of_the_paper() -> None:
    policies = ("default", "tapp-io", "dca-io", "mine")
    assert policies_for(paper_panels()[KEYS[0]], policies) == list(policies)
    assert policies_for(paper_panels()[KEYS[2]], policies) == ["default", APART, "dca-io", "mine"]


def test_every_run_of_every_policy_and_repetition_is_a_row(small: StripingResults) -> None:
    assert small.runs.dtype == RUN and small.runs.size == 3 * 3 * 2 * 4
    assert small.noise.dtype == NOISE and small.noise.size == len(LEVELS) * 3 * 2 * 2
    assert small.figures() == [7, 9, 14]
    assert small.panels(14) == [("VPIC-IO", 2, 2)]
    assert set(small.of(figure=14)["policy"].tolist()) == {"default", APART, "dca-io"}
    assert set(small.runs["run"].tolist()) == {1, 2, 3, 4}


def test_rows_say_what_the_model_says(small: StripingResults) -> None:
    for row in small.runs:
        setting = next(s for s in SMALL.panels.values() if (s.figure, s.fio) == (row["figure"], row["fio"]))
        layout = Layout(count=int(row["stripe_count"]), size=int(row["stripe_size"]), start=int(row["first_target"]))
        assert row["expected"] == setting.case.throughput(layout)
        assert 0.7 < row["throughput"] / row["expected"] < 1.4


def test_noise_is_the_same_for_all_policies(small: StripingResults) -> None:
    factors: dict[tuple[object, ...], list[float]] = {}
    for row in small.runs:
        key = tuple(row[["figure", "repetition", "run"]].tolist())
        factors.setdefault(key, []).append(row["throughput"] / row["expected"])
    assert all(own == pytest.approx([own[0]] * 3) for own in factors.values())
    assert len({round(own[0], 9) for own in factors.values()}) == len(factors)


def test_any_number_of_workers_gives_the_same_bytes(small: StripingResults, tmp_path: Path) -> None:
    again = run_study(SMALL, tmp_path / "pieces", workers=2, progress=quiet)
    assert again.runs.tobytes() == small.runs.tobytes()
    assert again.noise.tobytes() == small.noise.tobytes()


def test_another_seed_gives_other_runs(small: StripingResults) -> None:
    other = replace(SMALL, seed=4).run_piece(KEYS[0])
    assert (other["throughput"] != select(small.runs, figure=7)["throughput"]).any()


def test_an_interrupted_study_goes_on_where_it_was(small: StripingResults, tmp_path: Path) -> None:
    def stop(done: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        run_study(SMALL, tmp_path, workers=1, progress=stop)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    assert len(kept) == 2
    again = run_study(SMALL, tmp_path, workers=1, progress=quiet)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert again.runs.tobytes() == small.runs.tobytes()


def test_an_unknown_policy_is_named_before_anything_is_run(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'dca-io'"):
        run_study(replace(SMALL, policies=("dca-oi",)), tmp_path / "new", workers=1, progress=quiet)
    assert not (tmp_path / "new").exists()


# The paper's statements, as far as they hold in the model


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> StripingResults:
    """All figures of the local cluster, few repetitions."""
    chosen = {k: s for k, s in paper_panels().items() if s.case.machine is LOCAL}
    study = replace(SMALL, panels=chosen, cases={}, assumed=(), repetitions=5, runs=10)
    return run_study(study, tmp_path_factory.mktemp("local"), workers=1, progress=quiet)


def gain(results: StripingResults, figure: int, application: str, against: str) -> float:
    found = [g for g in gains(results) if (g.figure, g.application, g.against) == (figure, application, against)]
    assert len(found) == 1
    return found[0].percent


def test_dca_io_improves_on_default_by_about_what_the_paper_says(local: StripingResults) -> None:
    for figure, application in ((7, "FIO sequential"), (9, "VPIC-IO"), (10, "GCRM-IO"), (11, "VORPAL-IO")):
        paper = next(c["percent"] for c in PAPER["claims"] if (c["figure"], c["against"]) == (figure, "default"))
        assert gain(local, figure, application, "default") == pytest.approx(paper, abs=20)


def test_default_and_tapp_io_are_the_same_for_a_file_per_process(local: StripingResults) -> None:
    for figure in (7, 8):
        rows = [select(local.of(figure=figure), policy=name) for name in ("default", "tapp-io")]
        assert (rows[0]["expected"] == rows[1]["expected"]).all()


def test_few_processes_gain_most_with_files_of_their_own(local: StripingResults) -> None:
    means = []
    for processes in (1, 2, 4, 8):
        here = later_runs(local.of(figure=7, processes=processes))
        own, other = (select(here, policy=p)["expected"].mean() for p in ("dca-io", "default"))
        means.append(own / other)
    assert means[0] > 1.5 and means[1] > 1.5 and means[2:] == pytest.approx([1, 1], abs=0.01)


def test_the_second_run_of_vpic_io_is_slower_than_the_first_and_the_later_ones_are_not(local: StripingResults) -> None:
    for processes in (1, 2, 4):
        here = select(local.of(figure=9, processes=processes), policy="dca-io")
        first, second, last = (here["expected"][here["run"] == n].mean() for n in (1, 2, 10))
        assert second < first and last > second


def test_beside_fio_on_all_targets_dca_io_is_several_times_as_fast_as_default(local: StripingResults) -> None:
    for application in ("VPIC-IO", "GCRM-IO", "VORPAL-IO"):
        assert 200 < gain(local, 14, application, "default") < 350


def test_procedure_3_helps_where_the_rule_leaves_targets_free(local: StripingResults) -> None:
    here = later_runs(local.of(figure=14, processes=2, fio=2))
    for application in ("VPIC-IO", "GCRM-IO", "VORPAL-IO"):
        own, other = (select(here, application=application, policy=p)["expected"].mean() for p in ("dca-io", APART))
        assert own > 1.3 * other


# Noise


def test_the_best_layout_is_the_best_of_all_powers_of_two() -> None:
    for case in (noise_cases()["vpic-io-4"], Case(machine=LOCAL, program=GCRM, processes=1)):
        layout, best = best_layout(case)
        everything = [case.throughput(Layout(count=c, size=s)) for c in (1, 2, 4) for s in SIZES]
        assert best == max(everything) == case.throughput(layout)
    case = Case(machine=LOCAL, program=FIO_SEQUENTIAL, processes=4)
    assert best_layout(case)[0].count == 1  # four files fill four targets, and the smallest of equals is taken


@given(st.lists(st.floats(1, 100), min_size=2, max_size=20), st.floats(1, 100))
def test_runs_are_judged_as_they_are_defined(expected: list[float], default: float) -> None:
    best = max(*expected, default)
    reached, later, worst, total = judge_runs(np.array(expected), best, default)
    near = [e >= 0.95 * best for e in expected]
    assert reached == (near.index(True) + 1 if any(near) else 0)
    assert later == pytest.approx(np.mean(near[len(near) // 2 :]))
    assert worst == pytest.approx(min(e / max([default, *expected[:k]]) for k, e in enumerate(expected)))
    assert total == pytest.approx(np.mean(expected) / best)


def test_a_policy_that_never_changes_never_gets_worse(small: StripingResults) -> None:
    default = select(small.noise, policy="default")
    assert (default["worst"] == 1).all() and len(set(default["total"].tolist())) == 1


def test_noise_cases_have_nobody_else_on_the_machine(small: StripingResults) -> None:
    assert all(not case.others for case in noise_cases().values())
    cori = Case(machine=CORI, program=VPIC_INDEPENDENT, processes=128)
    piece = replace(SMALL, cases={"cori": cori}, seeds=1).run_piece("noise-0.05/cori")
    assert (select(piece, policy="default")["worst"] == 1).all()  # with background it would vary
    assert set(small.noise["history"].tolist()) == {"others", "nobody"}


# What hangs on the model's numbers


def test_a_number_as_it_is_gives_what_the_best_layout_gives(small: StripingResults) -> None:
    same = select(small.assumed, factor=1.0)
    assert sorted(same[["figure", "against"]].tolist()) == [
        (7, "default"),
        (7, "tapp-io"),
        (9, "default"),
        (9, "tapp-io"),
    ]
    case = paper_panels()["figure-09/processes-4"].case
    best = best_layout(case)[1]
    for against, count in (("default", 1), ("tapp-io", 4)):
        percent = 100 * (best / case.throughput(Layout(count=count)) - 1)
        assert select(same, figure=9, against=against)["percent"] == pytest.approx([percent])


def test_a_slower_client_leaves_less_to_win(small: StripingResults) -> None:
    for figure in (7, 9):
        half, same, twice = select(small.assumed, figure=figure, against="default")["percent"]
        assert half < same < twice


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_of_the_list_is_one_of_the_machines(number: str) -> None:
    piece = SMALL.run_piece(f"assumed/{number}/0.5")
    assert piece.dtype == ASSUMED and piece.size == 4 and (piece["percent"] >= 0).all()


def test_case_keys_tell_cases_apart() -> None:
    cases = list(noise_cases().values())
    assert len({(c.machine.name, c.program.name, c.processes) for c in cases}) == len(cases) == 19
    assert VPIC in {c.program for c in cases} and all(s >= MIB for s in (VPIC.block,))
