"""The study of burst buffers: its grid, that it is reproducible, and what its table says."""

import math
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forebay.decide.policy import storage
from forebay.decide.registry import find, policies
from forebay.decide.storage.optimal import upper_bound
from forebay.model.errors import BadInput, UnknownName
from forebay.model.reference_platforms import NAMES, reference_platform
from forebay.profile.synthetic_theta_2020 import theta_2020
from forebay.show.rows import select
from forebay.simulate.storage.outcome import document
from forebay.simulate.storage.rules import SPLIT, Feedback, Rules
from forebay.simulate.storage.run import run_storage
from forebay.studies.burst_buffer.experiment import Block, BurstBufferStudy, paper_grid, read_grid
from forebay.studies.burst_buffer.results import KEY, PAPER_POLICIES, ROW, StorageResults, cohens_d, layout_of
from forebay.studies.finished_pieces import Interrupted
from forebay.studies.runner import run_study
from support.storage import platform_of

GB = 10**9
REQUESTS = theta_2020(np.random.default_rng(1), 300)
CORRECT, LETTER = Rules(split=SPLIT), Rules(mode="storalloc", split=SPLIT)
SMALL = Block(
    platforms=(reference_platform("8TB/nNnD"), reference_platform("16TB/1N1D")),
    policies=("worst-fit", "forebay"),
    rules=(CORRECT, LETTER),
)


def study(**changes: Any) -> BurstBufferStudy:
    return replace(BurstBufferStudy(requests=REQUESTS, blocks=(SMALL,), feedback=None, seed=3), **changes)


def results(made: BurstBufferStudy, folder: Path, workers: int = 1) -> StorageResults:
    return run_study(made, folder, workers=workers, progress=lambda _: None)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> StorageResults:
    blocks = (replace(SMALL, policies=("worst-fit", "optimal", "forebay")),)
    return results(study(blocks=blocks), tmp_path_factory.mktemp("small") / "pieces")


# The grid


@pytest.mark.parametrize("mode", ["correct", "storalloc"])
def test_the_papers_grid_has_256_runs_and_the_heterogeneous_platform(mode: Any) -> None:
    alike, mixed = paper_grid(PAPER_POLICIES, [mode])
    assert len(alike.platforms) * len(alike.policies) * len(alike.rules) == 256
    assert [platform.name for platform in alike.platforms + mixed.platforms] == list(NAMES)
    assert {(rules.split, rules.tries) for rules in alike.rules} == {(0, 0), (0, 12), (SPLIT, 0), (SPLIT, 12)}
    assert {rules.mode for rules in alike.rules + mixed.rules} == {mode}
    assert mixed.rules == (Rules(mode=mode, split=SPLIT),)


def test_both_modes_are_twice_as_many_runs() -> None:
    whole = study(blocks=paper_grid(PAPER_POLICIES, ["storalloc", "correct"]))
    assert sum(len(specs) for *_, specs in whole.pieces().values()) == 2 * (256 + 4)


def test_keys_are_stable() -> None:
    keys = list(study().pieces())
    assert keys == [f"block-0/platform-{p}/rules-{r}" for p in range(2) for r in range(2)]
    assert study().pieces()["block-0/platform-1/rules-0"] == (
        reference_platform("16TB/1N1D"),
        CORRECT,
        ("worst-fit", "forebay"),
    )
    more = replace(
        SMALL, platforms=(*SMALL.platforms, reference_platform("64TB/1N1D")), policies=(*SMALL.policies, "fill")
    )
    assert set(keys) < set(study(blocks=(more, SMALL)).pieces())


def test_settings_change_with_whatever_makes_a_difference() -> None:
    base = study().settings()
    assert base == study().settings()
    longer = replace(REQUESTS, duration=REQUESTS.duration + 1)
    bigger = replace(reference_platform("8TB/nNnD"), name="other")
    for changes, key in (
        ({"requests": longer}, {"requests"}),
        ({"requests": replace(REQUESTS, volume=REQUESTS.volume * 2)}, {"requests"}),
        ({"requests": replace(REQUESTS, origin="the same from elsewhere")}, set()),
        ({"blocks": (replace(SMALL, rules=(CORRECT,)),)}, {"grid"}),
        ({"blocks": (replace(SMALL, platforms=(bigger,)),)}, {"grid"}),
        ({"blocks": (replace(SMALL, policies=("worst-fit", "fill")),)}, {"grid", "policies"}),
        ({"feedback": Feedback()}, {"feedback"}),
        ({"feedback": Feedback(pfs=1e9)}, {"feedback"}),
        ({"seed": 4}, {"seed"}),
    ):
        other = study(**changes).settings()
        assert {k for k in base if base[k] != other[k]} == key


# Reproducible


def test_the_number_of_workers_makes_no_difference(tmp_path: Path) -> None:
    one, two = (results(study(), tmp_path / str(workers), workers) for workers in (1, 2))
    assert one.rows.tobytes() == two.rows.tobytes()
    assert one.settings == two.settings


def test_an_interrupted_study_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = BurstBufferStudy.run_piece
    done: list[str] = []

    def tired(made: BurstBufferStudy, key: str) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(key)
        return real(made, key)

    monkeypatch.setattr(BurstBufferStudy, "run_piece", tired)
    with pytest.raises(Interrupted, match="2 of 4 pieces are saved"):
        results(study(), tmp_path / "a")
    monkeypatch.setattr(BurstBufferStudy, "run_piece", real)
    told: list[int] = []
    resumed = run_study(study(), tmp_path / "a", workers=1, progress=told.append)
    assert told == [2, 3, 4]
    assert resumed.rows.tobytes() == results(study(), tmp_path / "b").rows.tobytes()


def test_other_policies_in_the_list_make_no_difference_to_a_policy() -> None:
    key = "block-0/platform-0/rules-0"
    alone = study(blocks=(replace(SMALL, policies=("random",)),)).run_piece(key)
    among = study(blocks=(replace(SMALL, policies=("worst-fit", "random")),)).run_piece(key)
    assert select(among, policy="random").tobytes() == alone.tobytes()


def test_seeds_differ_for_policies_that_draw() -> None:
    blocks = (replace(SMALL, policies=("random",)),)
    one, other = (study(blocks=blocks, seed=seed).run_piece("block-0/platform-0/rules-0") for seed in (1, 2))
    assert one["max_use"].tolist() != other["max_use"].tolist()


def test_another_study_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    results(study(), tmp_path / "x")
    with pytest.raises(BadInput, match=r"holds a study with different settings \(seed\)"):
        results(study(seed=4), tmp_path / "x")


def test_an_unknown_policy_is_found_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'first-fit'"):
        results(study(blocks=(SMALL, replace(SMALL, policies=("frist-fit",)))), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_study_of_no_run_is_refused(tmp_path: Path) -> None:
    blocks = (replace(SMALL, policies=("forebay", "optimal"), rules=(LETTER,)),)
    with pytest.raises(BadInput, match="StorAlloc has none of these; 'storalloc' needs random, round-robin"):
        results(study(blocks=blocks), tmp_path / "x")
    assert not (tmp_path / "x").exists()


# What the table says


def test_every_disk_of_every_run_has_a_row(small: StorageResults) -> None:
    assert small.requests == 300
    assert small.origin == REQUESTS.origin
    counted = Counter((str(r["mode"]), str(r["platform"]), str(r["policy"])) for r in small.rows)
    assert counted == {
        ("correct", "8TB/nNnD", "worst-fit"): 8,
        ("correct", "8TB/nNnD", "optimal"): 1,
        ("correct", "8TB/nNnD", "forebay"): 8,
        ("storalloc", "8TB/nNnD", "worst-fit"): 8,  # neither forebay nor a bound by StorAlloc's rules
        ("correct", "16TB/1N1D", "worst-fit"): 1,
        ("correct", "16TB/1N1D", "optimal"): 1,
        ("correct", "16TB/1N1D", "forebay"): 1,
        ("storalloc", "16TB/1N1D", "worst-fit"): 1,
    }


def test_rows_are_what_the_run_says(small: StorageResults) -> None:
    platform = reference_platform("8TB/nNnD")
    for rules, index in ((CORRECT, 0), (LETTER, 1)):
        seed = zlib.crc32(f"3 block-0/platform-0/rules-{index} worst-fit".encode())
        found = document(run_storage(platform, REQUESTS, find("storage", "worst-fit"), rules, seed=seed))
        rows = small.disks(mode=rules.mode, platform="8TB/nNnD", policy="worst-fit")
        for column in ("requests", "parts", "sum_bytes", "allocated_bytes", "allocated_share", "refused", "failed"):
            assert set(rows[column].tolist()) == {found[column]}
        for column in ("requests", "allocated", "refused_bytes", "failed_bytes", "allocated_bytes"):
            assert set(rows[f"split_{column}"].tolist()) == {found["split"][column]}
        for column in ("max_use", "mean_use", "max_allocations", "mean_allocations"):
            assert rows[column].tolist() == [disk[column] for disk in found["disks"]]
        assert set(rows["capacity"].tolist()) == {8 * 10**12}
        assert rows["disk_capacity"].tolist() == [10**12] * 8
        assert rows["disk"].tolist() == [0, 1] * 4
        assert rows["node"].tolist() == [f"node-{k // 2}" for k in range(8)]
        assert set(rows["layout"].tolist()) == {"nNnD"}
        assert set(rows["split"].tolist()) == {SPLIT}
        assert np.isnan(rows["mean_slowdown"]).all()


def test_optimal_is_one_row_with_the_bound(small: StorageResults) -> None:
    [row] = select(small.rows, policy="optimal", platform="8TB/nNnD")
    bound = upper_bound(reference_platform("8TB/nNnD"), REQUESTS, split=SPLIT)
    assert (row["disk"], row["allocated_bytes"], row["requests"]) == (-1, bound.bytes, 300)
    assert row["allocated_share"] == bound.bytes / REQUESTS.bytes.sum()
    assert math.isnan(row["max_use"])
    for policy in ("worst-fit", "forebay"):
        [other] = select(small.runs, mode="correct", platform="8TB/nNnD", policy=policy)
        assert other["allocated_bytes"] <= bound.bytes


def test_runs_are_told_apart_and_chosen(small: StorageResults) -> None:
    assert len(small.runs) == 8
    assert small.runs.dtype.names and "max_use" not in small.runs.dtype.names
    assert len({tuple(run[list(KEY)].tolist()) for run in small.runs}) == 8
    assert small.runs["policy"].tolist()[:3] == ["worst-fit", "optimal", "forebay"]
    assert small.policies == ["worst-fit", "forebay"]
    assert small.modes == ["storalloc", "correct"]
    assert len(select(small.runs, policy="forebay")) == 2
    assert len(select(small.runs, policy="forebay", mode="storalloc")) == 0
    assert len(small.runs) == 8
    assert len(small.disks(platform="8TB/nNnD")) == 24
    assert len(small.disks(policy="optimal")) == 0
    assert (small.disks()["disk"] >= 0).all()


def test_results_of_nothing() -> None:
    nothing = StorageResults(origin="", requests=0, settings={}, rows=np.zeros(0, dtype=ROW))
    assert (len(nothing.runs), nothing.policies, nothing.modes, len(nothing.disks())) == (0, [], [], 0)


def test_with_feedback_there_are_slowdowns_by_the_correct_rules_only() -> None:
    made = study(feedback=Feedback())
    correct, letter = (made.run_piece(f"block-0/platform-1/rules-{r}") for r in (0, 1))
    for column in ("mean_slowdown", "median_slowdown", "max_slowdown"):
        assert (correct[column] >= 1.0).all()
        assert np.isnan(letter[column]).all()
    assert (correct["median_slowdown"] <= correct["max_slowdown"]).all()


def test_the_kind_of_a_disk_is_kept() -> None:
    block = replace(SMALL, platforms=(reference_platform("32TB/heterogeneous"),), policies=("fill",))
    rows = study(blocks=(block,)).run_piece("block-0/platform-0/rules-0")
    assert rows["kind"].tolist() == ["SSD"] * 10 + ["HDD"] * 8
    assert set(rows["layout"].tolist()) == {""}


def test_somebody_elses_policy_is_run_by_the_correct_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = storage("mine")(first_disk)
    monkeypatch.setitem(policies("storage"), "mine", mine)
    made = study(blocks=(replace(SMALL, policies=("mine", "worst-fit")),))
    found = results(made, tmp_path / "x")
    assert set(made.settings()["policies"]) >= {__name__}  # type: ignore[call-overload]
    assert {(run["mode"], run["policy"]) for run in found.runs[["mode", "policy"]]} == {
        *(("correct", "mine"), ("correct", "worst-fit"), ("storalloc", "worst-fit")),
    }
    used = found.disks(policy="mine", platform="8TB/nNnD")["max_use"]
    assert used[0] > 0
    assert not used[1:].any()


def first_disk(*_: Any) -> int:
    """Always the first disk."""
    return 0


# Grids from files

PLATFORM = """
name = "mine"
[[node]]
network_bandwidth = "10 GB/s"
[[node.disk]]
capacity = "3 TB"
write_bandwidth = "1 GB/s"
read_bandwidth = "1 GB/s"
"""
GRID = """
[[grid]]
platforms = ["16TB/nNnD", "platform.toml"]
policies = ["best-bandwidth", "forebay", "optimal"]
split = ["100 GB", "200 GB", false]
requeue = [false, true]
as = ["correct"]
[[grid]]
platforms = ["8TB/1N1D"]
policies = ["random"]
"""


def grid(folder: Path, text: str) -> tuple[Block, ...]:
    (folder / "platform.toml").write_text(PLATFORM)
    (folder / "grid.toml").write_text(text)
    return read_grid(folder / "grid.toml")


def test_a_grid_is_read_from_a_file(tmp_path: Path) -> None:
    first, second = grid(tmp_path, GRID)
    assert [platform.name for platform in first.platforms] == ["16TB/nNnD", "mine"]
    assert first.policies == ("best-bandwidth", "forebay", "optimal")
    assert first.rules == tuple(
        Rules(split=split, tries=tries) for split in (100 * GB, 200 * GB, 0) for tries in (0, 12)
    )
    assert second == Block(
        platforms=(reference_platform("8TB/1N1D"),), policies=("random",), rules=(Rules(split=SPLIT),)
    )


def test_the_grid_of_the_documentation_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/storage.md").read_text()
    [shown] = [block.split("```")[0] for block in page.split("```toml\n")[1:] if "[[grid]]" in block]
    [block] = grid(tmp_path, shown)
    assert len(block.platforms) * len(block.policies) * len(block.rules) == 36


BLOCK = '[[grid]]\nplatforms = ["8TB/1N1D"]\npolicies = ["random"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "grid: is missing"),
        ("grid = []", "grid: is empty; add at least one [[grid]] table"),
        ("grid = 3", "grid: must be a list, not 3"),
        ('[[grid]]\npolicies = ["random"]', "grid[0].platforms: is missing"),
        ('[[grid]]\nplatforms = ["8TB/1N1D"]', "grid[0].policies: is missing"),
        (BLOCK + "split = []", "grid[0].split: must not be empty"),
        (BLOCK + "as = []", "grid[0].as: must not be empty"),
        (BLOCK + "requeue = []", "grid[0].requeue: must not be empty"),
        (BLOCK.replace('["random"]', "[]"), "grid[0].policies: must not be empty"),
        (BLOCK.replace('["8TB/1N1D"]', "[]"), "grid[0].platforms: must not be empty"),
        (BLOCK + BLOCK.replace("8TB", "9TB"), "grid[1].platforms: unknown platform '9TB/1N1D'; give a file"),
        (BLOCK.replace("random", "rondam"), "grid[0].policies: no storage policy 'rondam'; did you mean 'random'?"),
        (BLOCK.replace("random", "all"), "grid[0].policies: no storage policy 'all'; "),
        (BLOCK.replace('["random"]', '"random"'), "grid[0].policies: must be a list, not 'random'"),
        (BLOCK + 'split = ["100 GB", 200]', "grid[0].split[1]: needs a unit, like '200 GB', not 200"),
        (BLOCK + 'split = ["100 GB", true]', "grid[0].split[1]: needs a unit, like '200 GB', not True"),
        (BLOCK + 'split = ["0 GB"]', "grid[0].split[0]: must be at least 1, not '0 GB'"),
        (BLOCK + 'requeue = ["yes"]', "grid[0].requeue[0]: must be true or false, not 'yes'"),
        (BLOCK + 'as = ["both"]', "grid[0].as[0]: must be 'correct' or 'storalloc', not 'both'"),
        (BLOCK + 'split = ["0.5 GB"]\nas = ["storalloc"]', "grid[0].split: must be positive and whole GB, not 500,000"),
        (BLOCK + "feedback = true", "grid[0].feedback: is not a key of this table"),
        (BLOCK + BLOCK, "grid[1]: runs 'random' on '8TB/1N1D' twice with the same rules; remove one"),
        (BLOCK.replace('"random"', '"random", "random"'), "grid[0]: runs 'random' on '8TB/1N1D' twice"),
        (BLOCK + "[other]", "other: is not a key of this table"),
    ],
)
def test_a_bad_grid_is_one_line_with_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as raised:
        grid(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path}/grid.toml: {said}")
    assert "\n" not in str(raised.value)


def test_a_grid_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_grid(tmp_path / "none.toml")
    (tmp_path / "g.toml").write_text(BLOCK.replace("8TB/1N1D", "none.yml"))
    with pytest.raises(BadInput, match=r"/none\.yml: no such file"):
        read_grid(tmp_path / "g.toml")


# Effects


def test_cohens_d_is_the_difference_of_means_over_the_pooled_deviation() -> None:
    one, other = np.array([1.0, 2.0, 4.0, 5.0]), np.array([6.0, 9.0, 12.0])
    # Squares about the means of 3 and 9: 4 + 1 + 1 + 4 and 9 + 0 + 9, over 4 + 3 - 2.
    assert cohens_d(one, other) == pytest.approx(6 / math.sqrt((10 + 18) / 5))
    assert cohens_d(other, one) == -cohens_d(one, other)
    assert cohens_d(one, one) == 0.0


def test_cohens_d_of_values_that_do_not_vary_or_are_too_few() -> None:
    flat = np.array([2.0, 2.0])
    assert cohens_d(flat, flat) == 0.0
    assert cohens_d(flat, flat + 1) == math.inf
    assert cohens_d(flat + 1, flat) == -math.inf
    assert math.isnan(cohens_d(np.array([1.0]), np.array([1.0, 2.0])))
    assert math.isnan(cohens_d(np.array([1.0, 2.0]), np.array([])))


def test_layouts_are_those_of_the_papers_platforms() -> None:
    assert [layout_of(name) for name in NAMES[:4]] == ["nNnD", "nN1D", "1NnD", "1N1D"]
    assert layout_of("32TB/heterogeneous") == layout_of("mine") == layout_of(platform_of([(1, 1.0)]).name) == ""
