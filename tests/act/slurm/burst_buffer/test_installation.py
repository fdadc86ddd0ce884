"""`forebay slurm install`, `check` and `stage`: what is written, and what never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.act.slurm.burst_buffer.installation import Hooks, burst_buffer_files, format_conf, plan_files
from forebay.model.errors import BadInput
from support.command import Forebay
from support.control import running
from support.control_processes import forebay as run_forebay
from support.slurm_lua import skip_without_lua

FILES = {"burst_buffer.lua", "forebay.lua", "forebay_settings.lua", "burst_buffer.conf", "job_submit.lua",
         "forebay_submit.lua"}  # fmt: skip


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "slurm.conf").write_text("# ClusterName=old\nclustername = hpc # ours\nStateSaveLocation=/var/spool/s\n")
    return folder


def test_all_files_are_written_and_told_and_again_changes_nothing(forebay: Forebay, etc: Path) -> None:
    first = forebay("slurm", "install", etc, "--service", "unix:/run/s")
    assert first.code == 0 and {path.name for path in etc.iterdir()} == FILES | {"slurm.conf"}
    assert "BurstBufferType=burst_buffer/lua" in first.out and "JobSubmitPlugins=lua" in first.out
    assert "forebay slurm reconcile --service unix:/run/s --cluster hpc" in first.out
    settings = (etc / "forebay_settings.lua").read_text()
    for line in ('socket = "/run/s"', 'cluster = "hpc"', 'cache = "/var/spool/s/forebay_pools.json"', "wait = 600"):
        assert f"  {line},\n" in settings
    before = {path: path.stat().st_mtime_ns for path in etc.iterdir()}
    again = forebay("slurm", "install", etc, "--service", "unix:/run/s", "--json")
    assert {row["done"] for row in again.json["files"]} == {"as it is"}
    assert {path: path.stat().st_mtime_ns for path in etc.iterdir()} == before


def test_a_changed_file_is_not_overwritten_unless_that_is_said_and_nothing_else_is_written(
    forebay: Forebay, etc: Path
) -> None:
    (etc / "job_submit.lua").write_text("-- a site's own\n")
    refused = forebay("slurm", "install", etc)
    assert refused.code == 2 and {path.name for path in etc.iterdir()} == {"slurm.conf", "job_submit.lua"}
    *differs, last = refused.err.splitlines()
    assert "--- a site's own" in differs and "them with --force" in last and str(etc / "job_submit.lua") in last
    assert forebay("slurm", "install", etc, "--no-job-submit").code == 0
    assert (etc / "job_submit.lua").read_text() == "-- a site's own\n" and not (etc / "forebay_submit.lua").exists()
    assert forebay("slurm", "install", etc, "--force").code == 0
    assert "site's own" not in (etc / "job_submit.lua").read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--service", "https://host:1"), "--service: the hooks need the service's socket: unix:/PATH"),
        (("--service", "unix:relative"), "--service: must be an absolute path, not 'relative'"),
        (("--cluster", "a b"), "--cluster: must be Slurm's ClusterName, not 'a b'"),
        (("--wait", "-5s"), "--wait: must be from 0 to 24 days"),
        (("--margin", "soon"), "--margin: 'soon' is not a number with a unit, like '4 MiB' or '1.5 h'"),
    ],
)
def test_bad_options_are_refused_in_one_line(forebay: Forebay, etc: Path, words: tuple[str, ...], line: str) -> None:
    found = forebay("slurm", "install", etc, *words)
    assert (found.code, found.err) == (2, f"forebay: {line}\n")
    assert [path.name for path in etc.iterdir()] == ["slurm.conf"]


def test_a_folder_without_a_cluster_needs_its_name(forebay: Forebay, tmp_path: Path) -> None:
    assert "has no ClusterName; give the name of the cluster" in forebay("slurm", "install", tmp_path).err
    assert "is not a folder" in forebay("slurm", "install", tmp_path / "x", "--cluster", "c").err
    assert forebay("slurm", "install", tmp_path, "--cluster", "c").code == 0


def test_scripts_before_and_after_jobs_are_written_on_demand(forebay: Forebay, etc: Path, tmp_path: Path) -> None:
    config = tmp_path / "jobs.toml"
    config.write_text('[jobs]\nfolder = "/run/told"\n')
    found = forebay("slurm", "install", etc, "--jobs", config)
    assert found.code == 0, found.err
    for line, name in (("PrologSlurmctld", "prolog.sh"), ("TaskProlog", "task_prolog.sh")):
        assert f"  {line}={etc / name}\n" in found.out and (etc / name).stat().st_mode & 0o777 == 0o755


def test_slurm_waits_longer_than_the_hooks_do() -> None:
    hooks = Hooks(service="unix:/s", cluster="c", command="forebay", wait=1000.0, patience=50.0)
    other = int(format_conf(hooks).partition("OtherTimeout=")[2].split()[0])
    assert other > 3 * hooks.wait + hooks.patience


def test_a_plan_tells_what_is_new_the_same_and_other(tmp_path: Path) -> None:
    wanted = burst_buffer_files(Hooks(service="unix:/s", cluster="c", command="forebay"))
    (tmp_path / "forebay.lua").write_text(wanted["forebay.lua"])
    (tmp_path / "burst_buffer.conf").write_text("Directive=BB\n")
    states = {one.path.name: one.state for one in plan_files(tmp_path, wanted)}
    assert (states["forebay.lua"], states["burst_buffer.conf"], states["job_submit.lua"]) == ("same", "other", "new")
    with pytest.raises(BadInput, match="is not a folder"):
        plan_files(tmp_path / "forebay.lua", wanted)


def test_the_check_names_what_is_missing(etc: Path, tmp_path: Path) -> None:
    found = run_forebay("slurm", "check", str(etc), "--service", f"unix:{tmp_path}/none")
    assert found.returncode == 2 and "not ready: files, slurm.conf" in found.stderr
    assert "NOT service: cannot reach the service at" in found.stdout


def test_the_check_is_content_where_all_is_there(forebay: Forebay, etc: Path, tmp_path: Path) -> None:
    skip_without_lua()
    with (etc / "slurm.conf").open("a") as conf:
        conf.write("BurstBufferType=burst_buffer/lua\n")
    forebay("slurm", "install", etc)
    with running(tmp_path) as service:
        service.hello("n")
        found = forebay("slurm", "check", etc, "--service", f"unix:{service.socket}", "--json")
    seen = {row["what"]: row for row in found.json}
    assert all(row["fine"] for row in seen.values()), seen
    assert "any 100.00 GB free of 100.00 GB" in seen["pools"]["message"]


def test_staging_wants_pairs_and_a_direction(forebay: Forebay, tmp_path: Path) -> None:
    own = ("--volume", tmp_path, "--uid", 1000, "--gid", 1000, "--")
    assert "FROM TO...: must be pairs" in forebay("slurm", "stage", "in", *own, "/x").err
    assert "must be 'in' or 'out', not 'up'" in forebay("slurm", "stage", "up", *own, "/x", "y").err
