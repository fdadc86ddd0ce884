"""The studies: reproducible, complete, and what they say of the paper's section VI."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebay.history.curves import Curves, read_curves
from forebay.model.arrays import Floats
from forebay.model.curve import Curve
from forebay.model.errors import BadInput, Refused, UnknownName
from forebay.profile.synthetic_curves import synthetic_curves
from forebay.simulate.applications.random_sets import PAPER_SYSTEM
from forebay.studies.io_resources.experiment import IoResourcesStudy
from forebay.studies.io_resources.results import CLASS, TRUE, Results
from forebay.studies.runner import run_study

FORGE = Path(__file__).parents[3].parent / "shared/data/forge/marenostrum4.csv"
GREEDY = "greedy-non-clairvoyant"


def study(
    data: Curves | None = None,
    *,
    name: str = "io-nodes",
    allocators: Sequence[str] = ("random", "tcpu"),
    placers: Sequence[str] = ("random", GREEDY),
    sees: Sequence[str] = (TRUE,),
    loads: Sequence[float] = (0.4, 0.9),
    seed: int = 3,
    sets: int = 3,
) -> IoResourcesStudy:
    data = data or synthetic_curves("io-nodes", 40, np.random.default_rng(5))
    return IoResourcesStudy(
        name=name,
        curves=data.by_name,
        origin=data.origin,
        system=PAPER_SYSTEM,
        applications=60,
        horizon=20_000.0,
        allocators=allocators,
        placers=placers,
        sees=sees,
        seed=seed,
        loads=loads,
        step=0.1,
        sets=sets,
    )


def results(made: IoResourcesStudy, folder: Path, workers: int = 1) -> Results:
    return run_study(made, folder, workers=workers, progress=lambda _: None)


def test_the_number_of_workers_makes_no_difference(tmp_path: Path) -> None:
    one, two = (results(study(), tmp_path / str(workers), workers) for workers in (1, 2))
    assert one.runs.tobytes() == two.runs.tobytes()
    assert one.occupancy.tobytes() == two.occupancy.tobytes()


def test_every_bin_has_its_sets_and_they_belong_there(tmp_path: Path) -> None:
    found = results(study(), tmp_path)
    assert [(row["load_low"], row["load_high"], row["sets"]) for row in found.rows()] == 4 * [
        (0.35, 0.45, 3),
        (0.85, 0.95, 3),
    ]
    wanted: Floats = found.runs["load"]
    drawn: Floats = found.runs["io_load_sys"]
    assert (abs(drawn - wanted) <= 0.05).all()


def test_other_policies_in_the_list_make_no_difference_to_a_policy() -> None:
    alone = study(allocators=("random",), placers=(GREEDY,)).run_piece("load-0.4/set-1")
    among = study(allocators=("static", "random", "nsys"), placers=("random", GREEDY)).run_piece("load-0.4/set-1")
    same = (among["allocate"] == "random") & (among["place"] == GREEDY)
    assert alone.tobytes() == among[same].tobytes()


def test_more_sets_reuse_those_that_are_there(tmp_path: Path) -> None:
    few = results(study(), tmp_path)
    told: list[int] = []
    more = run_study(study(sets=4), tmp_path, workers=1, progress=told.append)
    assert told[0] == 6
    shared = more.runs["set"] < 3
    assert more.runs[shared].tobytes() == few.runs.tobytes()


def test_seeds_differ() -> None:
    one, other = (study(seed=seed).run_piece("load-0.4/set-0") for seed in (1, 2))
    assert (one["mean_io_slowdown"] != other["mean_io_slowdown"]).all()


def test_an_unknown_policy_is_found_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'tcpu'"):
        results(study(allocators=("tpcu",)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"curves": {"late": Curve.of({2: 1.0, 4: 2.0})}}, "lacks a measurement on 1 target"),
        ({"curves": {"wide": Curve.of({1: 1.0, 64: 2.0})}}, "has n = 64, above --targets 20"),
        ({"loads": (3.5,)}, "must be between 0 and 1"),
        ({"applications": 1, "loads": (0.04,), "step": 1e-6}, "no set of 1 applications"),
    ],
)
def test_impossible_studies_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        replace(study(), **changes).check()


def test_optimal_refuses_sixty_applications() -> None:
    with pytest.raises(Refused, match=r"optimal: .* allocations to try"):
        study(allocators=("optimal",)).run_piece("load-0.4/set-0")


# Section VI of Bandet et al. 2024, on the measured curves where they are and on synthetic ones elsewhere.


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Results:
    curves = read_curves(FORGE) if FORGE.exists() else synthetic_curves("io-nodes", 189, np.random.default_rng(0))
    made = study(
        curves,
        allocators=("random", "static", "best-bandwidth", "nsys", "tcpu", "mckp"),
        placers=("random", GREEDY, "greedy-clairvoyant"),
        loads=(0.2, 0.5, 0.8, 1.1),
        sets=12,
    )
    return results(made, tmp_path_factory.mktemp("paper"), workers=2)


@pytest.fixture(scope="module")
def osts(tmp_path_factory: pytest.TempPathFactory) -> Results:
    made = study(
        synthetic_curves("osts", 301, np.random.default_rng(0)),
        name="osts",
        allocators=("static", "best-bandwidth", "nsys", "tcpu"),
        placers=(GREEDY,),
        loads=(0.1, 0.5, 0.8, 1.1),
        sets=12,
    )
    return results(made, tmp_path_factory.mktemp("osts"), workers=2)


def by_load(found: Results, metric: str, allocate: str, place: str = GREEDY) -> Sequence[float]:
    rows = [r for r in found.rows() if r["allocate"] == allocate and r["place"] == place and r["curves"] == TRUE]
    return [float(row[metric]) for row in rows]


def test_at_low_load_best_bandwidth_has_less_slowdown_than_nsys_and_at_high_load_more(paper: Results) -> None:
    best, nsys = (by_load(paper, "mean_io_slowdown", name) for name in ("best-bandwidth", "nsys"))
    assert best[0] < nsys[0]
    assert best[-1] > nsys[-1]


def test_either_greedy_placement_beats_random_and_they_are_close(paper: Results) -> None:
    for name in ("best-bandwidth", "nsys", "tcpu"):
        random, blind, clairvoyant = (
            np.array(by_load(paper, "mean_io_slowdown", name, place))
            for place in ("random", GREEDY, "greedy-clairvoyant")
        )
        assert (blind < random).all()
        assert (clairvoyant < random).all()
        assert abs(np.mean(clairvoyant / blind) - 1) < 0.15


def test_greedy_clairvoyant_balances_the_targets_best_and_random_worst(paper: Results) -> None:
    for name in ("best-bandwidth", "nsys", "random"):
        random, blind, clairvoyant = (
            np.mean(by_load(paper, "io_spread", name, place)) for place in ("random", GREEDY, "greedy-clairvoyant")
        )
        assert clairvoyant < blind < random


def test_best_bandwidth_has_no_slowdown_by_allocation_and_the_most_by_congestion(paper: Results) -> None:
    assert by_load(paper, "rho_io", "best-bandwidth") == pytest.approx([1.0] * 4)
    best, nsys, static = (np.array(by_load(paper, "rho_con", name)) for name in ("best-bandwidth", "nsys", "static"))
    assert (best > nsys).all()
    assert (best > static)[2:].all()  # at low load static, which puts many on few targets, has more


def test_the_congestion_of_best_bandwidth_grows_faster_with_load_than_that_of_nsys(paper: Results) -> None:
    best, nsys = (by_load(paper, "rho_con", name) for name in ("best-bandwidth", "nsys"))
    assert best[-1] - best[0] > 1.5 * (nsys[-1] - nsys[0])


def test_mckp_is_the_worst_of_all_on_slowdown(paper: Results) -> None:
    mckp = np.array(by_load(paper, "mean_io_slowdown", "mckp"))
    for name in ("random", "static", "best-bandwidth", "nsys", "tcpu"):
        assert (mckp > by_load(paper, "mean_io_slowdown", name)).all()


def test_tcpu_is_best_bandwidth_at_low_load_and_keeps_more_nodes_computing_at_high_load(paper: Results) -> None:
    best, tcpu = (by_load(paper, "machine_idle", name) for name in ("best-bandwidth", "tcpu"))
    assert tcpu[0] == pytest.approx(best[0], rel=0.02)
    assert tcpu[2] < 0.95 * best[2]
    assert tcpu[3] < 0.95 * best[3]


def test_static_has_bad_slowdown_but_is_nearer_to_the_others_in_idle_time_when_the_load_is_high(paper: Results) -> None:
    slow, fast = (by_load(paper, "mean_io_slowdown", name)[-1] for name in ("static", "best-bandwidth"))
    idle, other = (by_load(paper, "machine_idle", name)[-1] for name in ("static", "best-bandwidth"))
    assert slow > fast
    assert idle / other < slow / fast


def test_with_osts_best_bandwidth_loses_to_nsys_at_a_much_lower_load(osts: Results) -> None:
    best, nsys = (by_load(osts, "mean_io_slowdown", name) for name in ("best-bandwidth", "nsys"))
    assert best[0] < nsys[0]
    assert best[1] > nsys[1]


def test_with_osts_static_is_as_good_as_nsys(osts: Results) -> None:
    static, nsys = (np.array(by_load(osts, "mean_io_slowdown", name)) for name in ("static", "nsys"))
    assert np.mean(static / nsys) < 1.15


def test_class_curves_cost_best_bandwidth_little(tmp_path: Path) -> None:
    curves = read_curves(FORGE) if FORGE.exists() else synthetic_curves("io-nodes", 189, np.random.default_rng(0))
    made = study(
        curves, name="robustness", allocators=("best-bandwidth",), placers=(GREEDY,), sees=(TRUE, CLASS), sets=8
    )
    rows = results(made, tmp_path).rows()
    true, seen = ([r["mean_io_slowdown"] for r in rows if r["curves"] == kind] for kind in (TRUE, CLASS))
    assert np.all(np.array(seen) < 1.25 * np.array(true))
