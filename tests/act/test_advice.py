"""Advice for a job about to start: decided, kept for the job, put on; or refused, and nothing changed."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from forebay.act import command
from forebay.act.advice import Advice, ChosenFileSystem, JobRequest, advise, choose_filesystem, known_targets
from forebay.act.command import CommandFailed
from forebay.act.filesystems.filesystem import FileSystem, LayoutRefused, numbered_targets
from forebay.act.filesystems.load import Load
from forebay.act.filesystems.lustre.filesystem import Lustre
from forebay.decide.registry import find
from forebay.history.store import Store, open_store
from forebay.history.store.running_jobs import jobs_by_target, release_targets, take_targets
from forebay.history.store.runs import add_runs
from forebay.history.store.schema import decisions
from forebay.model.errors import BadInput
from forebay.model.layout import ANY, Target
from support.command import Forebay
from support.filesystems import KINDS, Pretend, Pretended
from support.history_rows import ost_columns, request_row, run_row

MIB = 1 << 20


def fill(store: Store, *rows: dict[str, Any]) -> None:
    with store.open_writer() as connection:
        add_runs(connection, rows)


def run(
    number: int, app: str = "vpic", *, count: int | None = 1, perf: float = 1e9, procs: int = 8, **more: Any
) -> Any:
    shared = {"total_bytes": 100, "shared_bytes": 100, "io_procs": procs, "start_time": float(number)}
    layout = {"stripe_count": count, "file_stripe_count": count, "stripe_size": MIB, "perf_by_slowest": perf}
    return run_row(f"{app}{number}", app, nprocs=procs, **(shared | layout | more))


def ask(
    store: Store,
    app: str = "vpic",
    *,
    policy: str = "dca-io",
    procs: int = 8,
    job: str | None = None,
    now: float = 1000.0,
    files: FileSystem | None = None,
    targets: tuple[Target, ...] | None = None,
    loads: tuple[Load, ...] = (),
    filesystem: str | None = None,
    **more: Any,
) -> Advice:
    asked = JobRequest(app=app, nprocs=procs, now=now, chance=0.3, job=job, until=now + 100, filesystem=filesystem)
    return advise(
        store,
        asked,
        find("stripe", policy),
        files or Lustre(known_targets=8),
        targets or numbered_targets(8),
        loads,
        **more,
    )


def remembered(store: Store) -> list[dict[str, Any]]:
    with store.open_reader() as connection:
        return [dict(row) for row in connection.execute(sa.select(decisions)).mappings()]


def leases(store: Store, now: float = 1000.0) -> dict[int, set[str]]:
    with store.open_reader() as connection:
        return jobs_by_target(connection, "default", now)


def test_a_new_application_gets_what_served_others_best(store: Store) -> None:
    fill(store, run(1, "a", count=1, perf=1e8), run(2, "b", count=4, perf=9e8), run(3, "c", count=2, perf=5e8))
    advice = ask(store, "new")
    assert (advice.layout.count, advice.striping.phase) == (4, "initial")
    assert " ".join(advice.command) == "lfs setstripe -c 4 -S 1M -i 0 DIR"


def test_a_new_number_of_processes_takes_the_nearest_and_says_so(store: Store) -> None:
    fill(store, run(1, "a", count=2, procs=4), run(2, "b", count=8, procs=1024))
    advice = ask(store, "new", procs=8)
    assert advice.layout.count == 2
    assert "no other application ran with 8 processes" in advice.striping.because


def test_the_second_run_follows_the_rule_and_later_ones_climb(store: Store) -> None:
    fill(store, run(1, count=1, perf=1e8))
    second = ask(store)
    assert (second.layout.count, second.striping.phase) == (8, "rule")
    fill(store, run(2, count=2, perf=2e8))
    third = ask(store)
    assert (third.layout.count, third.striping.phase) == (4, "heuristic")
    assert third.striping.runs


def test_runs_of_partial_logs_are_told_and_do_not_decide(store: Store) -> None:
    fill(store, run(1, count=1, perf=1e8), run(2, count=2, perf=2e8), run(3, count=4, perf=9e9, partial_flag=True))
    advice = ask(store)
    assert advice.partial_runs == 1
    assert 3 not in advice.striping.runs


def test_a_mere_question_needs_no_right_to_write_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with open_store(str(path)) as store:
        fill(store, run(1, "a", count=4))
    with open_store(str(path)) as one, one.open_writer(), open_store(str(path)) as store:  # nobody else may write now
        assert ask(store, "new").layout.count == 4
        assert remembered(store) == []


def test_two_jobs_are_kept_apart_until_one_gives_back(store: Store) -> None:
    fill(store, run(1, count=1), run(2, count=2, perf=2e9), run(3, count=4, perf=1e8))
    first, second, third = (ask(store, job=name).striping.targets for name in "abc")
    assert (first, second, third) == ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 2, 3)) or len({*first} & {*second}) == 0
    with store.open_writer() as connection:
        assert release_targets(connection, "b") == len(second)
    assert ask(store, job="d").striping.targets == second


def test_a_lease_that_ran_out_is_over(store: Store) -> None:
    fill(store, run(1))
    kept = ask(store, job="a", now=1000.0).striping.targets
    assert set(leases(store, 1099.0)) == set(kept)
    assert leases(store, 1100.0) == {}


def test_a_job_that_asks_again_is_not_in_its_own_way(store: Store) -> None:
    fill(store, run(1))
    first = ask(store, job="a").striping.targets
    assert ask(store, job="a").striping.targets == first
    assert set(leases(store)) == set(first)


def test_live_load_counts_like_a_lease_but_not_twice(store: Store) -> None:
    fill(store, run(1, "a", count=2))
    busy = tuple(Load(index=i, rate=1e9, jobs=frozenset({"x"})) for i in range(3))
    assert ask(store, "new", loads=busy).striping.targets == (3, 4)
    own = tuple(Load(index=i, rate=1e9, jobs=frozenset({"me"})) for i in range(3))
    assert ask(store, "new", job="me", loads=own).striping.targets == (0, 1)


def test_files_of_their_own_are_left_to_the_file_system_to_spread(store: Store) -> None:
    fill(store, run(1, "each", shared_bytes=0), run(2, "one", shared_bytes=0, io_procs=1), run(3, "all"))
    each, one, every = (ask(store, app, job=app) for app in ("each", "one", "all"))
    assert (each.layout.start, each.striping.targets) == (ANY, ())
    assert "each process writes its own file, so the file system chooses the first target" in each.notes[0]
    assert "-i" not in each.command
    assert one.layout.start >= 0
    assert every.layout.start >= 0
    assert {job for jobs in leases(store).values() for job in jobs} == {"one", "all"}


def test_the_latest_run_with_as_many_processes_tells_how_it_uses_files(store: Store) -> None:
    fill(store, run(1, procs=8, shared_bytes=0), run(2, procs=64))
    assert ask(store, procs=8).layout.start == ANY
    assert ask(store, procs=64).layout.start >= 0
    assert ask(store, procs=16).layout.start >= 0  # as the latest of all had it


def written(size: int, **more: int) -> list[dict[str, Any]]:
    """What is known of a run's writes: half of the bytes are in files of `size` or larger ones."""
    return [request_row("write", file_size=size, total_bytes=size, **more)]


def test_the_run_that_a_reason_names_is_the_one_that_decided(store: Store) -> None:
    """The newest has no layout, and shares no file; with 8 processes it is another one that tells."""
    fill(store, run(1, procs=8), run(2, procs=64, shared_bytes=0))
    fill(store, run(3, procs=64, shared_bytes=0, count=None, stripe_size=None))
    few, many = ask(store, procs=8), ask(store, procs=64)
    assert "in its latest run with 8 processes (run 1) processes shared files" in few.striping.because
    assert "in its latest run with 64 processes (run 3) most bytes went to files of a single process" in (
        many.striping.because
    )
    assert (few.striping.runs, many.striping.runs) == ((1,), (3,))
    fill(store, run(4, procs=8, shared_bytes=0, io_procs=1))
    assert "(run 4) one process did all I/O" in ask(store, procs=8, policy="tapp-io").striping.because
    fill(store, run(5, procs=8, total_bytes=0, shared_bytes=0))
    assert "(run 4)" in ask(store, procs=8, policy="tapp-io").striping.because  # one that moved nothing tells nothing


@pytest.mark.parametrize("policy", ["dca-io", "tapp-io"])
def test_lines_on_a_screen_tell_nothing_of_files(store: Store, policy: str) -> None:
    """What a program prints is in no file, and neither shared nor of a single process."""
    rows = [request_row("read"), request_row("write", total_bytes=100)]
    fill(store, run(1, total_bytes=1000, shared_bytes=100, request_rows=rows))
    assert "(run 1) processes shared files" in ask(store, policy=policy).striping.because
    nothing = [request_row("read"), request_row("write")]
    for number, app in ((2, "vpic"), (3, "hello")):
        fill(store, run(number, app, count=None, total_bytes=1000, shared_bytes=0, request_rows=nothing))
    assert "(run 1) processes shared files" in ask(store, policy=policy).striping.because
    assert "its only run does not show how it uses files" in ask(store, "hello", policy=policy).striping.because


def test_how_many_of_its_processes_do_io_is_told_by_one_run(store: Store) -> None:
    fill(store, run(1, procs=4), run(2, procs=64, io_procs=16, count=None, stripe_size=None))
    assert "and 16 processes will do I/O" in ask(store, procs=64).striping.because


@pytest.mark.parametrize("policy", ["forebay", "dca-io"])
def test_an_application_whose_runs_tell_no_layout_is_not_said_never_to_have_run(store: Store, policy: str) -> None:
    fill(store, *(run(i, count=None, stripe_size=None) for i in range(10)))
    because = ask(store, policy=policy).striping.because
    assert "never ran" not in because
    assert "is new" not in because
    assert ("its 10 runs" in because) == (policy == "forebay")


def test_an_application_that_ran_elsewhere_is_not_said_never_to_have_run(store: Store) -> None:
    fill(store, run(1, filesystem="/home"))
    asked = JobRequest(app="vpic", nprocs=8, now=1000.0, chance=0.3, filesystem="/scratch")
    never = "it never ran on this file system"
    for policy, words in (("forebay", never), ("tapp-io", never), ("dca-io", "it is new on this file system")):
        advice = advise(store, asked, find("stripe", policy), Lustre(known_targets=8), numbered_targets(8))
        assert words in advice.striping.because


@pytest.mark.parametrize("policy", ["forebay", "dca-io", "tapp-io"])
@pytest.mark.parametrize("count", [None, 1, 2])
@pytest.mark.parametrize("runs", [1, 3])
def test_more_stripes_than_files_can_fill_promise_nothing(
    store: Store, policy: str, count: int | None, runs: int
) -> None:
    size, rows = count and MIB, written(100)
    for number in range(runs):
        fill(store, run(number, count=count, perf=1e6 * (1 + number), stripe_size=size, request_rows=rows))
    advice = ask(store, policy=policy)
    assert advice.layout.count == 1
    assert "100 B (run 1)" in advice.striping.because
    assert "% more" not in advice.striping.because


def test_files_of_three_stripes_get_no_more_than_three(store: Store) -> None:
    fill(store, *(run(i, perf=1e8, request_rows=written(3 * MIB)) for i in range(3)))
    for policy in ("forebay", "dca-io"):
        layout = ask(store, policy=policy).layout
        assert layout.count * layout.size < 3 * MIB + layout.size
    fill(store, run(9, perf=1e8, request_rows=written(10**12)))
    assert ask(store, policy="forebay").layout.count > 1


def test_a_new_application_is_taken_to_have_files_as_others_do(store: Store) -> None:
    assert ask(store, "new").layout.start == ANY  # nothing is known of anybody
    fill(store, run(1, "a"), run(2, "b"), run(3, "c", shared_bytes=0))
    assert ask(store, "new").layout.start >= 0
    fill(store, run(4, "d", shared_bytes=0))
    assert ask(store, "new").layout.start == ANY
    assert ask(store, "new", procs=1).layout.start >= 0


def test_targets_that_are_out_of_order_are_never_chosen(store: Store) -> None:
    fill(store, run(1, "a", count=3))
    targets = tuple(Target(index=i, usable=i not in (0, 2)) for i in range(6))
    assert ask(store, "new", targets=targets).striping.targets == (1, 3, 4)


def test_shadow_decides_and_remembers_only(store: Store, pretend: Pretend) -> None:
    fill(store, run(1))
    system = pretend("lustre")
    advice = ask(store, job="a", files=system.system, shadow=True, apply_to=system.folder("out"))
    assert advice.outcome == "shadow"
    assert leases(store) == {}
    assert system.calls("set") == []
    assert [row["outcome"] for row in remembered(store)] == ["shadow"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_put_on_and_read_back(store: Store, pretend: Pretend, kind: Any) -> None:
    fill(store, run(1, "a", count=4))
    system = pretend(kind)
    folder = system.folder("out")
    advice = ask(store, "new", job="a", files=system.system, targets=system.system.targets(folder), apply_to=folder)
    assert advice.outcome == "applied"
    assert system.system.layout(folder).count == 4
    [row] = remembered(store)
    assert (row["outcome"], row["applied_to"], row["stripe_count"]) == ("applied", str(folder), 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_leaves_everything_as_it_was(store: Store, pretend: Pretend, kind: Any) -> None:
    fill(store, run(1, "a", count=4))
    system = pretend(kind)
    folder = system.folder("out")
    before = system.system.layout(folder)
    targets = system.system.targets(folder)
    with store.open_writer() as connection:
        take_targets(connection, "another file system", "a", [1, 2], until=2000.0, now=1000.0)
    system.refuse("set", "Operation not permitted", 1)
    with pytest.raises((LayoutRefused, CommandFailed), match="Operation not permitted"):
        ask(store, "new", job="a", files=system.system, targets=targets, apply_to=folder)
    system.change(refuse={})
    assert system.system.layout(folder) == before
    assert leases(store) == {}
    with store.open_reader() as connection:
        assert jobs_by_target(connection, "another file system", 1000.0) == {1: {"a"}, 2: {"a"}}
    assert [row["outcome"] for row in remembered(store)] == ["refused"]


def test_two_at_once_never_get_the_same_free_targets(database: str) -> None:
    with open_store(database) as store:
        fill(store, run(1, "a", count=2))

    def one(number: int) -> tuple[int, ...]:
        with open_store(database) as own:
            return ask(own, "new", job=f"j{number}", targets=numbered_targets(32)).striping.targets

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(one, range(16)))
    assert sorted(t for targets in given for t in targets) == list(range(32))


def test_how_many_targets_there_are_is_taken_from_the_history(store: Store) -> None:
    with pytest.raises(BadInput, match="no run in the history used an OST"):
        known_targets(store)
    fill(store, run(1, osts=ost_columns({"ost": 11})))
    assert len(known_targets(store)) == 12


def test_runs_on_another_file_system_tell_nothing(store: Store) -> None:
    fill(
        store, run(1, "a", count=8, perf=9e9, filesystem="/scratch"), run(2, "b", count=2, perf=1e9, filesystem="/home")
    )
    on = {mount: ask(store, "new", filesystem=mount).layout.count for mount in ("/scratch", "/home", None)}
    assert on == {"/scratch": 8, "/home": 2, None: 8}
    fill(store, run(3, count=4, filesystem="/scratch"))
    assert ask(store, policy="dca-io", filesystem="/scratch").striping.runs == (3,)
    assert ask(store, policy="dca-io", filesystem="/home").striping.runs == ()


def test_the_file_system_is_named_or_that_of_the_folder_or_of_the_last_run(store: Store, tmp_path: Path) -> None:
    assert choose_filesystem(store, "vpic", None, None) == ChosenFileSystem(None)
    fill(store, run(1, filesystem="/scratch"), run(2, "a", filesystem=str(tmp_path)), run(3, filesystem=""))
    assert choose_filesystem(store, "vpic", None, None).mount == "/scratch"
    assert choose_filesystem(store, "a", None, None).because == f"for {tmp_path}: its last run was there; " + (
        "--filesystem names another"
    )
    (tmp_path / "out").mkdir()
    assert choose_filesystem(store, "vpic", None, tmp_path / "out") == ChosenFileSystem(str(tmp_path))
    assert choose_filesystem(store, "vpic", "/scratch", None) == ChosenFileSystem("/scratch")
    assert "the history has no run on /new" in choose_filesystem(store, "vpic", "/new", None).because


def test_as_many_targets_as_that_file_system_has(store: Store) -> None:
    here, there = {"filesystem": "/scratch", "ost": 3}, {"filesystem": "/home", "ost": 14}
    fill(store, run(1, osts=ost_columns(here, there)))
    assert [len(known_targets(store, mount)) for mount in ("/scratch", "/home")] == [4, 15]


@pytest.fixture
def forebay(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command: exit code, output, and what it says on the screen."""
    database = tmp_path / "history.db"
    with open_store(str(database)) as store:
        fill(store, run(1, "a", count=4, perf=2e9), run(2, count=2))
    main = Forebay(capfd, monkeypatch)
    return lambda *arguments: main("advise", *arguments, "--db", database)


def test_the_command_decides_applies_and_gives_back(forebay: Any, pretend: Pretend, tmp_path: Path) -> None:
    system = pretend("lustre")
    folder = system.folder("out")
    file = tmp_path / "scratch.toml"
    file.write_text(f'[filesystem]\nkind = "lustre"\nname = "scratch"\nmount = "{system.mount}"\ntimeout = "60 s"\n')
    asked = ("--app", "new", "--procs", 8, "--system", file, "--policy", "dca-io", "--job", 7)
    code, out, err = forebay(*asked, "--apply", folder, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["outcome"], told["stripe_count"], told["phase"]) == ("applied", 4, "initial")
    assert told["command"] == f"lfs setstripe -c 4 -S 1M -i {told['stripe_offset']} {folder}"
    assert system.system.layout(folder).count == 4
    code, out, _ = forebay("--release", 7)
    assert (code, out) == (0, "job 7: 4 targets released\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--app", "x", "--procs", 0), "--procs: must be between 1 and 16777216, not 0"),
        (("--app", "x", "--procs", 10**30), "--procs: must be between 1 and 16777216"),
        (("--app", "", "--procs", 3), "--app: must not be empty"),
        (("--app", "\udcff", "--procs", 3, "--targets", 4), "is not UTF-8"),
        (("--release", "\udcff"), "is not UTF-8"),
        (("--app", "x"), "--procs: is required"),
        (("--procs", 3), "--app: is required"),
        (("--app", "x", "--procs", 3), "no run in the history used an OST"),
        (("--app", "x", "--procs", 3, "--targets", 4, "--policy", "dca"), "no striping policy 'dca'"),
        (("--app", "x", "--procs", 3, "--targets", 4, "--apply", "/nowhere/at/all"), "no such folder"),
        (("--app", "x", "--procs", 3, "--targets", 4, "--lease", "soon"), "--lease: 'soon' is not"),
        (("--app", "x", "--procs", 3, "--system", "/nowhere.toml"), "no such file"),
        (("--app", "x", "--procs", 3, "--filesystem", "/x"), "no run in the history used an OST"),
        (("--release", "7", "--app", "x"), "--release: cannot be combined"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(forebay: Any, arguments: tuple[object, ...], words: str) -> None:
    code, out, err = forebay(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


@pytest.fixture
def hasty(pretend: Pretend, tmp_path: Path) -> tuple[Pretended, Path]:
    """A Lustre and the file that describes it, with little patience for its commands."""
    system, file = pretend("lustre"), tmp_path / "scratch.toml"
    file.write_text(f'[filesystem]\nkind = "lustre"\nmount = "{system.mount}"\ntimeout = "1 s"\n')
    return system, file


def test_a_file_system_that_hangs_is_given_up(forebay: Any, hasty: tuple[Pretended, Path]) -> None:
    system, file = hasty
    system.change(hang=["lfs df", "lfs osts"])
    code, out, err = forebay("--app", "x", "--procs", 3, "--system", file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no answer within 1 s" in err


def test_with_an_ost_down_there_is_advice_that_leaves_it_out(forebay: Any, hasty: tuple[Pretended, Path]) -> None:
    system, file = hasty
    system.change_target(0, state="down")
    code, out, err = forebay("--app", "x", "--procs", 3, "--system", file)
    assert (code, err) == (0, "")
    assert "target 0 excluded: not connected (DISCONN)" in out


def test_what_a_new_file_shows_is_decided_again(store: Store, pretend: Pretend) -> None:
    """An OST that is drained on the MDS, which no client is told."""
    fill(store, run(1, "a", count=8, perf=9e8))
    system = pretend("lustre")
    system.change_target(3, max_create_count=0)
    asked = JobRequest(app="new", nprocs=8, now=1000.0, chance=0.3, job="j", until=2000.0)
    targets, folder = system.system.targets(), system.folder("run")
    advice = advise(store, asked, find("stripe", "dca-io"), system.system, targets, apply_to=folder)
    assert (advice.outcome, advice.layout.count) == ("applied", 7)
    assert advice.notes[-1] == "target 3 excluded: accepts no new file"
    assert [row["outcome"] for row in remembered(store)] == ["refused", "applied"]
    assert 3 not in leases(store)


def test_in_a_folder_with_a_pool_only_its_osts_are_advised(forebay: Any, pretend: Pretend, tmp_path: Path) -> None:
    system, file = pretend("lustre"), tmp_path / "scratch.toml"
    file.write_text(f'[filesystem]\nkind = "lustre"\nmount = "{system.mount}"\n')
    system.change(pools={"fast": [5, 6, 7]})
    folder = system.folder("out")
    command.run(("lfs", "setstripe", "-c", "1", "-p", "fast", str(folder)), timeout=60.0)
    code, out, err = forebay("--app", "x", "--procs", 64, "--system", file, "--apply", folder)
    assert (code, err) == (0, "")
    assert "targets 0, 1, 2, 3, 4 excluded: not in pool fast" in out
    layout = system.state()["layouts"][str(folder.resolve())]
    assert layout["pool"] == "fast"
    assert layout["start"] in (-1, 5, 6, 7)
    assert layout["count"] <= 3


def test_in_shadow_mode_a_known_number_of_targets_asks_nobody(
    forebay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no lfs
    file = tmp_path / "scratch.toml"
    file.write_text('[filesystem]\nkind = "lustre"\ntargets = 4\n')
    code, out, err = forebay("--app", "x", "--procs", 3, "--system", file, "--apply", tmp_path, "--shadow")
    assert (code, err) == (0, "")
    assert "shadow mode, not applied" in out
