"""Experiments of sizes that nothing was trained on."""

from forebay.simulate.requests.training_data import TRAINING
from forebay.simulate.requests.workload import Experiment, Workload
from forebay.studies.request_windows.detection import periods_of, unseen_experiments

SMALL = Experiment(
    nodes=2,
    workload=Workload(processes=16, pattern="shared-strided", operation="write", request=50_000, total=40_000_000),
)


def test_edges_are_left_out_where_there_is_more() -> None:
    inner = list(periods_of(SMALL, 0, seed=1, period=0.01))
    assert len(inner) >= 2
    assert {seen.seconds for seen in inner} == {0.01}
    assert len(list(periods_of(SMALL, 0, seed=1, period=10.0))) == 2


def test_the_same_seed_gives_the_same_periods() -> None:
    one, same, other = (list(periods_of(SMALL, 1_000_000, seed=s, period=0.01)) for s in (1, 1, 2))
    assert one == same != other


def test_unseen_sizes_were_not_trained_on() -> None:
    work = [e.workload for e in unseen_experiments()]
    assert len(work) > 100
    assert not {w.processes for w in work} & set(TRAINING.processes)
    assert not {w.request for w in work} & set(TRAINING.requests)
    assert not {w.requests for w in work} & set(TRAINING.rounds)
