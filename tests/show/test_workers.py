"""Who does the work: what the configuration adds, and what is wrong with it."""

from pathlib import Path

import pytest

from forebay.model.errors import BadInput, UserError
from forebay.show.workers import SlurmTable, find_configuration, hire_workers, read_slurm_options

EXAMPLE = Path(__file__).parents[2] / "examples" / "forebay.toml"


@pytest.fixture(autouse=True)
def nothing_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FOREBAY_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_processes_need_no_configuration() -> None:
    with hire_workers("3") as workers:
        assert workers == 3


def test_the_nearest_configuration_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_configuration() is None
    at_home = tmp_path / "config" / "forebay" / "forebay.toml"
    at_home.parent.mkdir(parents=True)
    at_home.touch()
    assert find_configuration() == at_home
    Path("forebay.toml").touch()
    assert find_configuration() == Path("forebay.toml")
    monkeypatch.setenv("FOREBAY_CONFIG", "named.toml")
    assert find_configuration() == Path("named.toml")


def test_without_a_configuration_jobs_ask_for_little() -> None:
    assert read_slurm_options()[0] == SlurmTable()


def test_what_is_configured_is_what_jobs_ask_for() -> None:
    Path("forebay.toml").write_text(
        '[workers.slurm]\npartition = "long"\nmemory = "3 GiB"\ncores = 4\ndirectives = ["--qos=low"]\nwait = "2 min"\n'
    )
    options, where = read_slurm_options()
    assert options == SlurmTable.model_construct(
        partition="long", memory=3 * 2**30, cores=4, directives=["--qos=low"], wait=120
    )
    assert where == "forebay.toml: [workers.slurm]"


def test_the_example_says_what_holds_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREBAY_CONFIG", str(EXAMPLE))
    assert read_slurm_options()[0] == SlurmTable(partition="main")


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("[workers", "forebay.toml:1", "is not TOML"),
        ("workers = 3", "forebay.toml: workers", ""),
        ("[workers.slrum]", "forebay.toml: workers.slrum", "is not a key of this table"),
        ('[workers.slurm]\nqueue = "x"', "forebay.toml: workers.slurm.queue", "is not a key of this table"),
        ("[workers.slurm]\ncores = 0", "forebay.toml: workers.slurm.cores", "must be at least 1, not 0"),
        ("[workers.slurm]\nmemory = 5", "forebay.toml: workers.slurm.memory", ""),
        ('[workers.slurm]\nmemory = "1 kB"', "forebay.toml: workers.slurm.memory", "at least 1 MB"),
        ('[workers.slurm]\ntime = ["1"]', "forebay.toml: workers.slurm.time", "must be text"),
    ],
)
def test_a_configuration_that_is_wrong_is_said_with_its_place(text: str, where: str, reason: str) -> None:
    Path("forebay.toml").write_text(text)
    with pytest.raises(BadInput) as refused, hire_workers("slurm:2"):
        pytest.fail("taken")
    assert refused.value.where == where and reason in refused.value.reason


def test_a_machine_without_slurm_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("PATH", str(tmp_path))
    Path("forebay.toml").write_text('[workers.slurm]\ninterface = "lo"\n')
    with pytest.raises(UserError, match="sbatch") as refused, hire_workers("slurm:2"):
        pytest.fail("taken")
    assert "\n" not in str(refused.value)


def test_a_network_that_does_not_exist_is_said() -> None:
    pytest.importorskip("dask_jobqueue")
    Path("forebay.toml").write_text('[workers.slurm]\ninterface = "ib77"\n')
    with pytest.raises(BadInput, match="ib77"), hire_workers("slurm:2"):
        pytest.fail("taken")


@pytest.mark.parametrize(("workers", "module"), [("dask://h:1", "distributed"), ("slurm:2", "dask_jobqueue")])
def test_what_is_not_installed_is_named(workers: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=r"needs Dask.*: pip install 'forebay\[scale\]'"), hire_workers(workers):
        pytest.fail("taken")
