"""`lfs` as several releases of Lustre print it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.filesystem import LayoutRefused
from forebay.act.lustre import Lustre, size_text
from forebay.act.lustre_text import Component, parse_df, parse_stripe
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
        1: "takes no new objects (no-precreate)",
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


@given(cut=st.integers(0, len(DF_2_12)))
def test_a_list_cut_short_has_the_osts_up_to_there(cut: int) -> None:
    whole = [t.index for t in parse_df(DF_2_12)]
    part = [t.index for t in parse_df(DF_2_12[:cut])]
    assert part == whole[: len(part)]


PLAIN = """\
lmm_stripe_count:  8
lmm_stripe_size:   4194304
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 12

"""
IN_A_POOL = """\
lmm_stripe_count:  -1
lmm_stripe_size:   1048576
lmm_pattern:       raid0
lmm_stripe_offset: -1
lmm_pool:          flash
"""
OVERSTRIPED = PLAIN.replace("raid0", "raid0,overstriped").replace("count:  8", "count:  64")
PFL = """\
  lcm_layout_gen:    0
  lcm_mirror_count:  1
  lcm_entry_count:   3
  component0:
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 0
    lcme_extent.e_end:   65536
    sub_layout:
      lmm_stripe_count:  0
      lmm_stripe_size:   65536
      lmm_pattern:       mdt
      lmm_stripe_offset: -1

  component1:
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 65536
    lcme_extent.e_end:   1073741824
    sub_layout:
      lmm_stripe_count:  1
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_stripe_offset: -1
      lmm_pool:          flash

  component2:
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 1073741824
    lcme_extent.e_end:   EOF
    sub_layout:
      lmm_stripe_count:  4
      lmm_stripe_size:   4194304
      lmm_pattern:       raid0
      lmm_stripe_offset: 2
      lmm_pool:          disk
"""
MIRRORED = PFL.replace("lcm_mirror_count:  1", "lcm_mirror_count:  2")
SELF_EXTENDING = PFL.replace("lmm_stripe_size:   4194304", "lmm_extension_size: 67108864")
UNSET = PLAIN.replace("8", "0", 1).replace("4194304", "0").replace("12", "-1")
NO_PATTERN = UNSET.replace("raid0", "0")


@pytest.mark.parametrize(
    "text, options",
    [
        (PLAIN, "-c 8 -S 4194304 -i 12"),
        (IN_A_POOL, "-c -1 -S 1048576 -i -1 -p flash"),
        (OVERSTRIPED, "-C 64 -S 4194304 -i 12"),
        (
            PFL,
            "-E 65536 -L mdt -E 1073741824 -c 1 -S 1048576 -i -1 -p flash -E eof -c 4 -S 4194304 -i 2 -p disk",
        ),
        (UNSET, "-d"),
        (NO_PATTERN, "-d"),
        (f"/scratch/run\n{PLAIN}", "-c 8 -S 4194304 -i 12"),
    ],
    ids=["plain", "pool", "overstriped", "PFL", "unset", "no pattern", "name above"],
)
def test_options_that_make_a_layout_again(text: str, options: str) -> None:
    assert " ".join(parse_stripe(text, "getstripe").options()) == options


@pytest.mark.parametrize(
    "text, what",
    [
        (MIRRORED, "a mirrored layout"),
        (SELF_EXTENDING, "a self-extending layout"),
        (PLAIN.replace("raid0", "released"), "a layout of pattern released"),
        (PLAIN.replace("raid0", "80000001"), "a layout of pattern 80000001"),
    ],
)
def test_a_layout_that_could_not_be_put_back_is_refused_beforehand(text: str, what: str) -> None:
    with pytest.raises(BadInput, match=f"{what} could not be put back; the folder is not touched"):
        parse_stripe(text, "getstripe").options()


def test_the_last_component_is_what_most_of_a_large_file_gets() -> None:
    assert parse_stripe(PFL, "x").last == Component(count=4, size=4 * MIB, start=2, pool="disk", end="eof")


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "says nothing of a layout"),
        ("/scratch/run\n", "says nothing of a layout"),
        ("lmm_stripe_count: 8\n", "has no lmm_stripe_size"),
        (PLAIN.replace("8", "eight", 1), "lmm_stripe_count must be a whole number, not 'eight'"),
        (PLAIN.replace("8", "true", 1), "lmm_stripe_count must be a whole number, not True"),
        (IN_A_POOL.replace("flash", "007"), "the pool name 7 can't be read"),
        ("component0: 3\n", "says nothing of a layout"),
        ("component0:\n  sub_layout: []\n", "says nothing of a layout"),
        ("a: [", "is not YAML"),
        ("[" * 1000, "is nested too deeply"),
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
    assert [size_text(n) for n in (GRAIN, MIB, 1536 * KIB, 4 * MIB, GIB, 1500)] == [
        "64K", "1M", "1536K", "4M", "1G", "1500"
    ]  # fmt: skip


@pytest.fixture
def lustre(pretend: Pretend) -> Pretended:
    return pretend("lustre")


def test_the_first_ost_is_set_and_reads_back(lustre: Pretended) -> None:
    layout = Layout(count=2, size=MIB, start=6)
    assert lustre.system.apply(layout, lustre.folder("run")).layout == layout


@pytest.mark.parametrize("flag, because", [("D", "degraded"), ("R", "read-only"), ("N", "takes no new objects")])
def test_a_first_ost_that_is_flagged_is_refused(lustre: Pretended, flag: str, because: str) -> None:
    lustre.change_target(3, flags=flag)
    with pytest.raises(BadInput, match=f"first target 3: {because}"):
        lustre.system.apply(Layout(count=1, start=3), lustre.folder("run"))
    assert lustre.calls("set") == []


def test_a_first_ost_that_does_not_exist_is_refused(lustre: Pretended) -> None:
    with pytest.raises(BadInput, match="first target 8: there is no such target"):
        lustre.system.apply(Layout(count=1, start=8), lustre.folder("run"))


def test_an_ost_that_does_not_answer_leaves_the_others(lustre: Pretended) -> None:
    lustre.change_target(2, state="Resource temporarily unavailable")
    assert [t.index for t in lustre.system.targets() if t.usable] == [0, 1, 3, 4, 5, 6, 7]


def test_all_osts_are_as_many_as_are_usable(lustre: Pretended) -> None:
    lustre.lose(0)
    folder = lustre.folder("run")
    lustre.change(layouts={str(folder.resolve()): {"count": -1, "size": MIB, "start": -1}})
    assert lustre.system.layout(folder) == Layout(count=7, size=MIB)


COMPOSITE = {
    "components": [
        {"end": 65536, "count": 0, "size": 0, "start": -1, "pattern": "mdt"},
        {"end": 1 << 30, "count": 1, "size": MIB, "start": -1, "pool": "flash"},
        {"end": "eof", "count": 4, "size": 4 * MIB, "start": -1},
    ]
}


@pytest.mark.parametrize(
    "earlier",
    [
        COMPOSITE,
        {"count": 3, "size": 0, "start": -1, "pool": "flash"},
        {"count": 16, "size": MIB, "start": 2, "pattern": "raid0,overstriped"},
        {"count": -1, "size": 2 * MIB, "start": -1},
    ],
    ids=["PFL", "pool", "overstriped", "all"],
)
def test_every_kind_of_earlier_layout_is_put_back(lustre: Pretended, earlier: dict[str, object]) -> None:
    folder = lustre.folder("run")
    layouts = {str(folder.resolve()): earlier}
    lustre.change(layouts=layouts, pools={"flash": [0, 1, 2]}, alter={"lfs setstripe": {"count": 7}}, once=True)
    with pytest.raises(LayoutRefused, match=r"the earlier layout is back in place$"):
        lustre.system.apply(Layout(count=2), folder)
    assert lustre.state()["layouts"] == layouts


def test_lfs_refuses_in_its_own_words(lustre: Pretended) -> None:
    """What the checks beforehand can't know: the folder's pool has no such OST, the quota is used up."""
    lustre.refuse("set", "error on ioctl 0x4008669a for '/scratch/run' (3): Disk quota exceeded", code=122)
    with pytest.raises(UserError, match=r"Disk quota exceeded \(exit 122\); the layout is as it was"):
        lustre.system.apply(Layout(count=1), lustre.folder("run"))
