"""Layouts of several components on Lustre: set, read back, compared with what new files get, and undone exactly."""

from pathlib import Path

import pytest

from forebay.act.command import format_command, run
from forebay.act.filesystems.filesystem import LayoutRefused
from forebay.act.filesystems.lustre.layouts import parse_version
from forebay.act.filesystems.lustre.targets import parse_mdts
from forebay.act.filesystems.settings import Settings, open_filesystem
from forebay.model.errors import BadInput
from forebay.model.layout import Component, Layout
from support.filesystems import Pretend, Pretended
from support.lustre_recordings import needs_recordings, recordings

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MIXED = Layout(
    count=4, size=4 * MIB, before=(Component(end=16 * MIB, count=1), Component(end=GIB, count=2, size=2 * MIB))
)
ON_MDT = Layout(count=2, before=(Component(end=64 * KIB, count=0, size=64 * KIB), Component(end=16 * MIB, count=1)))


@pytest.fixture
def lustre(pretend: Pretend) -> Pretended:
    return pretend("lustre")


@pytest.mark.parametrize("release", ["2.15", "2.17"])
@pytest.mark.parametrize("layout", [MIXED, ON_MDT], ids=["mixed", "on the MDT"])
def test_what_is_set_reads_back_in_both_spellings(lustre: Pretended, layout: Layout, release: str) -> None:
    lustre.change(release=release)
    folder = lustre.folder("run")
    assert lustre.system.apply(layout, folder).layout == layout == lustre.system.layout(folder)
    assert lustre.calls("set")[0] == list(lustre.system.set_command(layout, folder))
    assert list(folder.iterdir()) == []


def test_the_command_names_every_part() -> None:
    lustre = open_filesystem(Settings(kind="lustre", targets=8))
    assert format_command(lustre.set_command(MIXED, Path("out"))) == (
        "lfs setstripe -E 16M -c 1 -S 1M -E 1G -c 2 -S 2M -E -1 -c 4 -S 4M out"
    )
    in_pool = Layout(count=2, before=ON_MDT.before, pool="flash")
    assert format_command(lustre.set_command(in_pool, Path("out"))) == (
        "lfs setstripe -E 64K -L mdt -E 16M -c 1 -S 1M -p flash -E -1 -c 2 -S 1M -p flash out"
    )


EARLIER = {
    "none": (),
    "a count": ("-c", "3"),
    "a first target": ("-c", "2", "-S", "2M", "-i", "5"),
    "a list of OSTs": ("-o", "6,2"),
    "a pool": ("-c", "2", "-p", "fast"),
    "components": ("-E", "1M", "-c", "1", "-E", "-1", "-c", "2"),
    "components in a pool": ("-E", "4M", "-c", "1", "-p", "fast", "-E", "-1", "-c", "3"),
    "a part on the MDT": ("-E", "64K", "-L", "mdt", "-E", "-1", "-c", "2"),
}


@pytest.mark.parametrize("earlier", EARLIER.values(), ids=EARLIER)
@pytest.mark.parametrize("layout", [MIXED, ON_MDT, Layout(count=2)], ids=["mixed", "on the MDT", "plain"])
def test_undoing_restores_the_earlier_layout_exactly(
    lustre: Pretended, layout: Layout, earlier: tuple[str, ...]
) -> None:
    lustre.change(pools={"fast": [1, 2, 3, 4, 5, 6, 7]})
    folder = lustre.folder("run")
    if earlier:
        run(("lfs", "setstripe", *earlier, str(folder)), timeout=60)
    before = run(("lfs", "getstripe", "-d", "--raw", "-y", str(folder)), timeout=60)
    undo = lustre.system.apply(layout, folder).undo
    assert run(("lfs", "getstripe", "-d", "--raw", "-y", str(folder)), timeout=60) != before
    for command in undo:
        run(command, timeout=60)
    assert run(("lfs", "getstripe", "-d", "--raw", "-y", str(folder)), timeout=60) == before


def test_another_layout_than_asked_for_is_put_back(lustre: Pretended) -> None:
    folder = lustre.folder("run")
    lustre.change(alter={"lfs setstripe": {"count": 3}}, once=True)  # in the last component
    with pytest.raises(LayoutRefused, match=r"reads back as .* then 3 stripes .*the earlier layout is restored$"):
        lustre.system.apply(MIXED, folder)
    assert lustre.system.layout(folder).before == ()


def test_more_targets_than_all_components_can_get_are_refused_before_anything_is_done(lustre: Pretended) -> None:
    for index in (3, 4):
        lustre.lose(index)
    with pytest.raises(BadInput, match=r"stripe count 1 \+ 2 \+ 4: only 6 of 8 targets are usable"):
        lustre.system.apply(MIXED, lustre.folder("run"))
    assert lustre.calls("set") == []


def test_targets_that_silently_take_no_files_are_found_although_no_component_uses_them_yet(lustre: Pretended) -> None:
    for index in (2, 6):
        lustre.change_target(index, max_create_count=0)  # only an MDS knows
    with pytest.raises(LayoutRefused, match=r"need 7 OSTs for all components, and 6 accept new files") as refused:
        lustre.system.apply(MIXED, lustre.folder("run"))
    assert refused.value.lost == {2, 6}
    assert lustre.system.layout(lustre.folder("run")).before == ()


def test_the_release_decides_what_is_possible(lustre: Pretended) -> None:
    folder = lustre.folder("run")
    features = {}
    for version in ("2.7.0", "2.10.8", "2.17.57_62_gc881f8e_dirty", "strange"):
        lustre.change(version=version)
        features[version[:4]] = lustre.system.features(folder)
    assert [f.progressive for f in features.values()] == [False, True, True, False]
    assert [f.mdt_free for f in features.values()] == [0, 0, 1268496 * KIB, 0]
    assert features["2.7."].no_progressive == "release 2.7.0 of Lustre has no progressive layouts"
    assert features["2.10"].no_mdt == "release 2.10.8 of Lustre has no data on MDTs"
    assert features["stra"].no_progressive == "release unknown of Lustre has no progressive layouts"


def test_with_an_ost_lost_nobody_asks_for_the_room_on_mdts(lustre: Pretended) -> None:
    lustre.change_target(2, state="down")  # lfs df would hang
    features = lustre.system.features(lustre.folder("run"))
    assert (features.progressive, features.mdt_free) == (True, 0)
    assert features.no_mdt.endswith("as lfs df hangs while this client has lost an OST")
    assert lustre.calls("list") == []


def test_a_folders_pool_is_known_and_a_wrong_one_is_one_line(lustre: Pretended) -> None:
    folder = lustre.folder("run")
    lustre.change(pools={"fast": [1, 2, 3], "empty": []})
    run(("lfs", "setstripe", "-c", "2", "-p", "fast", str(folder)), timeout=60)
    assert lustre.system.features(folder).pool == "fast"
    assert lustre.system.pool_targets("fast", folder) == {1, 2, 3}
    with pytest.raises(BadInput, match=r"^--pool quick: file system scratch has no such pool; it has fast, empty$"):
        lustre.system.pool_targets("quick", folder)
    with pytest.raises(BadInput, match=r"^--pool empty: the pool has no OST; choose another one$"):
        lustre.system.pool_targets("empty", folder)


def test_files_outside_the_pool_that_was_named_are_refused(lustre: Pretended) -> None:
    folder = lustre.folder("run")
    lustre.change(pools={"fast": [1, 2, 3]})
    applied = lustre.system.apply(Layout(count=2, pool="fast"), folder)
    assert (applied.layout.pool, lustre.system.layout(folder).pool) == ("fast", "fast")
    lustre.change(ignore=["lfs setstripe"], pools={"fast": [1, 2, 3], "other": [4, 5]})
    with pytest.raises(LayoutRefused, match=r"reads back as 2 stripes of 1 MiB in pool fast, not 2 .* in pool other"):
        lustre.system.apply(Layout(count=2, pool="other"), folder)


@needs_recordings
def test_recorded_releases_and_metadata_targets_are_read() -> None:
    versions = {parse_version(row.out) for row in recordings() if row.command in ("lfs --version", "lctl version")}
    assert versions == {(2, 17, 57)}
    free = [parse_mdts(row.out) for row in recordings() if row.command == "lfs df -v /mnt/lustre" and row.code == 0]
    assert free
    assert {len(mdts) for mdts in free} <= {0, 1}
    assert any(mdts and 1 << 30 < mdts[0] < 2 << 30 for mdts in free)
