"""The evaluation of Bez et al. 2019 on a small grid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forebay.model.errors import BadInput, UserError
from forebay.model.situation import PATTERNS
from forebay.show.rows import select
from forebay.simulate.requests.learning import BIN, Samples, learn_all, learn_together, situation_of
from forebay.simulate.requests.workload import PAPER_WINDOWS, Experiment, Workload
from forebay.studies.request_windows.demand import learn_under_demand
from forebay.studies.request_windows.detection import confusion, precisions
from forebay.studies.request_windows.experiment import RequestWindowsStudy, default_tuners, paper_study
from forebay.studies.request_windows.results import (
    BURSTS,
    DETECTED,
    INSTANCES,
    PERIOD,
    SEEN,
    THINKING,
    UNSEEN,
    RequestWindowsResults,
    samples_of,
)
from forebay.studies.runner import run_study
from support.fields import replace_field

MIB = 1 << 20


def smaller(experiment: Experiment, total: int = 128 * MIB) -> Experiment:
    return experiment._replace(workload=replace(experiment.workload, total=total))


SMALL = RequestWindowsStudy(
    experiments=[smaller(e) for e in INSTANCES.values()],
    unseen=[
        Experiment(
            nodes=2,
            workload=Workload(processes=20, pattern=p, operation="read", request=100_000, total=40_000_000),
        )
        for p in PATTERNS
    ],
    windows=(125_000, 8_000_000),
    schedulers=("hbrr",),
    tuners=("epsilon-greedy:epsilon=0.1", "forebay"),
    repetitions=2,
    period=0.02,
    steps=20,
    together=30,
    horizon=60,
    replays=3,
    demand_replays=1,
    demand_period=0.05,
    seed=7,
)


def quiet(_: int) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("request-windows") / "pieces"


@pytest.fixture(scope="module")
def small(folder: Path) -> RequestWindowsResults:
    return run_study(SMALL, folder, workers=1, progress=quiet)


def test_all_pieces_are_counted(folder: Path, small: RequestWindowsResults) -> None:
    done: list[int] = []
    again = run_study(SMALL, folder, workers=1, progress=done.append)
    assert done[-1] == len(SMALL.keys()) == len(list(folder.rglob("*.npy")))
    for table in ("periods", "learned", "learned_longer", "detected", "demanded"):
        assert getattr(again, table).tobytes() == getattr(small, table).tobytes()


def test_a_lost_piece_is_made_again_the_same(folder: Path, small: RequestWindowsResults) -> None:
    for key in ("learning/0", "together/1", "demand/B", "unseen/0", SMALL.window_keys()[0]):
        (folder / f"{key}.npy").unlink()
    again = run_study(SMALL, folder, workers=1, progress=quiet)
    assert again.periods.tobytes() == small.periods.tobytes()
    assert again.learned.tobytes() == small.learned.tobytes()
    assert again.demanded.tobytes() == small.demanded.tobytes()
    assert np.array_equal(again.detected, small.detected)


def test_other_settings_are_not_mixed_in(folder: Path, small: RequestWindowsResults) -> None:  # noqa: ARG001
    with pytest.raises(BadInput, match="different settings"):
        run_study(replace(SMALL, seed=8), folder, workers=1, progress=quiet)


def test_tuners_learn_for_longer_in_the_papers_instances(small: RequestWindowsResults) -> None:
    rows = small.learned_longer
    assert rows.size == len(SMALL.tuners) * len(INSTANCES) * SMALL.horizon // BIN
    assert set(rows["experiment"].tolist()) == set(small.instances().values())
    alone = select(small.learned, together=False, similar=False)
    assert rows["bin"].max() > alone["bin"].max()


def test_each_run_has_one_bandwidth(small: RequestWindowsResults) -> None:
    runs = small.runs()
    assert len(runs) == 3 * (2 * (1 + 2) + 1)
    assert small.bandwidths().shape == (3, 3)
    fifo = select(runs, scheduler="fifo", experiment=1)["run"]
    assert small.bandwidths()[1, 0] == pytest.approx(fifo.mean())
    assert fifo[0] != fifo[1]


def test_gains_and_losses_are_those_of_the_paper(small: RequestWindowsResults) -> None:
    strided, writes, contiguous = small.gains()
    assert 0 < strided[0] < strided[1]
    assert writes[1] < -0.2 < writes[0]
    assert contiguous.max() > 0.05


def test_schedulers_are_compared_with_fifo(small: RequestWindowsResults) -> None:
    found = small.schedulers()
    assert set(found) == {"fifo", "hbrr", "twins"}
    assert found["fifo"].tolist() == [1.0, 1.0, 1.0]
    assert found["twins"] == pytest.approx(small.gains().max(axis=1) + 1)


def test_a_sample_is_the_mean_of_the_nodes_in_a_whole_period() -> None:
    rows = np.zeros(7, dtype=PERIOD)
    rows["scheduler"], rows["window"], rows["seconds"] = "twins", 5, 2.0
    rows["node"], rows["period"] = [0, 1, 0, 1, 0, 1, 0], [0, 0, 1, 1, 2, 2, 0]
    rows["bytes_read"], rows["bytes_written"] = [10, 20, 30, 40, 50, 60, 70], 2
    rows["seconds"][4:6] = 0.5  # cut short by the end of the run
    rows["scheduler"][6] = "fifo"
    [[found, none]] = samples_of(rows, 1, [5, 6])
    assert found.tolist() == [(10 + 20 + 4) / 2 / 2, (30 + 40 + 4) / 2 / 2]
    assert none.size == 0


def known(*levels: float) -> Samples:
    return Samples.of([[np.array([level, level]) for level in levels]])


def test_who_takes_the_best_window_loses_nothing() -> None:
    found = learn_all(
        known(50.0, 100.0, 80.0),
        [INSTANCES["A"]],
        "fixed:arm=1",
        similar=False,
        steps=3 * BIN,
        repetitions=2,
        seed=0,
    )
    assert found["bin"].tolist() == [0, 1, 2]
    assert found["precision"].tolist() == found["share"].tolist() == [1.0, 1.0, 1.0]
    assert found["regret"].tolist() == [0.0, 0.0, 0.0]


def test_regret_is_what_was_lost_until_then() -> None:
    found = learn_all(
        known(50.0, 100.0, 80.0), [INSTANCES["A"]], "fixed:arm=2", similar=False, steps=2 * BIN, repetitions=2, seed=0
    )
    assert found["precision"].tolist() == [0.0, 0.0]
    assert found["regret"] == pytest.approx([2.0, 4.0])


def test_a_tuner_learns_and_the_same_seed_gives_the_same() -> None:
    def learned(seed: int) -> np.ndarray:
        found: np.ndarray = learn_all(
            known(50.0, 100.0, 80.0),
            [INSTANCES["A"]],
            "epsilon-greedy:epsilon=0.2",
            similar=False,
            steps=20 * BIN,
            repetitions=20,
            seed=seed,
        )
        return found

    found = learned(1)
    assert found["precision"][-1] > 0.7 > found["precision"][0]
    assert np.array_equal(found, learned(1))
    assert not np.array_equal(found, learned(2))


def test_what_similar_situations_told_does_not_mislead() -> None:
    experiments = [e for e in paper_study().experiments if e.workload.pattern == "shared-strided"]
    samples = Samples.of(
        [[np.array([level]) for level in (50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 100.0)]] * len(experiments)
    )
    regret = [
        learn_all(samples, experiments, "forebay", similar=similar, steps=3 * BIN, repetitions=3, seed=0)
        for similar in (False, True)
    ]
    alone, after = (select(r, bin=2)["regret"].mean() for r in regret)
    assert after < 1.05 * alone
    assert not np.array_equal(regret[0]["similar"], regret[1]["similar"])


def test_instances_that_take_turns_learn_more_slowly() -> None:
    samples = Samples.of([[np.array([level]) for level in (50.0, 100.0, 80.0)]] * 3)
    found = learn_together(samples, [0, 1, 2], "epsilon-greedy:epsilon=0.2", steps=10 * BIN, repetitions=30, seed=0)
    alone = learn_all(
        samples,
        list(INSTANCES.values()),
        "epsilon-greedy:epsilon=0.2",
        similar=False,
        steps=10 * BIN,
        repetitions=30,
        seed=0,
    )
    assert sorted(set(found["experiment"].tolist())) == [0, 1, 2]
    assert select(found, bin=9)["precision"].mean() < select(alone, bin=9)["precision"].mean()


def test_a_situation_is_what_one_node_sees() -> None:
    assert situation_of(INSTANCES["C"]).processes == 64
    assert situation_of(INSTANCES["B"]).clients == 16


def test_confusions_and_precisions_are_counted_from_periods() -> None:
    rows = np.array(
        [
            (SEEN, "tree", 0, "read", 0, 1, (8, 2, 0)),
            (SEEN, "tree", 1, "write", 1, 1, (0, 10, 0)),
            (SEEN, "network", 0, "read", 0, 1, (0, 0, 10)),
            (UNSEEN, "tree", 0, "read", 0, 1, (1, 0, 0)),
        ],
        dtype=DETECTED,
    )
    assert confusion(rows, SEEN, "tree").tolist() == [[8, 0, 0], [2, 10, 0], [0, 0, 0]]
    found = precisions(rows, SEEN, "tree")
    assert found["total"] == (80.0, 90.0, 90.0, 100.0)
    assert found["read"] == found["file-per-process"] == (80.0, 80.0, 80.0, 80.0)
    assert "shared-strided" not in found


def test_every_period_with_requests_is_classified(small: RequestWindowsResults) -> None:
    for of in (SEEN, UNSEEN):
        counts = [confusion(small.detected, of, by).sum() for by in ("network", "tree")]
        assert counts[0] == counts[1] > 10


def test_demand_is_learned_where_bandwidth_misleads() -> None:
    rows = learn_under_demand(
        INSTANCES["A"], 0, ["forebay"], PAPER_WINDOWS, period=0.5, steps=150, repetitions=6, seed=0
    )
    late = select(rows[rows["bin"] >= 10], demand=THINKING)
    by = {reward: select(late, reward=reward)["share"].mean() for reward in ("bandwidth", "demand")}
    assert by["demand"] > by["bandwidth"] + 0.02
    assert set(rows["demand"].tolist()) == {"steady", BURSTS, THINKING}


def test_pieces_depend_on_the_seed_alone() -> None:
    key = SMALL.window_keys()[0]
    one, same, other = (replace(SMALL, seed=seed, repetitions=1).run_piece(key) for seed in (1, 1, 2))
    assert one.tobytes() == same.tobytes() != other.tobytes()


def test_the_paper_is_144_experiments_and_all_tuners() -> None:
    study = paper_study()
    assert len(study.window_keys()) == 144
    assert set(study.instances()) == {"A", "B", "C"}
    assert "epsilon-greedy:epsilon=0.15" in default_tuners()
    assert {"thompson", "ucb", "epsilon-decreasing", "forebay"} <= set(default_tuners())


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("repetitions", 0, "repetitions: must be 1 or more"),
        ("demand_replays", 0, "demand replays: must be 1 or more"),
        ("experiments", (), "needs at least one experiment"),
        ("tuners", ("tompson",), "did you mean 'thompson'"),
        ("schedulers", ("fofi",), "'fofi'"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, field: str, value: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        run_study(replace_field(SMALL, field, value), tmp_path, workers=1, progress=quiet)
    assert not list(tmp_path.iterdir())
