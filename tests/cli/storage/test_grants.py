"""`forebay storage` and `forebay agent`, as a user meets them; the service behind decides as the real one does."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.act.control.client import Client
from forebay.decide.grants import commands as co
from forebay.decide.grants.machine import DiskSpec
from support.command import Forebay
from support.control_fake import Fake, served

MB = 10**6
AGENT = co.Caller(role="agent", node="n1")
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def forebay(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Forebay:
    monkeypatch.setenv("COLUMNS", "200")
    return Forebay(capfd, monkeypatch)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """One node with one disk of 100 MB; its agent makes all at once, without any disk."""
    made = Fake()
    disk = DiskSpec(name="d0", capacity=100 * MB, write_bandwidth=1e9, read_bandwidth=1e9)
    made.do(co.Register(caller=AGENT, node="n1", network_bandwidth=1e9, disks=(disk,)))
    with tempfile.TemporaryDirectory(prefix="fb-") as folder, served(made, Path(folder) / "s") as address:
        monkeypatch.setenv("FOREBAY_SERVICE", str(address))
        yield made


@pytest.fixture
def quick(fake: Fake) -> Fake:
    """What is asked for is made, and what is released is gone, before the next call."""

    def fault(_: str, path: str) -> str:
        for action in fake.control.actions("n1") if path.endswith("/wait") else ():
            if action.kind == "make":
                fake.do(co.Made(caller=AGENT, volume=action.volume, path=f"/fast/{action.volume}"))
            else:
                fake.do(co.Gone(caller=AGENT, volume=action.volume, disk="d0"))
        return ""

    fake.fault = fault
    return fake


def only(fake: Fake) -> str:
    (name,) = fake.control.tables.grants
    return name


def test_a_request_without_wait_says_what_it_waits_for(forebay: Forebay, fake: Fake) -> None:
    ran = forebay("storage", "request", "--size", "10MB", "--time", "2h")
    assert ran.code == 0 and ran.out == f"grant {only(fake)}: making: n1/d0 by forebay\n"


def test_a_request_with_wait_prints_the_path(forebay: Forebay, quick: Fake) -> None:
    ran = forebay("storage", "request", "--size", "10MB", "--time", "2h", "--wait")
    name = only(quick)
    assert ran.code == 0 and ran.out.splitlines()[1] == f"path: /fast/{name}.0"
    assert ran.out.startswith(f"grant {name}: ready, 10.00 MB until ")


def test_env_waits_and_prints_what_a_shell_takes(forebay: Forebay, quick: Fake) -> None:
    ran = forebay("storage", "request", "--size", "10MB", "--time", "2h", "--env")
    name = only(quick)
    words = {f"FOREBAY_GRANT={name}", f"FOREBAY_PATH=/fast/{name}.0", f"FOREBAY_PATHS=/fast/{name}.0"}
    assert set(ran.out.split("\n")) == {f"export {word}" for word in words} | {""}


def test_json_is_the_services_own_document(forebay: Forebay, quick: Fake) -> None:
    ran = forebay("storage", "request", "--size", "10MB", "--time", "2h", "--wait", "--json")
    assert json.loads(ran.out) == quick.document(only(quick))


def test_what_is_asked_reaches_the_service(forebay: Forebay, fake: Fake) -> None:
    words = ("--field", "rack=7", "--job", "41", "--key", "mine", "--tier", "fast", "--start", "1h")
    exposed = ("--expose", "nbd", "--host", "h1", "--host", "h2")
    forebay("storage", "request", "--size", "1.5GB", "--time", "2h", *words, *exposed)
    _, _, body = fake.calls[0]
    assert body == {
        "size": 1_500_000_000, "seconds": 7200.0, "key": "mine", "job": "41", "tier": "fast", "start": "1h",
        "fields": {"rack": "7", "expose": "nbd"}, "expose": "nbd", "hosts": ["h1", "h2"],
    }  # fmt: skip


def test_a_time_to_start_is_told_as_seconds(forebay: Forebay, fake: Fake) -> None:
    forebay("storage", "request", "--size", "1MB", "--time", "2h", "--start", "1970-01-02T00:00:00+00:00")
    assert fake.calls[0][2]["start"] == 86_400.0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--size", "much", "--time", "1h"), "--size: 'much' is not a number with a unit"),
        (("--size", "-1GB", "--time", "1h"), "--size: must be above 0"),
        (("--size", "0", "--time", "1h"), "--size: must be above 0"),
        (("--size", "1e30GB", "--time", "1h"), "--size: is too large"),
        (("--size", "1GB", "--time", "soon"), "--time: 'soon' is not a number"),
        (
            ("--size", "1GB", "--time", "1h", "--start", "noon"),
            "--start: must be a delay like 2h, or a time like 2026-11-16T08:00",
        ),
        (("--size", "1GB", "--time", "1h", "--field", "fast"), "--field: must be NAME=VALUE, not 'fast'"),
        (("--size", "1GB", "--time", "1h", "--field", "a=1", "--field", "a=2"), "--field: a is given twice"),
        (("--size", "1GB", "--time", "1h", "--host", "h"), "--host: requires --expose"),
        (("--size", "1GB", "--time", "1h", "--expose", "nvmet"), "--host: --expose nvmet needs the NQN of each host"),
        (("--size", "1GB", "--time", "1h", "--service", "http://h"), "--service: must be like"),
    ],
)
def test_what_makes_no_sense_is_told_before_the_service_is_asked(
    forebay: Forebay, fake: Fake, words: tuple[str, ...], says: str
) -> None:
    ran = forebay("storage", "request", *words)
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1
    assert fake.calls == []
    forebay("storage", "show", "a?b#c%2F d")
    assert fake.calls[0][1] == "/v1/grants/a%3Fb%23c%252F%20d"


def test_a_refusal_is_one_line_with_the_reason(forebay: Forebay, fake: Fake) -> None:
    ran = forebay("storage", "request", "--size", "1TB", "--time", "1h")
    assert ran.code == 2 and ran.err.count("\n") == 1
    assert f"grant {only(fake)} was refused: " in ran.err and "less than 1.00 TB" in ran.err


def test_waiting_tells_the_place_in_the_queue_and_an_end_of_patience_leaves_it_there(
    forebay: Forebay, fake: Fake
) -> None:
    fake.ask(100 * MB)
    ran = forebay("storage", "request", "--size", "100MB", "--time", "1h", "--at-most", "0.1s")
    told, ended = ran.err.splitlines()
    assert told.startswith("queued, place 1: no room for 100.00 MB")
    assert ran.code == 2 and "is still queued; to wait again" in ended
    assert sorted(grant.state for grant in fake.control.tables.grants.values()) == ["making", "queued"]


@pytest.mark.parametrize("keep", [False, True])
def test_ctrl_c_gives_it_back_or_leaves_it_and_says_which(
    forebay: Forebay, fake: Fake, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "wait", interrupted)
    ran = forebay("storage", "request", "--size", "1MB", "--time", "1h", "--wait", *(["--keep"] if keep else []))
    assert ran.code == 130
    assert ("kept" if keep else "released") in ran.err
    assert fake.state(only(fake)) == ("making" if keep else "releasing")


def test_ctrl_c_before_the_answer_leaves_nothing_behind(
    forebay: Forebay, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tries = Client.request, []

    def interrupted(self: Client, *words: object, **more: object) -> object:
        found = real(self, *words, **more)  # type: ignore[arg-type]
        tries.append(found)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Client, "request", interrupted)
    ran = forebay("storage", "request", "--size", "1MB", "--time", "1h")
    assert ran.code == 130 and "released" in ran.err and fake.state(only(fake)) == "releasing"


def test_a_failed_grant_tells_why(forebay: Forebay, fake: Fake) -> None:
    name = fake.ask(MB)
    fake.do(co.NotMade(caller=AGENT, volume=f"{name}.0", because="the disk is full"))
    fake.do(co.Gone(caller=AGENT, volume=f"{name}.0", disk="d0"))
    ran = forebay("storage", "wait", name)
    assert ran.code == 2 and " failed: " in ran.err and "the disk is full" in ran.err


def test_release_with_wait_ends_when_nothing_is_left(forebay: Forebay, quick: Fake) -> None:
    name = quick.ask(MB)
    assert forebay("storage", "release", name).out == f"grant {name}: releasing\n"
    assert forebay("storage", "release", name, "--wait").out == f"grant {name}: released\n"


def test_a_grant_that_cannot_be_released_does_not_keep_the_others(forebay: Forebay, quick: Fake) -> None:
    one, two = quick.ask(MB), quick.ask(MB)
    ran = forebay("storage", "release", one, "0" * 32, "x/y", two, one, "--wait")
    assert (ran.code, ran.out) == (2, f"grant {one}: released\ngrant {two}: released\n")
    lists = "; `forebay storage list` lists grants"
    assert ran.err == f"forebay: no grant '{'0' * 32}'{lists}\nforebay: no grant 'x/y'{lists}\n"
    assert [quick.state(grant) for grant in (one, two)] == ["released"] * 2


@pytest.mark.parametrize("name", ["", ".", "..", "../nodes", "../../etc", "a/b"])
def test_a_name_that_is_no_grant_or_node_reaches_no_other_call(forebay: Forebay, fake: Fake, name: str) -> None:
    for words in (("show", name), ("show", name, "--story"), ("release", name), ("extend", name, "--by", "1h")):
        ran = forebay("storage", *words)
        assert (ran.code, ran.err) == (2, f"forebay: no grant {name!r}; `forebay storage list` lists grants\n")
    ran = forebay("storage", "drain", name)
    assert ran.code == 2 and f"no node {name!r}" in ran.err
    assert fake.calls == []


def test_whoever_waits_is_told_why_as_soon_as_a_grant_is_being_released(forebay: Forebay, fake: Fake) -> None:
    def fault(_: str, path: str) -> str:
        if path.endswith("/wait"):
            for action in fake.control.actions("n1"):
                fake.do(co.NotMade(caller=AGENT, volume=action.volume, because="permission denied"))
        return ""

    fake.fault = fault
    ran = forebay("storage", "request", "--size", "1MB", "--time", "1h", "--wait")
    assert (ran.code, ran.out) == (2, "")
    assert fake.state(only(fake)) == "releasing"
    assert f"grant {only(fake)} is being released: " in ran.err and "permission denied" in ran.err
    again = forebay("storage", "wait", only(fake))
    assert again.code == 2 and "is being released: " in again.err


def test_release_with_wait_ends_where_a_volume_can_not_be_removed(forebay: Forebay, fake: Fake) -> None:
    def fault(_: str, path: str) -> str:
        if path.endswith("/wait"):
            for action in fake.control.actions("n1"):
                fake.do(co.Stuck(caller=AGENT, volume=action.volume, disk="d0", because="input/output error"))
        return ""

    name = fake.ask(MB)
    fake.fault = fault
    ran = forebay("storage", "release", name, "--wait")
    assert (ran.code, ran.out) == (2, f"grant {name}: failed\n")
    assert f"volume {name}.0 could not be removed: input/output error" in ran.err


def test_release_waits_no_longer_than_it_is_told(forebay: Forebay, fake: Fake) -> None:
    name = fake.ask(MB)
    fake.do(co.Silent(caller=co.SERVICE, node="n1"))
    ran = forebay("storage", "release", name, "--at-most", "10ms")
    assert (ran.code, ran.out) == (2, f"grant {name}: releasing\n")
    assert f"grant {name} is still releasing: released by its owner; node n1 does not answer" in ran.err


def test_extend_says_until_when(forebay: Forebay, fake: Fake) -> None:
    name = fake.ask(MB)
    before = fake.control.grant(name).end
    ran = forebay("storage", "extend", name, "--by", "1h", "--json")
    assert json.loads(ran.out)["until"] == before + 3600
    assert forebay("storage", "extend", name, "--by", "1h").out.startswith(f"grant {name}: until ")


def test_the_list_has_states_and_reasons_and_those_that_ended_only_if_asked_for(forebay: Forebay, fake: Fake) -> None:
    assert forebay("storage", "list").out == "no grants\n"
    made, queued, over = fake.ask(60 * MB), fake.ask(60 * MB), fake.ask(200 * MB)
    out = forebay("storage", "list").out
    assert made in out and "n1/d0" in out and over not in out
    assert any(queued in line and "queued (1)" in line and "no room" in line for line in out.splitlines())
    assert over in forebay("storage", "list", "--all").out
    assert [grant["id"] for grant in json.loads(forebay("storage", "list", "--state", "refused", "--json").out)] == [
        over
    ]


def test_show_tells_a_grant_with_its_story(forebay: Forebay, fake: Fake) -> None:
    name = fake.ask(MB, job="17")
    fake.lines.append({"time": 1e9, "level": "info", "grant": name, "text": "made it", "node": "n1", "what": "log"})
    out = forebay("storage", "show", name, "--story").out
    assert f"grant {name}: making" in out and "job 17" in out and "n1: made it" in out
    told = json.loads(forebay("storage", "show", name, "--story", "--json").out)
    assert told["id"] == name and told["story"] == fake.lines


@pytest.mark.usefixtures("fake")
def test_a_grant_that_is_not_there_is_told(forebay: Forebay) -> None:
    ran = forebay("storage", "show", "0" * 32)
    assert (ran.code, ran.err) == (2, f"forebay: no grant '{'0' * 32}'; `forebay storage list` lists grants\n")


def test_what_is_not_allowed_is_one_line(forebay: Forebay, fake: Fake) -> None:
    fake.fault = lambda *_: "403"
    for words in (("drain", "n1"), ("undrain", "n1", "--disk", "d0"), ("list",), ("release", "0" * 32)):
        ran = forebay("storage", *words)
        assert (ran.code, ran.err) == (2, "forebay: so it is\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--size", "1e400GB", "--time", "1h"), "--size: is too large: '1e400GB'"),
        (("--size", "1GB", "--time", "1e300h"), "--time: is too large: '1e300h'"),
        (("--size", "-1GB", "--time", "1h"), "--size: must be above 0, not '-1GB'"),
    ],
)
def test_what_is_too_large_is_not_called_too_small(
    forebay: Forebay, fake: Fake, words: tuple[str, ...], says: str
) -> None:
    assert forebay("storage", "request", *words).err == f"forebay: {says}\n"
    assert fake.calls == []


@pytest.mark.usefixtures("fake")
def test_a_list_for_a_node_that_is_not_there_suggests_one(forebay: Forebay) -> None:
    ran = forebay("storage", "list", "--node", "n2")
    assert (ran.code, ran.err) == (2, "forebay: no node 'n2'; did you mean 'n1'?\n")
    assert forebay("storage", "list", "--node", "n1").out == "no grants\n"


def test_nodes_are_listed_by_name(forebay: Forebay, fake: Fake) -> None:
    disk = DiskSpec(name="d0", capacity=MB, write_bandwidth=1e9, read_bandwidth=1e9)
    fake.do(co.Register(caller=co.Caller(role="agent", node="a9"), node="a9", network_bandwidth=1e9, disks=(disk,)))
    assert [node["name"] for node in forebay("storage", "nodes", "--json").json] == ["a9", "n1"]


def test_a_disk_is_drained_and_open_again(forebay: Forebay, fake: Fake) -> None:
    assert forebay("storage", "drain", "n1", "--disk", "d0").out == "n1/d0: drained, accepts no new grants\n"
    assert fake.control.tables.disks["n1/d0"].drained
    assert forebay("storage", "undrain", "n1", "--disk", "d0").out == "n1/d0: open, accepts new grants\n"
    assert not fake.control.tables.disks["n1/d0"].drained


def test_what_will_not_come_back_is_given_up_only_when_that_is_said(forebay: Forebay, fake: Fake) -> None:
    name = fake.ask(MB)
    ran = forebay("storage", "give-up", "n1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "forebay: n1: not given up: it has volumes of 1 grant; confirm with --yes\n"
    assert fake.control.tables.disks["n1/d0"].there
    ran = forebay("storage", "give-up", "n1", "--disk", "d0", "--yes")
    assert ran.out == "n1/d0: given up; grants with volumes there: 1\n"
    assert not fake.control.tables.disks["n1/d0"].there
    assert fake.control.tables.grants[name].because.endswith("was lost: an administrator removed n1/d0")
    for sure in ((), ("--yes",)):
        assert forebay("storage", "give-up", "n9", *sure).err.startswith("forebay: no node 'n9'")


@pytest.mark.parametrize(
    "command", ["request", "release", "extend", "list", "show", "wait", "drain", "undrain", "give-up", "nodes"]
)
def test_every_command_has_help_with_an_example(forebay: Forebay, command: str) -> None:
    assert f"Example: forebay storage {command}" in forebay("storage", command, "--help").out


def test_the_example_of_an_agent_is_fine(forebay: Forebay, tmp_path: Path) -> None:
    from forebay.act.control.agent.settings import read_agent

    example = Path(__file__).parents[3] / "src/forebay/show/examples/agent.toml"
    found = read_agent(example)
    assert (found.settings.node, list(found.node.disks)) == ("storage1", ["scratch0"])
    (tmp_path / "disk").mkdir(mode=0o711)
    (tmp_path / "agent.toml").write_text(example.read_text().replace("/tmp/forebay-disk", "disk"))
    ran = forebay("agent", str(tmp_path / "agent.toml"), "--check")
    assert (ran.code, ran.out) == (0, f"{tmp_path}/agent.toml: valid: scratch0\n")


def test_an_agent_whose_disk_can_not_work_says_so(forebay: Forebay, tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "src/forebay/show/examples/agent.toml"
    (tmp_path / "agent.toml").write_text(example.read_text().replace("/tmp/forebay-disk", "nowhere"))
    ran = forebay("agent", str(tmp_path / "agent.toml"), "--check")
    assert ran.code == 2 and "is not a folder" in ran.err and ran.err.count("\n") == 1
