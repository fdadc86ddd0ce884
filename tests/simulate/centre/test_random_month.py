"""Drawn months: shares, sizes and times are those of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from forebay.model.arrays import Floats, Ints
from forebay.model.errors import BadInput
from forebay.simulate.centre.machine import read_centre
from forebay.simulate.centre.random_month import Drawn, draw_month
from forebay.simulate.centre.workload import read_workload
from support.centre import EXAMPLE, small_centre, small_workload

CENTRE = small_centre()


def seconds_of(month: Drawn) -> Floats:
    """How long each job computes."""
    compute: Floats = month.jobs["compute"]
    phases: Ints = month.jobs["phases"]
    return compute * phases


def test_kinds_have_their_share_of_the_node_hours() -> None:
    workload = small_workload(days=20)
    month = draw_month(CENTRE, workload, np.random.default_rng(0))
    nodes: Ints = month.jobs["nodes"]
    hours = nodes * seconds_of(month) / 3600
    whole = 100 * 20 * 24 * workload.month.utilisation
    for k, kind in enumerate(workload.kind):
        # Computing is what I/O leaves; the last job of a kind may be too much.
        assert hours[month.kind == k].sum() / whole == pytest.approx(kind.share, rel=0.15)


def test_no_more_nodes_are_used_than_there_are() -> None:
    month = draw_month(CENTRE, small_workload(days=5), np.random.default_rng(3))
    ends = month.start + seconds_of(month)
    for at in month.start:
        assert month.jobs["nodes"][(month.start <= at) & (at < ends)].sum() <= CENTRE.compute.nodes


def test_so_many_applications_spend_a_tenth_of_their_time_in_io() -> None:
    workload = small_workload(days=0.1)
    kinds = [kind.model_copy(update={"applications": 3000}) for kind in workload.kind[:1]]
    month = draw_month(CENTRE, workload.model_copy(update={"kind": kinds}), np.random.default_rng(0))
    shares = np.array([app.share for app in month.apps])
    assert np.median(shares) == pytest.approx(workload.io.median, rel=0.1)
    assert (shares >= 0.1).mean() == pytest.approx(workload.io.a_tenth, rel=0.25)


def test_the_same_seed_draws_the_same_and_another_noise_only_other_errors() -> None:
    one, other = small_workload(), small_workload()
    other = other.model_copy(update={"profiles": other.profiles.model_copy(update={"noise": 0.0})})
    first, second = (draw_month(CENTRE, w, np.random.default_rng(7)) for w in (one, other))
    assert (first.jobs == second.jobs).all() and (first.start == second.start).all()
    assert all(app.wrong == (1.0, 1.0, 1.0) for app in second.apps)
    assert all(app.wrong != (1.0, 1.0, 1.0) for app in first.apps)


@pytest.mark.parametrize(
    ("file", "old", "new", "where"),
    [
        ("machine.toml", "pools = 45", "pools = 44", "capacity.pools"),
        ("machine.toml", "usable = 0.5", "usable = 1.5", "flash.usable"),
        ("machine.toml", "nodes = 9408", "", "compute.nodes"),
        ("workload.toml", 'allocate = "forebay"', 'allocate = "forbay"', "policies.allocate"),
        ("workload.toml", "nodes = [1882, 9408]", "nodes = [9408, 1882]", "kind[0].nodes"),
        ("workload.toml", "training = 0.05 }", "trainings = 0.05 }", "kind[0].styles"),
        ("workload.toml", "share = 0.6 ", "share = 0.9 ", "kind"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    tmp_path: Path, file: str, old: str, new: str, where: str
) -> None:
    text = (EXAMPLE / file).read_text()
    assert old in text
    changed = tmp_path / file
    changed.write_text(text.replace(old, new, 1))
    with pytest.raises(BadInput) as error:
        (read_centre if file == "machine.toml" else read_workload)(changed)
    assert where in str(error.value) and "\n" not in str(error.value)
