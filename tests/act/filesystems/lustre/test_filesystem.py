"""`lfs` as several releases of Lustre print it."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.command import CommandHangs, Completed, run, run_unchecked
from forebay.act.filesystems.filesystem import LayoutRefused
from forebay.act.filesystems.lustre.filesystem import Lustre, format_size_option
from forebay.act.filesystems.lustre.layouts import Component, parse_stripe
from forebay.act.filesystems.lustre.targets import parse_check, parse_df, parse_osts, parse_pool, parse_states
from forebay.act.filesystems.settings import open_filesystem
from forebay.model.errors import BadInput, UserError
from forebay.model.layout import ANY, GRAIN, Layout
from support.filesystems import Pretend, Pretended

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

DF_2_12 = """\
UUID                   1K-blocks        Used   Available Use% Mounted on
scratch-MDT0000_UUID    29212164      152040    26424216   1% /scratch[MDT:0]
scratch-OST0000_UUID  3865470566  3113851290   614149324  84% /scratch[OST:0]
scratch-OST0001_UUID  3865470566  3328599654   495452160  87% /scratch[OST:1] D
scratch-OST0002_UUID  3865470566  3221225472   598001254  84% /scratch[OST:2] DR
OST0003             : inactive device
OST0004             : Resource temporarily unavailable
scratch-OST000a_UUID  5798205849  5261334937   438094233  92% /scratch[OST:10]

filesystem_summary:  17394617547 14925011353  2145696971  88% /scratch

"""
DF_2_15 = """\
UUID                   1K-blocks        Used   Available Use% Mounted on
flash-MDT0000_UUID      29212164      152040    26424216   1% /mnt/my flash[MDT:0] f
flash-OST0000_UUID    3865470566  3113851290   614149324  84% /mnt/my flash[OST:0] f
flash-OST0001_UUID    3865470566  3328599654   495452160  87% /mnt/my flash[OST:1] Nf
flash-OST0002_UUID    3865470566  3328599654           0 100% /mnt/my flash[OST:2] S
flash-OST0003_UUID    3865470566  3328599654   495452160  87% /mnt/my flash[OST:3] I
flash-OST0004_UUID    3865470566  3328599654   495452160  87% /mnt/my flash[OST:4] X
MDT0001             : inactive device

filesystem_summary:  19327352830 16428249906  2100505804  87% /mnt/my flash
"""


def test_df_gives_index_and_free_bytes() -> None:
    assert {t.index: t.free_bytes for t in parse_df(DF_2_12) if t.free_bytes} == {
        0: 614149324 * KIB,
        1: 495452160 * KIB,
        2: 598001254 * KIB,
        10: 438094233 * KIB,
    }


def test_a_flagged_or_inactive_ost_is_not_usable_and_says_why_in_words() -> None:
    assert {t.index: t.because for t in parse_df(DF_2_12) if not t.usable} == {
        1: "degraded",
        2: "degraded, read-only",
        3: "inactive device",
        4: "resource temporarily unavailable",
    }
    assert {t.index: t.because for t in parse_df(DF_2_15) if not t.usable} == {
        1: "accepts no new objects (no-precreate)",
        2: "out of space",
        3: "out of inodes",
        4: "flagged X",
    }


def test_flash_is_no_issue() -> None:
    assert parse_df(DF_2_15)[0].usable


def test_the_name_tells_the_index_where_the_brackets_count_lines() -> None:
    line = "testfs-OST0006_UUID   5798205849  5261334937   438094233  92% /testfs[OST:3]"
    assert [t.index for t in parse_df(line)] == [6]


def test_an_ost_with_a_name_of_its_own_has_the_index_in_brackets() -> None:
    assert [t.index for t in parse_df("ost7-uuid 10 5 5 50% /x[OST:7]")] == [7]


@pytest.mark.parametrize("text", ["", "\n", "UUID 1K-blocks Used\n", "df: /x is not a Lustre filesystem"])
def test_text_without_osts_has_none(text: str) -> None:
    assert parse_df(text) == ()


@given(st.text())
def test_any_text_can_be_taken_for_df(text: str) -> None:
    assert all(t.index >= 0 for t in parse_df(text))


@given(st.text())
def test_any_text_can_be_taken_for_the_state_of_osts(text: str) -> None:
    noisy = (
        f"osc.scratch-OST0002-osc-ff30.import=\n{text}\nosp.{text}-OST0001-osc-MDT0000.active=0\n1: {text}-OST0001_UUID"
    )
    assert all(because for issues in parse_states(noisy) for because in issues.values())
    assert all(ost.index >= 0 for ost in parse_osts(noisy))
    assert parse_check(noisy) == {}
    assert parse_pool(noisy) <= {1}


@given(cut=st.integers(0, len(DF_2_12)))
def test_a_list_cut_short_has_the_osts_up_to_there(cut: int) -> None:
    whole = [t.index for t in parse_df(DF_2_12)]
    part = [t.index for t in parse_df(DF_2_12[:cut])]
    assert part == whole[: len(part)]


PLAIN = """\
stripe_count:  8
stripe_size:   4194304
pattern:       raid0
stripe_offset: 12
"""
OLDER = "\n".join(f"lmm_{line}" for line in PLAIN.splitlines()) + "\n\n"
IN_A_POOL = """\
stripe_count:  -1
stripe_size:   1048576
pattern:       raid0
stripe_offset: -1
pool:          flash
"""
OVERSTRIPED = PLAIN.replace("raid0", "raid0,overstriped").replace("count:  8", "count:  64")
LISTED = """\
stripe_count:  2
stripe_size:   0
pattern:       raid0
stripe_offset: 1
lmm_objects:
      - l_ost_idx: 1
        l_fid:     0x100010000:0x0:0x0
      - l_ost_idx: 4
        l_fid:     0x100040000:0x0:0x0
"""
UNSET = """\
stripe_count:  0
stripe_size:   0
pattern:
stripe_offset: -1
"""
PFL = """\
lcm_layout_gen:    0
lcm_mirror_count:  1
lcm_entry_count:   3
components:
  - lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 0
    lcme_extent.e_end:   65536
    sub_layout:
      stripe_count:  0
      stripe_size:   65536
      pattern:       mdt
      mdt_index:     -1
  - lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 65536
    lcme_extent.e_end:   1073741824
    sub_layout:
      stripe_count:  1
      stripe_size:   0
      pattern:       raid0
      stripe_offset: 2
      pool:          flash
  - lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 1073741824
    lcme_extent.e_end:   EOF
    sub_layout:
      stripe_count:  4
      stripe_size:   4194304
      pattern:       raid0
      stripe_offset: -1
      pool:          disk
"""


def as_before_2_16(text: str) -> str:
    """Components are numbered, everything is indented, and a DoM component has a stripe_offset."""
    parts = text.replace("mdt_index:     -1", "stripe_offset: -1").split("  - lcme_id: ")
    head = parts[0].replace("components:\n", "").replace("lcm_", "  lcm_")
    numbered = [f"  component{at}:\n    lcme_id: {part}\n" for at, part in enumerate(parts[1:])]
    return head + "".join(numbered).replace("      stripe", "      lmm_stripe").replace("  p", "  lmm_p")


MIRRORED = PFL.replace("lcm_mirror_count:  1", "lcm_mirror_count:  2")
SELF_EXTENDING = PFL.replace("stripe_size:   4194304", "extension_size: 67108864").replace(
    "lcme_flags:          0", "lcme_flags:          extension"
)
# As lfs shows `-E 64K -L mdt -E 1G -o 2,5 ...` too.
PERHAPS_LISTED = PFL.replace("stripe_count:  1", "stripe_count:  2")


@pytest.mark.parametrize(
    "text, options",
    [
        (PLAIN, "-c 8 -S 4194304 -i 12"),
        (OLDER, "-c 8 -S 4194304 -i 12"),
        (IN_A_POOL, "-c -1 -S 1048576 -p flash"),
        (IN_A_POOL.replace("-1", "0", 1).replace("1048576", "0").replace("flash", "007"), "-p 007"),
        (OVERSTRIPED, "-C 64 -S 4194304 -i 12"),
        (LISTED, "-o 1,4"),
        (
            PFL,
            "-E 65536 -L mdt -E 1073741824 -c 1 -i 2 -p flash -E -1 -c 4 -S 4194304 -i -1 -p disk",
        ),
        (
            as_before_2_16(PFL),
            "-E 65536 -L mdt -E 1073741824 -c 1 -i 2 -p flash -E -1 -c 4 -S 4194304 -i -1 -p disk",
        ),
        (f"/scratch/run\n{PLAIN}", "-c 8 -S 4194304 -i 12"),
        (f"(Default) {PLAIN}", "-c 8 -S 4194304 -i 12"),
    ],
    ids=["plain", "older", "pool", "pool alone", "overstriped", "list", "PFL", "older PFL", "name above", "default"],
)
def test_options_that_make_a_layout_again(text: str, options: str) -> None:
    striped = parse_stripe(text, "getstripe")
    assert " ".join(striped.options()) == options
    assert not striped.is_unset


@pytest.mark.parametrize(
    "text",
    [
        UNSET,
        UNSET.replace("pattern:       ", "pattern:       0"),
        UNSET.replace("pattern:       ", "pattern:       raid0"),
    ],
)
def test_a_folder_without_a_layout_of_its_own_is_known(text: str) -> None:
    assert parse_stripe(text, "getstripe").is_unset


@pytest.mark.parametrize(
    "text, what",
    [
        (MIRRORED, "a mirrored layout"),
        (SELF_EXTENDING, "a self-extending layout"),
        (PLAIN.replace("raid0", "raid0,released"), "a layout of pattern raid0,released"),
        (PLAIN.replace("raid0", "unknown_c0"), "a layout of pattern unknown_c0"),
        (PFL.replace("flags:          0", "flags:          prefer"), "a layout with components flagged prefer"),
        (PERHAPS_LISTED, "a progressive layout that may name its OSTs"),
        (PFL.replace("      pool:          disk\n", ""), "a progressive layout with a default after a value"),
        (PFL.replace("count:  4", "count:  0"), "a progressive layout with a default after a value"),
    ],
)
def test_a_layout_that_could_not_be_put_back_is_refused_beforehand(text: str, what: str) -> None:
    with pytest.raises(BadInput, match=f"{what}, which Forebay cannot restore; the folder is unchanged"):
        parse_stripe(text, "getstripe").options()


def test_the_last_component_is_what_most_of_a_large_file_gets() -> None:
    last = Component(count=4, size=4 * MIB, start=ANY, pool="disk", end="-1", flags="0")
    assert parse_stripe(PFL, "x").last == last
    assert parse_stripe(as_before_2_16(PFL), "x").last == last


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "printed no layout"),
        ("/scratch/run\n", "printed no layout"),
        ("/scratch/run has no stripe info\n", "has no stripe info"),
        ("stripe_count: 8\n", "printed no stripe_size"),
        (PLAIN.replace("8", "eight", 1), "stripe_count must be an integer, not 'eight'"),
        (PLAIN + PLAIN, "printed several values for stripe_count"),
        (PFL[: PFL.rindex("  - lcme_id")], "printed 2 of 3 components"),
        ("component0: 3\n", "printed no layout"),
        ("a: [", "printed no layout"),
    ],
)
def test_text_that_is_no_layout_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason) as wrong:
        parse_stripe(text, "lfs getstripe -d -y /scratch/run")
    assert "\n" not in str(wrong.value)
    assert str(wrong.value).startswith("lfs getstripe -d -y /scratch/run")


def scribbled(text: str) -> st.SearchStrategy[str]:
    def put(at: int, cut: int, what: str) -> str:
        return text[:at] + what + text[at + cut :]

    return st.builds(put, st.integers(0, len(text)), st.integers(0, 20), st.text(max_size=5))


@given(st.one_of(st.text(), scribbled(PLAIN), scribbled(PFL)))
def test_corrupt_text_is_a_layout_or_one_line(text: str) -> None:
    try:
        parse_stripe(text, "getstripe").options()
    except BadInput as wrong:
        assert "\n" not in str(wrong)


@given(count=st.integers(1, 2000), grains=st.integers(1, 65535), start=st.integers(ANY, 300))
def test_set_command_says_the_whole_layout(count: int, grains: int, start: int) -> None:
    layout = Layout(count=count, size=grains * GRAIN, start=start)
    *options, folder = Lustre().set_command(layout, Path("/scratch/run"))[2:]
    said = dict(zip(options[::2], options[1::2], strict=True))
    number, unit = said["-S"].rstrip("KMG"), said["-S"].lstrip("0123456789")
    assert folder == "/scratch/run"
    assert int(said["-c"]) == count
    assert int(number) * {"": 1, "K": KIB, "M": MIB, "G": GIB}[unit] == layout.size
    assert said.get("-i", str(ANY)) == str(start)


def test_sizes_have_the_largest_unit_that_divides_them() -> None:
    assert [format_size_option(n) for n in (GRAIN, MIB, 1536 * KIB, 4 * MIB, GIB, 1500)] == [
        "64K", "1M", "1536K", "4M", "1G", "1500"
    ]  # fmt: skip


@pytest.fixture
def lustre(pretend: Pretend) -> Pretended:
    return pretend("lustre")


def test_the_first_ost_is_set_and_reads_back(lustre: Pretended) -> None:
    layout = Layout(count=2, size=MIB, start=6)
    assert lustre.system.apply(layout, lustre.folder("run")).layout == layout


@pytest.mark.parametrize("flag, because", [("D", "degraded"), ("R", "read-only"), ("N", "accepts no new objects")])
def test_a_first_ost_that_is_flagged_is_refused(lustre: Pretended, flag: str, because: str) -> None:
    lustre.change_target(3, flags=flag)
    with pytest.raises(BadInput, match=f"first target 3: {because}"):
        lustre.system.apply(Layout(count=1, start=3), lustre.folder("run"))
    assert lustre.calls("set") == []


def test_a_first_ost_that_does_not_exist_is_refused(lustre: Pretended) -> None:
    with pytest.raises(BadInput, match="first target 8: no such target"):
        lustre.system.apply(Layout(count=1, start=8), lustre.folder("run"))


def test_all_osts_are_as_many_as_are_active(lustre: Pretended) -> None:
    lustre.lose(0)
    folder = lustre.folder("run")
    lustre.change(layouts={str(folder.resolve()): {"count": -1, "size": MIB, "start": -1}})
    assert lustre.system.layout(folder) == Layout(count=7, size=MIB)


def test_a_full_ost_is_not_chosen(lustre: Pretended) -> None:
    lustre.change_target(3, free=0)
    with pytest.raises(BadInput, match="first target 3: out of space"):
        lustre.system.apply(Layout(count=1, start=3), lustre.folder("run"))
    with pytest.raises(BadInput, match="stripe count 8: only 7 of 8 targets are usable"):
        lustre.system.apply(Layout(count=8), lustre.folder("run"))


@pytest.mark.parametrize(
    "drained, because",
    [({"max_create_count": 0}, "drained (max_create_count=0 on the MDS)"), ({"osp_active": 0}, "inactive on the MDS")],
)
def test_an_ost_that_is_drained_on_the_mds_is_not_chosen_where_that_can_be_read(
    lustre: Pretended, drained: dict[str, int], because: str
) -> None:
    lustre.change_target(3, **drained)
    assert all(t.usable for t in lustre.system.targets())
    lustre.change(server=True)
    assert {t.index: t.because for t in lustre.system.targets() if not t.usable} == {3: because}


@pytest.mark.parametrize("wanted", [Layout(count=8), Layout(count=1, start=3), Layout(count=4, start=1)])
def test_elsewhere_a_new_file_shows_it_and_the_earlier_layout_is_put_back(lustre: Pretended, wanted: Layout) -> None:
    folder = lustre.folder("run")
    for index in (3, 5):
        lustre.change_target(index, max_create_count=0)
    with pytest.raises(LayoutRefused, match=r"new file in .*/run gets .*; the earlier layout is restored$") as no:
        lustre.system.apply(wanted, folder)
    assert no.value.lost == {3, 5}
    assert list(folder.iterdir()) == []
    assert lustre.system.undo_commands(folder) == (("lfs", "setstripe", "-d", str(folder)),)


def test_a_degraded_ost_among_those_of_a_file_is_no_reason_to_refuse(lustre: Pretended) -> None:
    lustre.change_target(2, flags="D")  # files get it nevertheless
    layout = Layout(count=3, start=1)
    assert lustre.system.apply(layout, lustre.folder("run")).layout == layout


def test_where_no_file_can_be_made_the_earlier_layout_is_put_back(lustre: Pretended) -> None:
    for index in range(8):
        lustre.change_target(index, max_create_count=0)
    with pytest.raises(LayoutRefused, match="has no stripe info; the earlier layout is restored"):
        lustre.system.apply(Layout(count=1), lustre.folder("run"))


def test_a_folder_in_which_no_file_can_be_made_is_left_as_it_was(
    lustre: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_path = "forebay.act.filesystems.lustre.filesystem._new_path"
    monkeypatch.setattr(new_path, lambda folder: nullcontext(folder / "nowhere" / "file"))
    with pytest.raises(
        LayoutRefused, match=r"cannot create a file to .* no such file or directory; the earlier layout is"
    ):
        lustre.system.apply(Layout(count=1), lustre.folder("run"))


def give(folder: Path, options: str) -> None:
    """As somebody else would set it."""
    run(("lfs", "setstripe", *options.split(), str(folder)), timeout=60.0)


def test_the_osts_outside_the_pool_of_a_folder_are_not_chosen(lustre: Pretended) -> None:
    folder = lustre.folder("run")
    lustre.change(pools={"fast": [1, 2, 3]})
    give(folder, "-c 2 -p fast")
    assert [t.index for t in lustre.system.restrict(lustre.system.targets(), folder) if t.usable] == [1, 2, 3]
    with pytest.raises(BadInput, match="stripe count 6: only 3 of 8 targets are usable"):
        lustre.system.apply(Layout(count=6), folder)
    with pytest.raises(BadInput, match="first target 5: not in pool fast"):
        lustre.system.apply(Layout(count=1, start=5), folder)
    assert lustre.system.apply(Layout(count=3, start=2), folder).layout == Layout(count=3, start=2)


def test_a_pool_without_osts_leaves_none_out(lustre: Pretended) -> None:
    folder = lustre.folder("run")
    lustre.change(pools={"empty": []})
    give(folder, "-p empty")
    assert lustre.system.apply(Layout(count=6), folder).layout.count == 6


def test_a_configured_number_of_osts_gives_no_ost_to_begin_with(lustre: Pretended) -> None:
    claims = open_filesystem(lustre.settings.model_copy(update={"targets": 64}))
    with pytest.raises(BadInput, match="first target 8: no such OST"):
        claims.apply(Layout(count=1, start=8), lustre.folder("run"))


def test_with_an_ost_down_nothing_hangs(lustre: Pretended) -> None:
    """`lfs df` would, so it is not even tried where the client says that it has lost one."""
    lustre.change_target(2, state="down")
    targets = lustre.system.targets()
    assert {t.index: t.because for t in targets if not t.usable} == {2: "not connected (DISCONN)"}
    assert lustre.calls("list") == []
    assert lustre.system.apply(Layout(count=7), lustre.folder("run")).layout.count == 7


def test_whoever_may_not_read_that_gives_df_up(lustre: Pretended) -> None:
    lustre.change_target(2, state="down")
    lustre.change(user=True)
    hasty = replace(lustre.system, timeout=2.0)
    assert {t.index: t.because for t in hasty.targets() if not t.usable} == {2: "resource temporarily unavailable"}


def test_what_df_printed_before_it_hung_tells_which_ost_it_waits_for(
    lustre: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    lustre.change(user=True)
    half = run(("lfs", "df", "-v"), timeout=60.0).split("scratch-OST0002")[0]

    def hangs(argv: tuple[str, ...], *, timeout: float) -> Completed:
        if argv[:2] == ("lfs", "df"):
            raise CommandHangs(("lfs", "df"), "no answer", half)
        return run_unchecked(argv, timeout=timeout)

    monkeypatch.setattr("forebay.act.filesystems.lustre.filesystem.run_unchecked", hangs)
    targets = lustre.system.targets()
    assert {t.index: t.because for t in targets if not t.usable} == {2: "does not answer"}
    assert [t.index for t in targets if t.free_bytes] == [0, 1]


EARLIER = [
    "-c 3 -p flash",
    "-p flash",
    "-S 8M",
    "-i 4",
    "-C 16 -S 1M -i 2",
    "-c -1 -S 2M",
    "-o 1,4",
    "-o 1,1 -S 2M",
    "-E 1M -c 1 -E -1 -c 2",
    "-E 4M -c 1 -S 1M -E -1 -c -1 -S 4M",
    "-E 64K -L mdt -E 1G -c 1 -p flash -E -1 -c 4 -S 4M",
    "-E 1M -c 1",
    "-E -1 -c 7",
]


BOTH = [("2.17", earlier) for earlier in EARLIER] + [("2.15", earlier) for earlier in EARLIER if "-E" in earlier]


@pytest.mark.parametrize("release, earlier", BOTH)
def test_every_kind_of_earlier_layout_is_put_back(lustre: Pretended, earlier: str, release: str) -> None:
    folder = lustre.folder("run")
    lustre.change(pools={"flash": [0, 1, 2]}, release=release)
    give(folder, earlier)
    layouts = lustre.state()["layouts"]
    lustre.change(alter={"lfs setstripe": {"count": 3}}, once=True)
    with pytest.raises(LayoutRefused, match=r"the earlier layout is restored$"):
        lustre.system.apply(Layout(count=2), folder)
    assert lustre.state()["layouts"] == layouts


def test_a_layout_that_may_name_its_osts_is_not_touched(lustre: Pretended) -> None:
    folder = lustre.folder("run")
    give(folder, "-E 4M -o 1,4 -E -1 -c 3")
    before = lustre.state()["layouts"]
    with pytest.raises(BadInput, match="a progressive layout that may name its OSTs, which Forebay cannot restore"):
        lustre.system.apply(Layout(count=2), folder)
    assert lustre.state()["layouts"] == before


def test_a_folder_that_shows_the_layout_of_the_root_has_none_of_its_own_again(lustre: Pretended) -> None:
    give(lustre.mount, "-E 1M -o 1,4 -E -1 -c 2")  # which could not be put back itself
    folder = lustre.folder("run")
    shown = run(("lfs", "getstripe", "-d", "--raw", "-y", str(folder)), timeout=60.0)
    lustre.change(alter={"lfs setstripe": {"count": 3}}, once=True)
    with pytest.raises(LayoutRefused, match=r"the earlier layout is restored$"):
        lustre.system.apply(Layout(count=2), folder)
    assert run(("lfs", "getstripe", "-d", "--raw", "-y", str(folder)), timeout=60.0) == shown
    assert lustre.state()["layouts"][str(folder.resolve())] == {}


def test_lfs_refuses_in_its_own_words(lustre: Pretended) -> None:
    """What the checks beforehand can't know: the folder's pool has no such OST, the quota is used up."""
    lustre.refuse("set", "error on ioctl 0x4008669a for '/scratch/run' (3): Disk quota exceeded", code=122)
    with pytest.raises(UserError, match=r"Disk quota exceeded \(exit 122\); the layout is unchanged"):
        lustre.system.apply(Layout(count=1), lustre.folder("run"))
