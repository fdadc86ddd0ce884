"""The page over what is finished: a journal at any moment, and a study."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.act.control.page import views as page_views
from forebay.act.control.page.files import HEADERS
from forebay.act.control.service.live_state import Live
from forebay.decide.grants.codec import to_line
from forebay.history.store import open_store
from forebay.history.store.journal import LogLine, add_log_lines, append_entries
from forebay.model.errors import BadInput
from forebay.model.grant import NoSuchGrant
from forebay.show.web import pages
from forebay.show.web.server import Server
from forebay.show.web.sources import Journal, Study, entries_of_lines, open_source
from support.documents import as_received, read_page
from support.examples import examples
from support.page_world import ANN, BEN, PageWorld


@pytest.fixture(scope="module")
def world() -> PageWorld:
    made = PageWorld()
    made.node("a", "x", "y", fields={"tier": "nvme"})
    made.ask(ANN, 50, job="one")
    made.ask(BEN, 120, job="two")
    made.carry_out()
    made.ask(BEN, 10**9)
    made.release(1)
    made.carry_out()
    made.drain("a/y")
    return made


def journal(world: PageWorld, **more: Any) -> Journal:
    return Journal("service.db", list(world.live.recent), lambda _: [], **more)


def naive(world: PageWorld, number: int) -> Live:
    """The state after so many events, from the first on."""
    live = Live()
    live.follow(list(world.live.recent)[:number])
    return live


@settings(max_examples=examples(30), deadline=None)
@given(numbers=st.lists(st.integers(1, 40), min_size=1, max_size=12), kept=st.sets(st.integers(1, 20)))
def test_any_moment_is_the_fold_of_all_before_it_in_whatever_order_one_looks(
    world: PageWorld, numbers: list[int], kept: set[int]
) -> None:
    last = world.live.last
    states = {at: naive(world, at) for at in kept if at <= last}
    texts = [(at, json.dumps({"control": s.control.document(), "changed": s.changed})) for at, s in states.items()]
    shown = journal(world, kept=texts)
    for number in numbers:
        found = read_page(shown, "/v1/page", {"number": str(number)})
        wanted = naive(world, min(number, last))
        assert found["nodes"] == as_received(page_views.snapshot(wanted, None)["nodes"])
        assert (found["number"], found["reading"]["last"]) == (min(number, last), last)
        assert found["reading"]["at"] == world.live.recent[min(number, last) - 1].at


def test_it_answers_what_the_service_would_and_nothing_of_later(world: PageWorld) -> None:
    shown = journal(world)
    last = world.live.last
    rows = read_page(shown, "/v1/page/grants", {"state": "released"})["rows"]
    assert [row["job"] for row in rows] == ["one"]
    asked = next(entry.number for entry in world.live.recent if '"Asked"' in entry.line)
    assert read_page(shown, "/v1/page/grants", {"number": str(asked)})["total"] == 1
    lines = read_page(shown, "/v1/page/decisions", {"number": str(last), "limit": "2"})
    assert len(lines["lines"]) == 2 and lines["next"] == lines["lines"][-1]["n"]
    rest = read_page(shown, "/v1/page/decisions", {"before": str(lines["next"]), "limit": "500"})
    numbers = [line["n"] for line in [*lines["lines"], *rest["lines"]]]
    assert numbers == sorted(numbers, reverse=True) and numbers[0] == last
    assert len(read_page(shown, "/v1/page/timeline", {"begin": "0", "end": "1e9"})["id"]) == 3
    grant = f"{2:032x}"
    assert read_page(shown, f"/v1/grants/{grant}")["job"] == "two"
    assert "requests" in read_page(shown, f"/v1/grants/{grant}/story")["story"][0]["text"]
    assert shown.answer("/v1/nodes", {}) is None
    with pytest.raises(NoSuchGrant):
        shown.answer(f"/v1/grants/{grant}", {"number": "1"})
    with pytest.raises(BadInput, match="whole number"):
        shown.answer("/v1/page", {"number": "x"})


@pytest.fixture
def database(world: PageWorld, tmp_path: Path) -> Path:
    path = tmp_path / "service.db"
    with open_store(str(path)) as store, store.open_writer() as connection:
        append_entries(connection, list(world.live.recent))
        add_log_lines(connection, [LogLine(f"{1:032x}", 1000.0, "a", "warning", "the disk is slow")])
    return path


def test_a_database_its_folder_and_an_export_show_the_same(world: PageWorld, database: Path, tmp_path: Path) -> None:
    export = tmp_path / "elsewhere" / "journal.jsonl"
    export.parent.mkdir()
    export.write_text("".join(f"{entry.line}\n" for entry in world.live.recent))
    found = []
    for what in (database, database.parent, f"sqlite:///{database}", export):
        with open_source(str(what)) as source:
            told = read_page(source, "/v1/page")
            told["reading"].pop("name")
            found.append(told)
    assert found[0] == found[1] == found[2] == found[3]
    with open_source(str(database)) as source:
        story = read_page(source, f"/v1/grants/{1:032x}/story")["story"]
    assert "the disk is slow" in [line["text"] for line in story]


def test_events_of_an_export_keep_their_grants(world: PageWorld) -> None:
    assert entries_of_lines([entry.line for entry in world.live.recent], "x") == list(world.live.recent)


def test_what_is_neither_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello\n")
    sqlite3.connect(tmp_path / "other.db").executescript("create table t (x)").close()
    for what, words in (("nowhere", "no such file"), ("empty", "contains neither a study"), ("text", "text:1")):
        with pytest.raises(BadInput, match=words) as told, open_source(str(tmp_path / what)):
            pass
        assert "\n" not in str(told.value)


# Studies


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "io-nodes"
    folder.mkdir()
    told = {"study": "io-nodes", "conclusions": ["it is faster"], "settings": {"seed": 1}}
    (folder / "results.json").write_text(json.dumps(told))
    (folder / "report.html").write_text("<p>report</p>")
    (folder / "figure-05-mean-io-slowdown.png").write_bytes(b"png")
    (folder / "secret.key").write_text("secret")
    return folder


def test_a_study_tells_its_conclusions_and_figures(study: Path) -> None:
    found = read_page(Study(study), "/v1/page")["reading"]
    assert (found["study"], found["conclusions"], found["settings"]) == ("io-nodes", ["it is faster"], {"seed": 1})
    assert found["figures"] == [{"file": "figure-05-mean-io-slowdown.png", "title": "Figure 5: mean io slowdown"}]
    assert found["files"] == ["figure-05-mean-io-slowdown.png", "report.html", "results.json"]


def test_only_a_studys_own_files_are_given_out(study: Path) -> None:
    shown = Study(study)
    assert shown.file("report.html") == study / "report.html"
    for name in ("secret.key", "../io-nodes/report.html", "nothing.png", "", ".html"):
        assert shown.file(name) is None


# The server


@pytest.fixture
def server(study: Path) -> Iterator[Server]:
    made = Server(Study(study), pages().files)
    yield made
    made.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "page"]


def test_whoever_has_no_key_reads_nothing(server: Server) -> None:
    with httpx.Client(base_url=server.origin, timeout=60) as client:
        for path in ("/", "/v1/page", "/page/main.js", "/study/report.html", "/?key=wrong"):
            answer = client.get(path)
            assert answer.status_code == 403 and "no valid key" in answer.json()["error"]
        opened = client.get(server.address)
        assert opened.status_code == 303 and opened.headers["location"] == "/"
        assert "HttpOnly" in opened.headers["set-cookie"] and "SameSite=Strict" in opened.headers["set-cookie"]
        assert client.get("/").text.startswith("<!doctype html>")
        assert client.get("/v1/page").json()["who"]["role"] == "reader"
        elsewhere = client.get("/v1/page", headers={"Host": "evil.example.org"})
        assert elsewhere.status_code == 403


def test_it_serves_the_page_and_the_studys_files_and_says_what_is_not_there(server: Server) -> None:
    with httpx.Client(base_url=server.origin, timeout=60) as client:
        client.get(server.address)
        page = client.get("/page/main.js")
        assert page.headers["content-type"].startswith("text/javascript")
        assert page.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
        report = client.get("/study/report.html")
        assert report.text == "<p>report</p>" and "sandbox" in report.headers["content-security-policy"]
        for path in ("/study/secret.key", "/study/..%2fio-nodes%2freport.html", "/v1/grants/3f", "/page/nothing.js"):
            answer = client.get(path)
            assert answer.status_code == 404 and set(answer.json()) == {"error", "code"}
        assert client.post("/v1/page").status_code == 501


def test_a_port_that_is_taken_is_told_in_one_line(server: Server, study: Path) -> None:
    port = int(server.origin.rpartition(":")[2])
    with pytest.raises(BadInput, match="cannot listen"):
        Server(Study(study), {}, port)


def test_lines_of_the_journal_are_as_they_were_written(world: PageWorld) -> None:
    from forebay.decide.grants.codec import from_line

    assert [to_line(from_line(entry.line)) for entry in world.live.recent] == [e.line for e in world.live.recent]
