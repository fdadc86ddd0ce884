"""Scenario files: what they mean, and one clear line for everything that can be wrong with them."""

from pathlib import Path

import numpy as np
import pytest

from forebay.decide.registry import find, policies
from forebay.model.errors import BadInput, Refused
from forebay.simulate.applications.engine import simulate
from forebay.simulate.applications.scenario import read_scenario

GOOD = """
[system]
targets = 4
compute_nodes = 64
[measure]
horizon = 100
[[application]]
name = "a"
compute_nodes = 8
phases = 2
compute_seconds = 10
volume = 1000
curve = { 1 = 100, 2 = 150, 4 = 200 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "scenario.toml"


def test_numbers_are_bytes_and_seconds_and_text_has_units(file: Path) -> None:
    file.write_text(
        GOOD.replace("1000", '"2 kB"').replace("= 10\n", '= "1 min"\n').replace("1 = 100", '1 = "800 bit/s"')
    )
    [application] = read_scenario(file).applications
    assert application.volume == 2000
    assert application.compute_seconds == 60
    assert application.curve.at(1) == 100


def test_keys_of_ones_own_are_kept_for_policies(file: Path) -> None:
    file.write_text(GOOD + 'project = "astro"\n')
    assert read_scenario(file).applications[0].fields == {"project": "astro"}


def test_curves_come_from_a_file_by_name(file: Path) -> None:
    (file.parent / "measured.csv").write_text("application,n,bandwidth\nior,1,5e6\nior,2,7e6\n")
    text = GOOD.replace("curve = { 1 = 100, 2 = 150, 4 = 200 }", 'curve = "ior"')
    file.write_text('curves = "measured.csv"\n' + text)
    assert read_scenario(file).applications[0].curve.at(2) == 7e6


@pytest.mark.parametrize("allocate", [name for name in policies("allocate") if name != "optimal"])
def test_fixed_targets_win_over_every_policy(file: Path, allocate: str) -> None:
    file.write_text(GOOD + "targets = [3, 1]\n" + GOOD[GOOD.index("[[app") :].replace('"a"', '"b"'))
    scenario = read_scenario(file)
    placement = scenario.schedule(find("allocate", allocate), find("place", "random"), np.random.default_rng(1))
    assert placement[0] == (1, 3)
    assert 1 <= len(placement[1]) <= 4


def test_a_policy_that_says_never_is_told_with_its_reason(file: Path) -> None:
    file.write_text(GOOD)
    tight = find("allocate", "optimal:most=2")
    with pytest.raises(Refused, match=r"optimal:most=2: 4 allocations to try"):
        read_scenario(file).schedule(tight, find("place", "random"), np.random.default_rng(1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[system]", "[system", "is not TOML"),
        ("targets = 4", "targets = 0", "system: targets must be at least 1"),
        ("targets = 4", "targets = 2", "application[0].curve: has n = 4, but the system has 2 targets"),
        ("targets = 4", "", "system.targets: is missing"),
        ("compute_nodes = 64", "compute_nodes = 0", "system: compute_nodes must be positive"),
        ("compute_nodes = 64", "compute_node = 64", "system.compute_nodes: is missing"),
        ("horizon = 100", "horizon = -1", "measure.horizon"),
        ("horizon = 100", "horizon = nan", "measure.horizon"),
        ("horizon = 100", 'horizon = "soon"', "measure.horizon"),
        ("volume = 1000", "volume = -1000", "application[0]: volume must be finite and not negative"),
        ("volume = 1000", "volume = nan", "application[0]: volume"),
        ("volume = 1000", "volume = true", "application[0].volume"),
        ("volume = 1000", 'volume = "10 lemons"', "application[0].volume"),
        ("volume = 1000", "", "application[0].volume: is missing"),
        ("volume = 1000", "volume = 0\ncompute_seconds = 0", "is not TOML"),
        ("phases = 2", "phases = 0", "application[0]: phases must be at least 1"),
        ("phases = 2", "phases = 1.5", "application[0].phases"),
        (
            "compute_seconds = 10",
            "compute_seconds = -10",
            "application[0]: compute_seconds must be finite and not negative",
        ),
        ("1 = 100", "1 = 0", "application[0].curve: the bandwidth on 1 targets must be positive"),
        ("1 = 100", "1 = -5", "application[0].curve: the bandwidth on 1 targets"),
        ("1 = 100", "1 = nan", "application[0].curve: the bandwidth on 1 targets"),
        ("1 = 100", "0 = 100", "application[0].curve: the numbers of targets must ascend"),
        ("1 = 100", "1 = 100, 01 = 100", "application[0].curve: '01' is not a whole number of targets"),
        ("targets = 4", "targets = 1000000000000", "system: targets must be at least 1 and at most"),
        ("compute_nodes = 64", "compute_nodes = inf", "system: compute_nodes must be positive and finite"),
        ("phases = 2", "phases = 3000000000", "application[0]: phases must be at least 1 and less than"),
        (
            "volume = 1000\ncurve = { 1 = 100",
            "volume = 1e308\ncurve = { 1 = 1e-5",
            "a volume of 1e+308 bytes takes forever",
        ),
        ("[measure]", "[policy]\nallocate = 'tpcu'\n[measure]", "policy.allocate: no allocation policy 'tpcu'"),
        ("1 = 100", "one = 100", "application[0].curve: 'one' is not a whole number of targets"),
        ("{ 1 = 100, 2 = 150, 4 = 200 }", "{}", "application[0].curve: a curve needs at least one"),
        ("{ 1 = 100, 2 = 150, 4 = 200 }", '"ior"', "application[0].curve: needs a `curves` file"),
        ("phases = 2", "phases = 2\ntargets = [0, 4]", "application[0].targets: must be different numbers from 0 to 3"),
        ("phases = 2", "phases = 2\ntargets = [1, 1]", "application[0].targets: must be different"),
        ("phases = 2", "phases = 2\ntargets = []", "application[0].targets"),
        ("phases = 2", "phases = 2\ntarget = [1]", "application[0].target: unknown key; did you mean 'targets'?"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_file_and_key(file: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(BadInput) as caught:
        read_scenario(file)
    message = str(caught.value)
    assert message.startswith(str(file))
    assert said in message
    assert "\n" not in message


def test_no_applications_is_an_error(file: Path) -> None:
    file.write_text(GOOD[: GOOD.index("[[app")])
    with pytest.raises(BadInput, match="application: is missing; add at least one"):
        read_scenario(file)


def test_an_application_that_does_nothing_is_an_error(file: Path) -> None:
    file.write_text(GOOD.replace("volume = 1000", "volume = 0").replace("compute_seconds = 10", "compute_seconds = 0"))
    with pytest.raises(BadInput, match="must not both be 0"):
        read_scenario(file)


def test_a_file_that_is_not_there_is_an_error(file: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_scenario(file)


def test_a_horizon_of_too_many_events_is_refused(file: Path) -> None:
    file.write_text(
        GOOD.replace("compute_seconds = 10", "compute_seconds = 1e-300").replace("volume = 1000", "volume = 0")
    )
    scenario = read_scenario(file)
    with pytest.raises(BadInput, match="events"):
        simulate(scenario.system, scenario.applications, ((0,),), horizon=100.0)
