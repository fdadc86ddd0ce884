"""Advice for applications with small and large files: components where they gain, and a reason where they do not."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from forebay.act.advice import Advice, JobRequest, advise
from forebay.act.filesystems.filesystem import FileSystem, numbered_targets
from forebay.act.filesystems.lustre.filesystem import Lustre
from forebay.decide.registry import find
from forebay.history.store import Store, open_store
from forebay.history.store.runs import add_runs
from forebay.history.store.schema import decisions
from forebay.model.file_sizes import SizeClass, format_sizes
from forebay.model.layout import ANY, Component, Target
from support.command import Forebay
from support.filesystems import Pretend, Pretended
from support.history_rows import ost_columns, request_row, run_row

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL = SizeClass(below=128 * KIB, shared=False, files=40_000, bytes=40_000 * 100 * KIB)
MANY = SizeClass(below=128 * KIB, shared=False, files=200_000, bytes=200_000 * 50 * KIB)
TINY = SizeClass(below=32 * KIB, shared=False, files=40_000, bytes=40_000 * 20 * KIB)
LARGE = SizeClass(below=32 * GIB, shared=True, files=1, bytes=20 * GIB)


def fill(store: Store, *sizes: SizeClass, perf: float, nprocs: int = 16, components: int = 1) -> None:
    """Runs with 1, 4 and 8 stripes that wrote these files, each at 1 ms and 0.1 ms for each object of it."""
    moved = sum(c.bytes for c in sizes)
    shared = sum(c.bytes for c in sizes if c.shared)
    held = next(c for c in sorted(sizes) if 2 * sum(d.bytes for d in sizes if d.below <= c.below) >= moved)

    def seconds(count: int) -> float:
        files = sum(c.files for c in sizes) / nprocs
        return moved / (perf * count if shared else perf) + files * (1e-3 + 1e-4 * count)

    written = request_row("write") | {
        "total_bytes": moved, "shared_bytes": shared, "file_size": held.bytes // held.files,
        "file_sizes": format_sizes(sizes),
    }  # fmt: skip
    common = {
        "nprocs": nprocs, "io_procs": nprocs, "total_bytes": moved, "shared_bytes": shared, "stripe_size": MIB,
        "request_rows": [written], "pfl_components": components,
    }  # fmt: skip
    runs = [
        run_row(
            f"mix{count}", "mix", start_time=float(count), stripe_count=count, file_stripe_count=count,
            perf_by_slowest=moved / seconds(count), **common,
        )
        for count in (1, 4, 8)
    ]  # fmt: skip
    with store.open_writer() as connection:
        add_runs(connection, runs)


def ask(
    store: Store,
    files: FileSystem | None = None,
    *,
    policy: str = "forebay",
    targets: Sequence[Target] = numbered_targets(16),
    **more: Any,
) -> Advice:
    request = JobRequest(app="mix", nprocs=16, now=1000.0, chance=0.3)
    return advise(store, request, find("stripe", policy), files or Lustre(known_targets=16), targets, **more)


def test_small_and_large_files_get_a_progressive_layout_with_the_numbers_that_decided(store: Store) -> None:
    fill(store, SMALL, LARGE, perf=4e8)
    advice = ask(store)
    assert [part.end for part in advice.layout.before] == [MIB]
    assert (advice.layout.before[0].count, advice.layout.start) == (1, ANY)
    assert advice.layout.count >= 4
    assert " ".join(advice.command).startswith("lfs setstripe -E 1M -c 1 -S 1M -E -1 -c ")
    reason = advice.striping.reason
    assert "40,000 of 40,001 files of run 3 fit into the first 1 MiB and hold 16.0 % of the bytes" in reason
    assert "times as fast (" in reason
    gain = advice.striping.gain
    assert gain is not None
    assert 1 <= gain.low <= gain.factor <= gain.high


def test_large_files_alone_get_a_layout_of_one_component(store: Store) -> None:
    fill(store, LARGE, perf=4e8)
    advice = ask(store)
    assert advice.layout.before == ()
    assert advice.striping.gain is None
    assert advice.layout.count >= 4


def test_files_that_no_layout_makes_faster_say_so(store: Store) -> None:
    fill(store, TINY, perf=1e7)
    advice = ask(store)
    assert (advice.layout.before, advice.layout.count) == ((), 1)
    assert "small files stay off the MDT: the free space of the MDTs is not known" in advice.striping.reason
    assert "no striping gains anything" in advice.striping.reason


@pytest.fixture
def lustre(pretend: Pretend) -> Pretended:
    return pretend("lustre", targets=16)


def test_tiny_files_lie_on_the_mdt_and_the_command_is_applied_and_undone(store: Store, lustre: Pretended) -> None:
    lustre.change(mdt=[4 << 30, 1 << 20, 3 << 30])  # KiB
    fill(store, TINY, perf=1e7)
    folder = lustre.folder("run")
    advice = ask(store, lustre.system, apply_to=folder)
    assert advice.outcome == "applied"
    assert advice.layout.before == (Component(end=64 * KIB, count=0, size=64 * KIB),)
    assert list(advice.command) == ["lfs", "setstripe", "-E", "64K", "-L", "mdt", "-E", "-1", *advice.command[8:]]
    assert lustre.system.layout(folder) == advice.layout
    assert advice.undo == (("lfs", "setstripe", "-d", str(folder)),)
    with store.open_reader() as connection:
        (row,) = connection.execute(sa.select(decisions)).mappings()
    assert [part["stripe_count"] for part in json.loads(row["components"])] == [0, 1]


def test_an_mdt_without_room_is_left_alone(store: Store, lustre: Pretended) -> None:
    fill(store, TINY, perf=1e7)
    lustre.change(mdt=[4 << 20, 1 << 20, 3 << 20])
    reason = ask(store, lustre.system, apply_to=lustre.folder("run")).striping.reason
    assert (
        "small files stay off the MDT: a run would put 819.20 MB there, and 1 % of its free space is 32.21 MB" in reason
    )


def test_what_the_server_makes_smaller_is_put_back_and_decided_again_without_it(
    store: Store, lustre: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre.change(mdt=[4 << 30, 1 << 20, 3 << 30])
    fill(store, TINY, perf=1e7)
    convert = Lustre.layout

    def limited(self: Lustre, folder: Any) -> Any:
        layout = convert(self, folder)
        return type(layout)(count=layout.count, size=layout.size, start=layout.start)

    monkeypatch.setattr(Lustre, "layout", limited)
    folder = lustre.folder("run")
    advice = ask(store, lustre.system, apply_to=folder)
    assert (advice.outcome, advice.layout.before) == ("applied", ())
    assert "small files stay off the MDT: the file system refused it (lfs setstripe -E 64K -L mdt" in (
        advice.striping.reason
    )
    assert "\n" not in advice.striping.reason


@pytest.mark.parametrize("kind", ["beegfs7", "beegfs8"])
def test_beegfs_says_that_it_has_no_components(store: Store, pretend: Pretend, kind: Any) -> None:
    fill(store, SMALL, LARGE, perf=4e8)
    beegfs = pretend(kind, targets=16)
    advice = ask(store, beegfs.system, apply_to=beegfs.folder("run"))
    assert (advice.outcome, advice.layout.before) == ("applied", ())
    assert "BeeGFS has no progressive layouts: a folder has one pattern for all its files" in advice.striping.reason
    assert beegfs.system.layout(beegfs.folder("run")) == advice.layout


def test_old_releases_and_other_policies_get_one_component(store: Store, lustre: Pretended) -> None:
    fill(store, SMALL, LARGE, perf=4e8)
    folder = lustre.folder("run")
    for policy in ("dca-io", "tapp-io", "default"):
        assert ask(store, lustre.system, policy=policy, apply_to=folder).layout.before == ()
    assert not any(call[1] == "--version" for call in lustre.state()["log"])
    lustre.change(version="2.9.0")
    advice = ask(store, lustre.system, apply_to=folder)
    assert advice.layout.before == ()
    assert "but release 2.9.0 of Lustre has no progressive layouts" in advice.striping.reason


def test_the_folders_pool_is_kept_by_every_component(store: Store, lustre: Pretended) -> None:
    fill(store, MANY, LARGE, perf=8e8)
    lustre.change(pools={"fast": list(range(12))})
    folder = lustre.folder("run")
    lustre.system.apply(type(ask(store).layout)(count=2, pool="fast"), folder)
    targets = lustre.system.restrict(numbered_targets(16), folder)
    advice = ask(store, lustre.system, targets=targets, apply_to=folder)
    assert (advice.layout.pool, advice.command.count("fast")) == ("fast", 2)
    assert lustre.system.layout(folder).pool == "fast"


def test_layouts_with_components_that_were_slower_are_given_up(store: Store) -> None:
    fill(store, SMALL, LARGE, perf=4e8)
    slow = run_row(
        "slow", "mix", nprocs=16, io_procs=16, total_bytes=GIB, shared_bytes=GIB, stripe_size=MIB, stripe_count=8,
        file_stripe_count=8, perf_by_slowest=1e8, pfl_components=2,
    )  # fmt: skip
    with store.open_writer() as connection:
        add_runs(connection, [slow | {"start_time": 9.0 + i, "run_key": f"slow{i}"} for i in range(3)])
    advice = ask(store)
    assert advice.layout.before == ()
    assert "no progressive layout, as 3 runs with one had 9" in advice.striping.reason


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    return Forebay(capfd, monkeypatch)


def test_the_command_line_shows_components_pool_gain_and_undo(
    forebay: Forebay, lustre: Pretended, tmp_path: Path
) -> None:
    lustre.change(pools={"fast": list(range(12)), "empty": []}, mdt=[4 << 30, 1 << 20, 3 << 30])
    database = tmp_path / "x.db"
    with open_store(str(database)) as store:
        fill(store, MANY, LARGE, perf=8e8)
    system = tmp_path / "fs.toml"
    system.write_text(f'[filesystem]\nkind = "lustre"\nname = "scratch"\nmount = "{lustre.mount}"\ntimeout = "60 s"\n')
    folder = lustre.folder("run")
    words = ("advise", "--app", "mix", "--procs", "16", "--system", system, "--apply", folder, "--db", database)
    shown = forebay(*words, "--pool", "fast", "--json").json
    assert [part["end"] for part in shown["components"]][-1] is None
    assert len(shown["components"]) > 1
    assert (shown["pool"], shown["outcome"]) == ("fast", "applied")
    assert shown["predicted_gain_low"] <= shown["predicted_gain"] <= shown["predicted_gain_high"]
    assert shown["undo"] == [f"lfs setstripe -d {folder}"]
    out = forebay(*words).out
    assert f"to restore the earlier layout: lfs setstripe -d {folder} && lfs setstripe -E " in out
    code, out, err = forebay(*words, "--pool", "slow")
    assert (code, out) == (2, "")
    assert "--pool slow: file system scratch has no such pool; it has fast, empty" in err


def test_pools_of_the_settings_are_chosen_where_they_are_faster(
    forebay: Forebay, lustre: Pretended, tmp_path: Path
) -> None:
    lustre.change(pools={"flash": [0, 1, 2, 3], "disk": list(range(4, 16))})
    database, system = tmp_path / "x.db", tmp_path / "fs.toml"
    with open_store(str(database)) as store:
        fill(store, LARGE, perf=4e8)
        alone = {"filesystem": str(lustre.mount), "alone_files": 1, "alone_bytes": 10**9}
        used = [alone | {"ost": ost, "alone_time": 0.5 if ost < 4 else 4.0} for ost in range(16)]
        rows = [run_row(f"o{i}", "other", filesystem="", osts=ost_columns(*used)) for i in range(6)]
        with store.open_writer() as connection:
            add_runs(connection, rows)
    head = f'[filesystem]\nkind = "lustre"\nname = "scratch"\nmount = "{lustre.mount}"\ntimeout = "60 s"\n'
    words = ("advise", "--app", "mix", "--procs", "4", "--system", system, "--db", database)
    for rates in ('flash = "2 GB/s"\ndisk = "250 MB/s"', 'flash = "measured"\ndisk = "measured"'):
        system.write_text(f"{head}[filesystem.pools]\n{rates}\n")
        shown = forebay(*words, "--json").json
        assert shown["pool"] == "flash"
        assert "-p flash" in shown["command"]
        assert shown["stripe_count"] <= 4
        assert shown["notes"][0].startswith("pool flash: 2.00 GB/s a target by ")
        assert forebay(*words, "--policy", "dca-io", "--json").json["pool"] is None
    system.write_text(f'{head}[filesystem.pools]\nflash = "fast"\n')
    code, out, err = forebay(*words)
    assert (code, out) == (2, "")
    assert "filesystem.pools.flash: " in err
    assert err.count("\n") == 1
