"""The parsers and the fake against what a real Lustre answered."""

import fnmatch
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.act.filesystems.load import parse_job_stats
from forebay.act.filesystems.lustre.layouts import parse_stripe
from forebay.act.filesystems.lustre.targets import (
    STATE_PARAMETERS,
    parse_check,
    parse_df,
    parse_osts,
    parse_pool,
    parse_states,
)
from forebay.act.forward.node.file_places import lustre_places
from forebay.model.errors import BadInput
from support.filesystems import _lustre
from support.lustre_recordings import Recorded, needs_recordings, recorded, recordings

pytestmark = needs_recordings
MOUNT, ELSEWHERE = "/mnt/lustre", "/tmp"
AFTER = re.compile(r"^folder after lfs setstripe (?P<options>[^;(]*?)(?: \(rc 0\))?$")


def getstripes(*options: str) -> Iterator[Recorded]:
    """Of one path each, in YAML."""
    for row in recorded("lfs", "getstripe"):
        given = [word for word in row.words[2:] if word.startswith("-")]
        if given == list(options) and len(row.words) - len(given) == 3:
            yield row


def test_every_layout_of_a_folder_is_read() -> None:
    rows = [*getstripes("-d", "-y"), *getstripes("-d", "--raw", "-y")]
    assert len(rows) > 150
    for row in rows:
        if "has no stripe info" in row.out:
            with pytest.raises(BadInput, match="has no stripe info"):
                parse_stripe(row.out, row.command)
            continue
        striped = parse_stripe(row.out, row.command)
        assert len(striped.components) == max(1, row.out.count("lcme_id"))
        assert [c.pool for c in striped.components if c.pool] == re.findall(r"pool: +(\S+)", row.out)
        assert lustre_places(row.out, 6, row.command)


def test_every_layout_of_a_file_is_read_with_its_objects() -> None:
    rows = [row for row in getstripes("-y") if "lmm_stripe_count" in row.out and row.out.count("stripe_count") < 5]
    assert len(rows) > 100
    for row in rows:
        if row.out.count("\nlmm_stripe_count") > 0 or "\nstripe_count" in row.out:
            continue  # a folder's, and then those of the files in it
        striped = parse_stripe(row.out, row.command)
        assert sum(len(c.osts) for c in striped.components) == row.out.count("l_ost_idx")
        for component in striped.components:
            assert not component.osts or (component.count, component.start) == (len(component.osts), component.osts[0])


def in_bytes(size: str) -> int:
    units = {"K": 10, "M": 20, "G": 30}
    return int(float(size.rstrip("KMG")) * (1 << units.get(size[-1], 0)))


def as_read(options: str) -> str:
    """The options as Forebay says them: sizes in bytes, in its order, without what is the default."""
    words = shlex.split(options.replace("-c2 -S1M", "-c 2 -S 1M").replace("-c 2 -c 3", "-c 3"))
    pairs = [word.replace("--stripe-count=", "-c ").replace("--stripe-size=", "-S ").split(" ") for word in words]
    words = [word for pair in pairs for word in pair]
    parts: list[dict[str, str]] = [{}]
    for name, value in zip(words[::2], words[1::2], strict=True):
        if name == "-E" and "-E" in parts[-1]:
            taken_over = {"-p": parts[-1]["-p"]} if "-p" in parts[-1] else {}
            parts.append(taken_over)
        parts[-1][name] = str(in_bytes(value)) if name in "-S -E" and value != "-1" else value
    if "-o" in parts[0] and "-" in parts[0]["-o"]:
        parts[0]["-o"] = "1,2,3"
    if len(parts) == 1 and "-E" in parts[0] and "-S" in parts[0]:
        parts[0] = {"-E": parts[0]["-E"], **parts[0]}
    order = ["-E", "-L", "-c", "-C", "-S", "-i", "-o", "-p"]
    said = [f"{k} {part[k].removeprefix('scratch.')}" for part in parts for k in order if k in part]
    return " ".join(said)


def test_undo_says_what_was_said_or_refuses() -> None:
    rows = [row for row in getstripes("-d", "--raw", "-y") if AFTER.match(row.state) and ", then" not in row.state]
    assert len(rows) >= 15
    for row in rows:
        options = AFTER.match(row.state)["options"]  # type: ignore[index]
        striped = parse_stripe(row.out, row.command)
        if "-N" in options or "-z" in options or ("-E" in options and ("-o" in options or "-i" in options)):
            with pytest.raises(BadInput, match="which Forebay cannot restore"):
                striped.options()
        else:
            assert " ".join(striped.options()) == as_read(options), row.command


def test_a_folder_without_a_layout_of_its_own_is_known() -> None:
    rows = [
        row for row in getstripes("-d", "--raw", "-y") if row.state.startswith(("root folder, no", "folder without"))
    ]
    assert len(rows) == 2
    assert all(parse_stripe(row.out, row.command).is_unset for row in rows)


UNUSABLE = {
    "OST 2 degraded=1": {2},
    "OST 2 no_create=1": {2},
    "OST 2 readonly=1": {2},
    "OST 2 degraded=1 and no_create=1": {2},
    "osc active=0 for OST 2 on the client": {2},
    "OST 5 just filled by dd": {5},
    "OST 5 full": {5},
    "OST 5 filled to the last 4 KiB that a client gets (reserved_mb_low=1, reserved_mb_high=3)": {5},
    "OST 5 nearly full and below osp reserved_mb_low=50, reserved_mb_high=100 (the MDS counts it full)": {5},
    "OST 2 unmounted (down), nothing else had asked after it; client osc active=0": {2},
}


def test_every_list_of_osts_is_read() -> None:
    rows = [row for row in recordings() if row.words[:3] == ["lfs", "df", "-v"] and row.code == 0 and row.out]
    assert len(rows) > 30
    for row in rows:
        targets = parse_df(row.out)
        assert [t.index for t in targets] == list(range(6)), row
        unusable = {t.index for t in targets if not t.usable}
        if row.state.endswith("(at once)"):  # flags come some seconds late
            assert unusable <= {2}
        else:
            assert unusable == UNUSABLE.get(row.state, set()), row
    for row in recorded("lfs", "osts", MOUNT):
        assert [ost.index for ost in parse_osts(row.out)] == ([] if not row.out else list(range(6)))
        assert {ost.system for ost in parse_osts(row.out)} <= {"scratch"}


def test_an_ost_in_whose_place_df_has_an_error_is_away() -> None:
    rows = [row for row in recordings() if row.words[:4] == ["lfs", "df", "-l", "-v"] and row.code in (5, 107)]
    assert [t.because for row in rows for t in parse_df(row.out) if not t.usable] == [
        "input/output error",
        "transport endpoint is not connected",
    ]


def test_what_the_mds_and_the_client_know_of_osts_is_read() -> None:
    assert set(STATE_PARAMETERS[:3]) <= {word for row in recordings() for word in row.words}
    found = {}
    for row in recordings():
        if row.words[:3] == ["lctl", "get_param", "osp.*.max_create_count"] and row.code == 0 and len(row.words) > 3:
            found[row.state] = parse_states(row.out)[1]
    assert found["all fine, 1 MDT and 6 OSTs"] == {}
    assert found["osp max_create_count=0 for OST 2 (on the MDS)"] == {
        ("scratch", 2): "drained (max_create_count=0 on the MDS)"
    }
    assert found["osp active=0 for OST 2 (on the MDS)"] == {("scratch", 2): "inactive on the MDS"}
    assert found["OST 2 unmounted (down)"] == {("scratch", 2): "the MDS cannot create objects there (status -19)"}
    full = next(state for state in found if state.startswith("OST 5 nearly full"))
    assert found[full] == {("scratch", 5): "out of space"}


def test_an_ost_that_is_down_is_seen_in_its_import_and_by_lfs_check() -> None:
    (fine,) = (row for row in recordings() if row.command == "lctl get_param osc.*OST0002*.import")
    assert parse_states(fine.out) == ({}, {})
    assert parse_states(fine.out.replace("state: FULL", "state: DISCONN"))[0] == {
        ("scratch", 2): "not connected (DISCONN)"
    }
    checks = {row.state: parse_check(row.err) for row in recorded("lfs", "check", "osts")}
    assert checks["OST 2 unmounted (down)"] == {("scratch", 2): "resource temporarily unavailable"}
    assert checks["OST 2 degraded=1"] == {}


def test_every_pool_is_read() -> None:
    pools = {row.words[2]: parse_pool(row.out) for row in recorded("lfs", "pool_list") if "." in row.words[2]}
    assert pools == {"scratch.fast": {1, 2, 3}, "scratch.empty": frozenset()}


def test_all_job_statistics_are_read_and_their_ids_are_as_they_were_given() -> None:
    rows = [
        row for row in recordings() if row.words[:2] == ["lctl", "get_param"] and row.words[-1].endswith("job_stats")
    ]
    rows = [row for row in rows if row.words[-1].startswith("obdfilter.") and row.code == 0 and "-n" not in row.words]
    assert len(rows) > 40
    ids = {job for row in rows for jobs in parse_job_stats(row.out, "scratch").values() for job in jobs}
    assert {"dd.0", "my prog.0", 'it"s:dd:0', "café:dd:0", "café ☃:dd:0", "back\\slash:dd:0", "[l]:dd:0"} <= ids
    assert not any("\\x" in job for job in ids)
    only_touched = [
        c for row in rows for jobs in parse_job_stats(row.out).values() for j, c in jobs.items() if j == "touch.0"
    ]
    assert only_touched
    assert not any(counted.total for counted in only_touched)


# The fake


def neutral(text: str, *, places: bool) -> str:
    """Without what is by chance: object ids, and where Lustre chose them, OSTs; a usage has many words."""
    text = re.sub(r"(l_fid: +)\S+", r"\1FID", text)
    if not places:
        text = re.sub(r"(l_ost_idx: |lmm_stripe_offset: )\d+", r"\1N", text)
    text = re.sub(r"kbytesavail=\d+", "kbytesavail=N", text)
    if ".import=" in text:
        text = "".join(re.findall(r".*\.import=\nimport:\n +name: .*\n +target: .*\n +state: .*\n", text))
    if "job_stats:" in text:
        text = re.sub(r"hist: \{.*?\}", "hist", re.sub(r" +(?:\d+\.)?\d+\b", " N", text))
    return "USAGE" if re.search(r"(?i)^usage:", text, re.MULTILINE) else text


def chosen_places(row: Recorded) -> bool:
    """Whether somebody chose the OSTs of a file, and Lustre went by that."""
    said = row.state + row.command
    return bool(re.search(r"-i [0-9]|-o ", said)) and "-E" not in said and "folder with -c 2 -p fast" not in said


Answer = tuple[str, str, int | None]


class Replay:
    """The recorded commands once more, one after the other, answered by the fake."""

    def __init__(self, folder: Path) -> None:
        self.unknown = set[str]()
        self.mount, self.elsewhere = folder / "mnt", folder / "tmp"
        (self.elsewhere / "plain").mkdir(parents=True)
        (self.elsewhere / "plain" / "f").touch()
        for made in ("proj", "set", "state"):
            (self.mount / made).mkdir(parents=True)
        self.state: dict[str, Any] = {
            "name": "scratch", "mount": str(self.mount), "layouts": {}, "server": True, "pools": {"flash": [1, 2, 3]},
            "default": {"count": 1, "size": 4 << 20}, "log": [],
            "targets": [{"index": i, "total": 1390936 << 10, "free": 1 << 30} for i in range(6)],
        }  # fmt: skip

    def here(self, text: str) -> str:
        ours = {MOUNT: self.mount, ELSEWHERE: self.elsewhere}
        return re.sub(rf"^({MOUNT}|{ELSEWHERE})(?=/|$)", lambda found: str(ours[found[1]]), text)

    def there(self, text: str) -> str:
        return text.replace(str(self.mount), MOUNT).replace(str(self.elsewhere), ELSEWHERE)

    def prepare(self, row: Recorded) -> None:
        """What the recorded state says that the fake can't see."""
        if row.number == 100:
            self.state["pools"] = {"fast": [1, 2, 3], "empty": [], "flash": [1, 2, 3]}
        if row.words[:2] == ["lctl", "set_param"] and row.code == 0:
            self.set_parameters(row.words[2:])
        elif row.command in ("umount /srv/ost2", "mount -t lustre /dev/vdd /srv/ost2") and row.code == 0:
            self.change(2, state="down" if row.command.startswith("u") else "active")
        elif row.state.startswith("OST 2 mounted again"):
            self.change(2, state="active")
        for name, total, used, free in re.findall(r"-OST(000\d)_UUID +(\d+) +(\d+) +(\d+) ", row.out):
            if row.words[1:2] == ["df"] and "Inodes" not in row.out:
                numbers = {"total": int(total) << 10, "used": int(used) << 10, "free": int(free) << 10}
                self.change(int(name), **numbers)
        if row.words[:2] == ["lctl", "get_param"] and row.words[-1].endswith(".job_stats") and "job_stats" in row.out:
            self.state["job_stats"] = (
                {
                    f"scratch-OST{index:04x}": [
                        {"job": job, "latest": c.latest, "read": 0, "write": c.total} for job, c in jobs.items()
                    ]
                    for index, jobs in parse_job_stats(row.out).items()
                }
                if "obdfilter" in row.out
                else {}
            )
        if mdt := re.search(r"-MDT0000_UUID +(\d+) +(\d+) +(\d+) ", row.out):
            self.state["mdt"] = tuple(map(int, mdt.groups()))
        self.make_paths(row)

    def make_paths(self, row: Recorded) -> None:
        if (
            row.words[1:2] not in (["getstripe"], ["setstripe"])
            or "nosuch" in row.command
            or row.code not in (0, 1, 4, 13, 17, 22)
        ):
            return
        for path in (Path(self.here(word)) for word in row.words[2:] if word.startswith(MOUNT)):
            if os.path.lexists(path):
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if (
                "no such file" in row.state
                or "a file that was not there" in row.state
                or (row.words[1] == "setstripe" and "state/" in str(path))
            ):
                continue
            if "pipe" in row.state:
                os.mkfifo(path)
            elif "symbolic link to a f" in row.state:
                target = "c2/file" if "to a file" in row.state else "c2"
                path.symlink_to(self.mount / "proj" / target)
            elif row.state.startswith("file exists"):
                path.touch()
            elif row.words[1] == "setstripe" or "lmm_stripe_count" not in row.out.split("\n")[0] + row.out[-400:]:
                path.mkdir()
                if given := re.match(
                    r"folder (?:first given|with|after lfs setstripe) (-.*?)(?: \(|, then|;|$)", row.state
                ):
                    self.ask(["lfs", "setstripe", *shlex.split(given[1]), str(path)])
            else:
                path.touch()

    def set_parameters(self, words: list[str]) -> None:
        for name, _, value in (word.partition("=") for word in words):
            for target in self.state["targets"]:
                client = f"osc.scratch-OST{target['index']:04x}-osc-ff305a3744497000.active"
                on_mds = f"osp.scratch-OST{target['index']:04x}-osc-MDT0000"
                if fnmatch.fnmatchcase(client, name):
                    target["state"] = "inactive" if value == "0" else "active"
                elif name == f"{on_mds}.max_create_count":
                    target["max_create_count"] = int(value)
                elif name == f"{on_mds}.active":
                    target["osp_active"] = int(value)
                for flag, parameter in (("D", "degraded"), ("N", "no_create"), ("R", "readonly")):
                    if name == f"obdfilter.scratch-OST{target['index']:04x}.{parameter}":
                        flags = target.get("flags", "").replace(flag, "")
                        target["flags"] = "".join(sorted(flags + (flag if value == "1" else "")))

    def change(self, index: int, **values: Any) -> None:
        self.state["targets"][index] |= values

    def answer(self, row: Recorded) -> Answer | None:
        """What the fake prints, complains of and ends with; None if it knows nothing of this."""
        if re.search(r"[|$]|2>", row.command):
            return None
        self.state["user"] = row.by_user
        os.chdir(self.elsewhere)
        found = None
        for command in [row.words] if row.words else map(shlex.split, re.split(r"; | && ", row.command)):
            words = [self.here(word) for word in command]
            if not words or any(word.startswith(path) for word in words for path in self.unknown):
                return None
            path = Path(words[-1])
            if words[0] in ("cd", "mkdir", "touch", "ln") and self.mount not in path.parents and path != self.mount:
                return None
            if words[0] == "cd":
                os.chdir(path)
            elif words[0] == "mkdir":
                path.mkdir()
            elif words[0] == "touch":
                path.touch()
            elif words[0] == "ln":
                path.symlink_to(words[-2])
            else:
                found = self.ask(words)
        if found is None:
            return None
        return (found[0] if row.code is not None else "", found[1], found[2] if row.code is not None else None)

    def ask(self, words: list[str]) -> Answer | None:
        try:
            return self.there(_lustre.answer(self.state, words)), "", 0
        except _lustre.Stop as stop:
            return self.there(stop.out), self.there(stop.words), stop.code
        except _lustre.Hangs as hangs:
            return self.there(hangs.out), "", 124  # as `timeout` ends
        except _lustre.NotPretended:
            if words[1:2] == ["setstripe"]:
                self.unknown.add(words[-1])  # what it has from now on
            return None


OTHERWISE = (
    "(at once)",  # flags appear some seconds late
    "file of 6 MiB",  # later components have objects by then
    "of root",  # the fake knows no users
    "theirs belongs to root",
    "client unmounted",
    "mounted a second time",
    "client just mounted again",  # its number is another
    "released",
    "lfs setstripe -o 1,9 (rc 0); new",  # a touch fails
    "nothing else had asked after it",  # the first to ask is answered by -l
)


def test_the_fake_answers_as_the_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay, compared, different = Replay(tmp_path), 0, []
    monkeypatch.chdir(tmp_path)  # and back in the end
    for row in recordings():
        replay.prepare(row)
        if any(words in row.state for words in OTHERWISE) or (found := replay.answer(row)) is None:
            continue
        compared += 1
        places = chosen_places(row)
        got = neutral(found[0], places=places), found[1], found[2]
        if got != (neutral(row.out, places=places), row.err, row.code):
            different.append((row.number, row.state, row.command, got, (row.out, row.err, row.code)))
    assert different == []
    assert compared > 600
