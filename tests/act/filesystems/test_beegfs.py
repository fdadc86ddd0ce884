"""BeeGFS as versions 7 and 8 print it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.act.filesystems.beegfs import BeeGFS7, BeeGFS8, power_of_two
from forebay.model.errors import BadInput
from forebay.model.layout import ANY, GRAIN, MOST_SIZE, Layout
from support.filesystems import Pretend

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

LIST_7 = """\
TargetID     Reachability  Consistency   Cap. Pool        Total         Free    %      ITotal       IFree    %   NodeID
========     ============  ===========   =========        =====         ====    =      ======       =====    =   ======
       1           Online         Good      normal    2048.0GiB    1024.5GiB  50%     200.0M     150.0M  75%        1
       2           Online         Good         low    2048.0GiB     100.0GiB   5%     200.0M     150.0M  75%        1
       3           Online         Good   emergency    2048.0GiB       1.0GiB   0%     200.0M     150.0M  75%        1
     101 Probably-offline         Good      normal    2048.0GiB    1024.0GiB  50%     200.0M     150.0M  75%        2
     102          Offline Needs-resync      normal       0.0GiB       0.0GiB   0%       0.0M       0.0M   0%        2
     103           Online    resyncing      normal    2048.0GiB    1024.0GiB  50%     200.0M     150.0M  75%        2
     104               <invalid_value>      normal    2048.0GiB    1024.0GiB  50%     200.0M     150.0M  75%        2
"""
WHY_7 = {
    3: "almost full (capacity pool emergency)",
    101: "probably offline",
    102: "offline, needs a resync",
    103: "resyncing",
    104: "state <invalid_value>",
}


def row(index: object, **more: str) -> dict[str, object]:
    fine = {"reachability": "Online", "consistency": "Good", "cap_pool": "Normal", "space_free": str(TIB)}
    return {"id": index, "alias": "t", "node": "s:1", "storage_pool": "s:1"} | fine | more


def test_targets_of_version_7() -> None:
    targets = BeeGFS7.parse_targets(LIST_7, "list")
    assert [t.index for t in targets] == [1, 2, 3, 101, 102, 103, 104]
    assert [t.free_bytes for t in targets][:3] == [int(1024.5 * GIB), 100 * GIB, GIB]
    assert {t.index: t.because for t in targets if not t.usable} == WHY_7


@pytest.mark.parametrize(
    "text", ["", "TargetID   NodeID\n", "[ERROR: something]\n", "1 Online Good 1.2GiB 1.2.3GiB 5%\n"]
)
def test_text_without_targets_has_none(text: str) -> None:
    assert BeeGFS7.parse_targets(text, "list") == ()


@pytest.mark.parametrize("index", [101, "101", "s:101", "storage:101", {"num_id": 101, "node_type": "storage"}])
def test_a_target_number_of_version_8_in_any_of_its_forms(index: object) -> None:
    assert [t.index for t in BeeGFS8.parse_targets(json.dumps([row(index)]), "list")] == [101]


def test_pages_of_version_8_are_read_one_after_the_other() -> None:
    text = f"{json.dumps([row(1), row(2)])}\n\n{json.dumps([row(3)])}\n\n"
    assert [t.index for t in BeeGFS8.parse_targets(text, "list")] == [1, 2, 3]


def test_lines_of_version_8_are_read_as_well() -> None:
    assert [t.index for t in BeeGFS8.parse_targets(f"{json.dumps(row(2))}\n{json.dumps(row(1))}\n", "list")] == [1, 2]


def test_states_of_version_8_are_known_in_any_case() -> None:
    rows = [
        row(1),
        row(2, reachability="Probably-offline"),
        row(3, consistency="needs-resync"),
        row(4, cap_pool="Emergency"),
        row(5, reachability="Offline", consistency="Bad", space_free="-"),
        {"id": 6},
    ]
    targets = BeeGFS8.parse_targets(json.dumps(rows), "list")
    assert [t.because for t in targets] == [
        "",
        "probably offline",
        "needs a resync",
        "almost full (capacity pool emergency)",
        "offline, its data is bad",
        "state unknown, state unknown",
    ]
    assert [t.usable for t in targets] == [True, False, False, False, False, False]


def test_free_space_of_version_8_is_bytes_or_has_a_unit() -> None:
    older = {k: v for k, v in row(3).items() if k != "space_free"} | {"sfree": "1.5TiB"}
    targets = BeeGFS8.parse_targets(json.dumps([row(1), row(2, space_free="-"), older]), "list")
    assert [t.free_bytes for t in targets] == [TIB, 0, int(1.5 * TIB)]


@pytest.mark.parametrize(
    "text, reason",
    [
        ("Error", "printed invalid JSON"),
        ("[1]", "rows that are not JSON objects"),
        (json.dumps([row(None)]), "invalid target number None"),
        (json.dumps([row("s:x")]), "invalid target number 's:x'"),
        (json.dumps([row(1, space_free="much")]), "much"),
        (json.dumps([row(1, space_free="-3")]), "invalid free space '-3'"),
        ("[" * 100_000, "printed invalid JSON"),
    ],
)
def test_targets_of_version_8_that_make_no_sense_are_one_line(text: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason) as wrong:
        BeeGFS8.parse_targets(text, "beegfs target list")
    assert "\n" not in str(wrong.value)


ENTRY_7 = """\
Entry type: directory
EntryID: 0-5D285750-1
Metadata node: node1.beeg.local [ID: 1]
Stripe pattern details:
+ Type: RAID0
+ Chunksize: 512K
+ Number of storage targets: desired: 4
+ Storage Pool: 1 (Default)
"""
ENTRY_8 = json.dumps([{"path": "/", "type": "directory", "stripe_pattern": "RAID0 (4x524288)"}])


def test_the_pattern_of_a_folder() -> None:
    expected = Layout(count=4, size=512 * KIB)
    assert BeeGFS7.parse_entry(ENTRY_7, "x") == BeeGFS8.parse_entry(ENTRY_8, "x") == expected


@pytest.mark.parametrize("size, expected", [("1m", MIB), ("1M", MIB), ("64k", GRAIN), ("2g", 2 * GIB), ("1MiB", MIB)])
def test_sizes_are_binary_however_they_are_written(size: str, expected: int) -> None:
    assert BeeGFS7.parse_entry(ENTRY_7.replace("512K", size), "x").size == expected
    assert BeeGFS8.parse_entry(ENTRY_8.replace("524288", size), "x").size == expected


def test_a_mirrored_pattern_is_one_as_well() -> None:
    assert BeeGFS8.parse_entry(ENTRY_8.replace("RAID0", "Buddy Mirror"), "x").count == 4


@pytest.mark.parametrize(
    "size, reason",
    [("1x", "invalid chunk size '1x'"), ("1000", "multiple of 64 KiB"), ("9" * 30, "invalid chunk size")],
)
def test_a_size_that_makes_no_sense_is_one_line(size: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        BeeGFS7.parse_entry(ENTRY_7.replace("512K", size), "beegfs-ctl --getentryinfo")


def scribbled(text: str) -> st.SearchStrategy[str]:
    def put(at: int, cut: int, what: str) -> str:
        return text[:at] + what + text[at + cut :]

    return st.builds(put, st.integers(0, len(text)), st.integers(0, 20), st.text(max_size=5))


@given(st.one_of(st.text(), scribbled(ENTRY_7), scribbled(ENTRY_8), scribbled(LIST_7), scribbled(json.dumps([row(1)]))))
def test_corrupt_text_is_read_or_one_line(text: str) -> None:
    for parse in (BeeGFS7.parse_entry, BeeGFS8.parse_entry, BeeGFS8.parse_targets, BeeGFS7.parse_targets):
        try:
            parse(text, "beegfs")
        except BadInput as wrong:
            assert "\n" not in str(wrong)


@given(st.integers(1, MOST_SIZE // GRAIN).map(lambda n: n * GRAIN))
def test_the_nearest_power_of_two_by_ratio(size: int) -> None:
    powers = [1 << p for p in range(16, 32)]
    assert power_of_two(size) == min(powers, key=lambda p: max(p / size, size / p))


def test_what_had_to_be_changed_is_said() -> None:
    fitted = BeeGFS7().fit(Layout(count=4, size=3 * MIB, start=5))
    assert fitted.layout == Layout(count=4, size=4 * MIB, start=ANY)
    assert [note.split(":")[0] for note in fitted.notes] == [
        "new files only",
        "BeeGFS chooses the targets itself",
        "the chunk size must be a power of two",
    ]


@pytest.mark.parametrize(
    "size, text7, text8", [(GRAIN, "64k", "64KiB"), (4 * MIB, "4m", "4MiB"), (GIB, "1024m", "1024MiB")]
)
def test_commands_of_both_versions(size: int, text7: str, text8: str) -> None:
    layout, folder = Layout(count=8, size=size), Path("/beegfs/run")
    seven = ("beegfs-ctl", "--setpattern", "--numtargets=8", f"--chunksize={text7}", "/beegfs/run")
    eight = ("beegfs", "entry", "set", "--num-targets", "8", "--chunk-size", text8, "/beegfs/run")
    assert BeeGFS7().set_command(layout, folder) == seven
    assert BeeGFS8().set_command(layout, folder) == eight


@pytest.mark.parametrize("kind", ["beegfs7", "beegfs8"])
def test_a_target_that_does_not_answer_leaves_the_others(pretend: Pretend, kind: str) -> None:
    made = pretend(kind)
    made.lose(2)  # version 7 then ends with 1, and prints what it has
    assert [t.index for t in made.system.targets() if t.usable] == [1, 3, 4, 5, 6, 7, 8]


def test_pages_are_asked_for_as_the_command_gives_them(pretend: Pretend) -> None:
    made = pretend("beegfs8", targets=7)
    made.change(page=3)
    assert len(made.system.targets()) == 7
