"""What the Lua inside Slurm reads of directives, sizes and times: the same as everybody else here."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forebay.act.slurm.burst_buffer.installation import quote_lua
from forebay.act.slurm.output import parse_time_limit
from forebay.model.units import parse_duration, parse_size
from support.examples import examples
from support.slurm_lua import Lua, skip_without_lua

ONE_FOLDER = settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def lua(tmp_path_factory: pytest.TempPathFactory) -> Lua:
    skip_without_lua()
    return Lua(tmp_path_factory.mktemp("lua"), Path("/no/such/socket"))


def size(text: str) -> float | None:
    """Bytes that `forebay` reads, where a directive may have them."""
    try:
        found = math.ceil(parse_size(text))
    except ValueError:
        return None
    return found if 0 < found < 2**53 and " " not in text else None


SLURM = {"": 1} | {
    f"{letter}{kind}": (1024 if kind in ("", "ib") else 1000) ** power
    for power, letter in enumerate("kmgtp", 1)
    for kind in ("", "b", "ib")
}


def slurm_size(text: str) -> int:
    """Bytes as seen in a real Slurm: digits, and a known suffix; an unknown one counts as nothing."""
    found = re.match(r"(\d*)(.*)", text)
    assert found is not None
    return int(found[1] or 0) * SLURM.get(found[2].lower(), 1)


numbers = st.one_of(
    st.integers(0, 10**6).map(str), st.floats(0, 1e6).map(lambda x: f"{x:.3g}"), st.sampled_from(["", ".", "1e3", "-4"])
)
units = st.sampled_from(["", "B", "b", "kB", "KB", "MB", "GB", "gb", "gB", "TB", "PB", "KiB", "MiB", "GiB", "giB",
                         "TiB", "PiB", "G", "M", "bit", "Gbit", "EB", "x", "iB", "GBs"])  # fmt: skip
sizes = st.lists(st.tuples(numbers, units).map("".join), max_size=30)


@ONE_FOLDER
@given(words=sizes)
@example(words=["500GB", "1.5TiB", "0", "0.4B", "1e3kB", "9007199254740993", "0x10B", "1..5GB", "+5MB", "5.MB", ".5MB"])
def test_sizes_are_read_as_everywhere_else(lua: Lua, words: list[str]) -> None:
    assert [found for found, _ in lua.each("parse_size", words)] == [size(word) for word in words]


@ONE_FOLDER
@given(words=sizes)
@example(words=["500GB", "2GiB", "7", "7B", "2kB", "3Gbit", "1.5GB", "1e3GB"])
def test_what_is_said_to_be_the_same_for_slurm_is(lua: Lua, words: list[str]) -> None:
    for word, (found, same) in zip(words, lua.each("parse_size", words), strict=True):
        if found is not None:
            assert isinstance(same, bool) and (not same or slurm_size(word) == found)
            assert same or re.search(r"[.eE+]|bit", word), f"{word} should be the same for Slurm"


@ONE_FOLDER
@given(words=st.lists(st.tuples(numbers, st.sampled_from(["", "s", "ms", "min", "h", "d", "m", "H"])).map("".join)))
def test_durations_are_read_as_everywhere_else(lua: Lua, words: list[str]) -> None:
    def wanted(text: str) -> float | None:
        try:
            found = parse_duration(text)
        except ValueError:
            return None
        return found if 0 < found <= 3650 * 86400 else None

    found = [None if one is None else pytest.approx(one) for one, _ in lua.each("parse_duration", words)]
    assert [wanted(word) for word in words] == found


@ONE_FOLDER
@given(
    words=st.lists(
        st.from_regex(r"([0-9]{1,3}-)?[0-9]{1,2}(:[0-9]{2}){0,2}|UNLIMITED|INVALID|NOT_SET|", fullmatch=True)
    )
)
def test_time_limits_are_read_as_in_python(lua: Lua, words: list[str]) -> None:
    assert [found for found, _ in lua.each("parse_time_limit", words)] == [parse_time_limit(word) for word in words]


def wish(lua: Lua, *lines: str) -> tuple[object, object]:
    return lua.each("parse_request", ["\n".join(("#!/bin/sh", *lines, "echo"))])[0]


def test_a_directive_is_read_with_all_its_words(lua: Lua) -> None:
    found, wrong = wish(
        lua, "#SBATCH -n 4", "#BB_LUA capacity=500GB tier=nvme time=2h", "#BB_LUA stage_in=/home/a/in \\",
        "#BB_LUA   stage_in=/home/a/b:c/d stage_out=out:/home/a/out",
    )  # fmt: skip
    assert wrong is None and isinstance(found, dict)
    assert (found["capacity"], found["tier"], found["time"]) == (500e9, "nvme", 7200)
    assert found["stage_in"] == [["/home/a/in", "in"], ["/home/a/b", "c/d"]]
    assert found["stage_out"] == [["out", "/home/a/out"]]


def test_without_a_directive_nothing_is_asked_for(lua: Lua) -> None:
    for lines in ((), ("#BB_LUAX capacity=5GB",), ("echo", "#BB_LUA capacity=5GB"), ("# BB_LUA capacity=5GB",)):
        assert wish(lua, *lines) == (None, None)


BAD = {
    "": "capacity is missing",
    "capacity=1GB capacity=1GB": "capacity is given twice",
    "capacity=1GB tier=a tier=b": "tier is given twice",
    "capacity=1GB pool=a tier=b": "pool 'a' and tier 'b' differ",
    "capacity=": "capacity: '' is not a number",
    "capacity": "unknown option 'capacity'",
    "capacity=1GB x=1": "unknown option 'x=1'; known options: capacity, tier, pool, time, type, servers, equal",
    "capacity=1GB type=shred": "type: 'shred' is not a type of space; known types: shared, volumes",
    "capacity=1GB type=shared servers=0": "servers: '0' is not a number of data servers such as 4",
    "capacity=1GB type=shared servers=2.5": "servers: '2.5' is not a number of data servers such as 4",
    "capacity=1GB servers=2": "servers: is only for a shared file system; add type=shared",
    "capacity=1GB equal": "equal: is only for a shared file system; add type=shared",
    "capacity=1GB tier=a/b": "tier: 'a/b' is not a valid tier name",
    "capacity=1GB time=0": "time: must be above 0",
    "capacity=1GB time=soon": "time: 'soon' is not a duration",
    "capacity=1GB stage_in=in": "stage_in: 'in': needs an absolute path",
    "capacity=1GB stage_in=/in:/x": "must be a path inside the burst buffer",
    "capacity=1GB stage_in=/in:a/../../b": "must be a path inside the burst buffer",
    "capacity=1GB stage_in=/": "must be a path inside the burst buffer",
    "capacity=1GB stage_out=out": "stage_out: 'out': needs a name and an absolute path",
    "capacity=1GB stage_out=out:there": "needs a name and an absolute path",
    "capacity=1GB stage_out=/out:/there": "NAME must be a path inside the burst buffer",
}


@pytest.mark.parametrize("words", BAD)
def test_what_makes_no_sense_is_told_in_one_line(lua: Lua, words: str) -> None:
    found, wrong = wish(lua, f"#BB_LUA {words}".rstrip())
    assert found is None and isinstance(wrong, str) and BAD[words] in wrong and "\n" not in wrong


def test_any_pool_is_no_tier(lua: Lua) -> None:
    for words, tier in (("pool=any", ""), ("pool=fast", "fast"), ("pool=any tier=fast", "fast"), ("", "")):
        found, _ = wish(lua, f"#BB_LUA capacity=1GB {words}")
        assert isinstance(found, dict) and found["tier"] == tier


def test_at_submission_slurm_gets_a_pool_and_numbers_that_it_reads_as_we_do(lua: Lua) -> None:
    job, said = lua.submit(
        script="#!/bin/sh\n#SBATCH -n 1\n#BB_LUA capacity=1.5GB stage_out=a:/b\necho capacity=1.5GB\n"
    )
    head = "#!/bin/sh\n#SBATCH -n 1\n#BB_LUA capacity=1500000000 pool=any stage_out=a:/b\n"
    assert (job["code"], job["script"], said) == (0, head + "echo capacity=1.5GB\n", "")


def test_a_script_that_slurm_reads_as_it_is_stays_so(lua: Lua) -> None:
    for script in ("#!/bin/sh\n#BB_LUA capacity=5GB pool=any\ntrue", "#!/bin/sh\ntrue\n", ""):
        assert lua.submit(script=script)[0] == {"code": 0, "script": script}


def test_the_option_of_the_command_line_may_leave_the_directive_out(lua: Lua) -> None:
    job, _ = lua.submit(script="#!/bin/sh\ntrue", burst_buffer="capacity=5GB")
    assert job["burst_buffer"] == "#BB_LUA capacity=5GB pool=any"


def test_a_comment_can_ask_and_its_user_is_told(lua: Lua) -> None:
    job, said = lua.submit(script="#!/bin/sh\ntrue", comment="run 7 bb:capacity=5GB,time=2h")
    assert job["burst_buffer"] == "#BB_LUA capacity=5GB pool=any time=2h"
    assert said == "burst buffer: added from the job's comment: #BB_LUA capacity=5GB time=2h"
    job, said = lua.submit(script="#!/bin/sh\n#BB_LUA capacity=1GB\n", comment="bb:capacity=5GB")
    assert "burst_buffer" not in job and said == ""


def test_a_bad_request_is_refused_at_submission(lua: Lua) -> None:
    job, said = lua.submit(script="#!/bin/sh\n#BB_LUA capacity=much\n")
    assert job["code"] == -1 and said.startswith("burst buffer: capacity: 'much' is not a number")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=20))
@ONE_FOLDER
def test_settings_come_through_as_they_are(lua: Lua, words: str) -> None:
    (lua.folder / "forebay_settings.lua").write_text(f"return {{ token = '', cluster = {quote_lua(words)} }}")
    try:
        assert lua.each("grant_key", ["7"]) == [(f"slurm-{words}-7", None)]
    finally:
        lua.configure()
