"""Work in jobs of a real Slurm, one of which is ended half way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forebay.model.errors import BadInput
from forebay.show.workers import hire_workers
from forebay.work import run_pieces
from support import work
from support.command import Forebay
from support.dask_cluster import hire_dask_workers
from support.processes import wait_until
from support.slurm import Slurm, own_slurm

STUDY = ("study", "io-nodes", "--sets", 2, "--loads", "0.4:0.8:0.4", "--applications", 20, "--targets", 8)
POLICIES = ("--allocate", "tcpu", "--place", "random")
OPTIONS = (
    '[workers.slurm]\npartition = "main"\ntime = "00:05:00"\nmemory = "500 MB"\ninterface = "lo"\nwait = "2 min"\n'
)


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'forebay[scale]'")
    with own_slurm() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def here(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a configuration, from where that Slurm is reached; its jobs find what the tests share."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FOREBAY_CONFIG", raising=False)
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setenv("PYTHONPATH", str(Path(work.__file__).parents[1]))
    Path("forebay.toml").write_text(OPTIONS)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


def jobs(slurm: Slurm) -> list[str]:
    return slurm.run("squeue", "-h", "-o", "%A %t").splitlines()


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_study_in_jobs_gives_the_same_bytes_and_leaves_no_job(slurm: Slurm, forebay: Forebay) -> None:
    for name, workers in (("one", "1"), ("jobs", "slurm:2")):
        ran = forebay(*STUDY, *POLICIES, "--out", name, "--workers", workers)
        assert ran.code == 0, ran.err
    assert ran.err == "forebay: slurm:2: no workers yet; waiting up to 2 min for the first\n"
    one, other = files(Path("one")), files(Path("jobs"))
    assert len(one) > 9 and list(one) == list(other)
    assert [name for name in one if one[name] != other[name]] == []
    wait_until(lambda: not jobs(slurm), "jobs are left")


def test_a_job_that_is_ended_half_way_costs_nothing_but_time(slurm: Slurm, tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    folder.mkdir()
    with hire_dask_workers("slurm:2") as workers:
        wait_until(lambda: workers.count() == 2, "not all workers come")
        with closing(run_pieces(workers, work.first_alone(folder), range(7))) as results:
            found = [next(results)]
            wait_until(lambda: len(set(work.at_work(folder).values())) == 2, "not both began")
            ended = work.at_work(folder)
            slurm.run("scancel", "--signal=KILL", "--full", jobs(slurm)[0].split()[0])
            wait_until(lambda: not all(map(work.alive, ended.values())), "the job does not end")
            (folder / "go").touch()
            found += results
    assert sorted(found) == [(n, 2 * n) for n in range(7)]
    wait_until(lambda: not jobs(slurm), "jobs are left")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('partition = "nowhere"', "invalid partition specified: nowhere; partitions: main"),
        ('partition = "main"\nmemory = "5 TB"', "Requested node configuration is not available"),
    ],
)
def test_what_slurm_would_refuse_is_said_before_anything_is_submitted(slurm: Slurm, line: str, words: str) -> None:
    Path("forebay.toml").write_text(f'[workers.slurm]\ninterface = "lo"\n{line}\n')
    with pytest.raises(BadInput) as refused, hire_workers("slurm:2"):
        pytest.fail("taken")
    assert str(refused.value).startswith("forebay.toml: [workers.slurm]: Slurm would refuse the job: ")
    assert words in str(refused.value) and "\n" not in str(refused.value)
    assert jobs(slurm) == []
