"""The stream of a running service: who watches hears what it may, goes on where it was, and is told when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from forebay.act.control.page import updates as page_frames
from support.control import Running, running

ANN, BEN = 4_000_001, 4_000_002


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as found:
        found.hello("n", "a", "b")
        yield found


@contextmanager
def watching(service: Running, token: str = "", after: int | None = None, **headers: str) -> Iterator[Iterator[Any]]:
    """Events of the stream as (kind, document); the first is always `hello`."""
    at = service.call("GET", "/v1/health")["journal"] if after is None else after
    with (
        service.client(token) as client,
        client.stream("GET", f"/v1/page/events?after={at}", headers=headers) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    kind = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            yield kind, json.loads(line[6:])


def frames(stream: Iterator[tuple[str, Any]], until: int) -> list[Any]:
    """All frames up to a number."""
    found = []
    for kind, told in stream:
        if kind == "frame":
            found.append(told)
            if told["number"] >= until:
                return found
    raise AssertionError("the stream has ended")


def last(service: Running) -> int:
    return int(service.call("GET", "/v1/health")["journal"])


def test_all_who_watch_hear_of_the_machine_and_users_of_their_own_grants(service: Running) -> None:
    ann = service.token("ann", "user", uid=ANN)
    with watching(service) as all_of_it, watching(service, ann) as own:
        assert next(all_of_it)[0] == next(own)[0] == "hello"
        mine, other = service.ask(uid=ANN, gid=5), service.ask(uid=BEN, gid=5, job="secret")
        until = last(service)
        seen, seen_by_ann = frames(all_of_it, until), frames(own, until)
    assert {row["id"] for frame in seen for row in frame["grants"]} == {mine["id"], other["id"]}
    assert {row["id"] for frame in seen_by_ann for row in frame["grants"]} == {mine["id"]}
    assert "secret" not in json.dumps(seen_by_ann)
    assert {key for frame in seen_by_ann for key in frame["disks"]} == {key for frame in seen for key in frame["disks"]}
    assert seen_by_ann[-1]["totals"]["states"] == {"making": 1}


def test_who_comes_again_hears_what_was_missed_by_number_or_by_header(service: Running) -> None:
    before = last(service)
    grant = service.ask()
    for after, headers in ((before, {}), (0, {"Last-Event-ID": str(before)})):
        with watching(service, after=after, **headers) as stream:
            found = frames(stream, last(service))
        assert found[0]["after"] == before and [row["id"] for row in found[0]["grants"]] == [grant["id"]]


def test_who_was_later_than_the_journal_is_asked_to_begin_anew(service: Running) -> None:
    with watching(service, after=10**6) as stream:
        assert [next(stream)[0], next(stream)[0]] == ["hello", "reset"]


def test_a_stream_ends_with_the_service(tmp_path: Path) -> None:
    with running(tmp_path) as service, watching(service) as stream:
        assert next(stream)[0] == "hello"
        service.stop()
        assert [kind for kind, _ in stream if kind == "frame"] == []


def test_who_watches_hears_the_beat_that_was_promised_while_nothing_happens(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_frames, "_BEAT", 0.02)
    with watching(service) as stream:
        kind, told = next(stream)
        assert (kind, told["beat"]) == ("hello", 0.02)
        assert [next(stream), next(stream)] == [("still", {"number": told["number"]})] * 2


def test_a_slow_reader_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_frames, "_LOOK", 0.01)
    frames = page_frames.Updates(cast("Any", None))

    async def read_slowly() -> list[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        frames._watching[None], frames._task = {queue}, asyncio.create_task(asyncio.sleep(60))
        found = []
        for text in ("one", "two"):
            queue.put_nowait(text)
        async with contextlib.aclosing(frames._frames(None, queue)) as reading:
            async for text in reading:
                found.append(text)
                await asyncio.sleep(0.03)  # longer than between two looks at whether the service ends
                if len(found) == 2:
                    break
        frames._task.cancel()
        return found

    assert asyncio.run(read_slowly()) == ["one", "two"]


def test_agents_and_strangers_do_not_watch(service: Running) -> None:
    agent = service.token("n", "agent", node="n")
    for path in ("/v1/page", "/v1/page/events", "/v1/page/grants", "/v1/page/decisions"):
        assert "for people" in service.error("GET", path, token=agent, status=403)
        service.error("GET", path, token="nobody", status=401)
    ann = service.token("ann", "user", uid=ANN)
    for path in ("looks/history", "looks/runs?of=vpic", "sheets/run/1"):
        assert "administrator" in service.error("GET", f"/v1/page/{path}", token=ann, status=403)
        service.error("GET", f"/v1/page/{path}", token="nobody", status=401)


def test_decisions_go_back_to_the_first_page_by_page(service: Running) -> None:
    for _ in range(3):
        service.ask(10**15)
    found, before = [], 0
    while True:
        page = service.call("GET", f"/v1/page/decisions?limit=4&before={before}")
        found += page["lines"]
        before = page["next"]
        if not before:
            break
    numbers = [line["n"] for line in found]
    assert numbers == sorted(set(numbers), reverse=True) and sum(line["kind"] == "TurnedDown" for line in found) == 3
    kinds = {json.dumps(e["event"]["kind"]) for e in service.call("GET", "/v1/journal")["events"]}
    assert {json.dumps(line["kind"]) for line in found} <= kinds


def test_a_users_decisions_are_of_own_grants(service: Running) -> None:
    mine, _ = service.ask(uid=ANN, gid=5), service.ask(uid=BEN, gid=5)
    ann = service.token("ann", "user", uid=ANN)
    found = service.call("GET", "/v1/page/decisions", token=ann)["lines"]
    assert {line["grant"] for line in found} == {mine["id"]} and found[0]["n"] > found[-1]["n"]
    first = service.call("GET", "/v1/page/decisions?limit=1", token=ann)
    assert first["lines"] == found[:1] and first["next"] == found[0]["n"]
