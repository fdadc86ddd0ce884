"""What is decided and what is written agree, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forebay.act.control.errors import Unavailable
from forebay.act.control.service import journal_writer as module
from forebay.act.control.service.journal_writer import Writer
from forebay.act.control.service.live_state import EventRecord, Live, checkpoint, load
from forebay.decide.grants import commands as co
from forebay.decide.grants.codec import from_line
from forebay.decide.grants.control import Control
from forebay.history.store import Store, journal, open_store
from forebay.history.store.journal import Entry, append_entries, read_after
from forebay.model.errors import BadInput, UserError
from support.grants import USER, agent, ask, digest_of, disk, fold, grant_id

NODE = co.Register(caller=agent("n"), node="n", network_bandwidth=1e10, disks=(disk("d", 1000),), volumes=())


def request(number: int, size: int = 10) -> co.Request:
    return co.Request(caller=USER, ask=ask(number, size))


def run(store: Store, work: Callable[[Writer], Awaitable[Any]], **more: Any) -> Any:
    """Do some work with a writer whose clock stands still, then stop it."""

    async def main() -> Any:
        heard: list[EventRecord] = []
        writer = Writer(store, heard.extend, clock=lambda: 50.0, **more)
        await writer.start()
        try:
            return await work(writer)
        finally:
            await writer.stop()

    return asyncio.run(main())


def journal_of(store: Store) -> list[str]:
    with store.open_reader() as connection:
        return [entry.line for entry in read_after(connection, 0)]


def folded(store: Store) -> str:
    return digest_of(fold(from_line(line) for line in journal_of(store)))


def test_an_answer_comes_only_when_it_is_written(store: Store) -> None:
    async def work(writer: Writer) -> None:
        for command in (NODE, request(1)):
            happened = await writer.do(command)
            assert journal_of(store)[-len(happened) :] == [one.entry.line for one in happened]
        assert digest_of((await writer.now()).control) == folded(store)

    run(store, work)


def test_commands_that_come_together_are_written_together(store: Store) -> None:
    async def work(writer: Writer) -> None:
        await writer.do(NODE)
        before = writer.timings.batches
        await asyncio.gather(*(writer.do(request(number)) for number in range(40)))
        assert writer.timings.batches - before < 40
        live = await writer.now()
        assert len(live.control.tables.grants) == 40
        assert digest_of(live.control) == folded(store)

    run(store, work)


def test_a_command_that_makes_no_sense_disturbs_nobody(store: Store) -> None:
    async def work(writer: Writer) -> None:
        await writer.do(NODE)
        wrong = co.Release(caller=USER, grant=grant_id(99))
        found = await asyncio.gather(
            writer.do(request(1)), writer.do(wrong), writer.do(request(2)), return_exceptions=True
        )
        assert isinstance(found[1], UserError)
        assert set((await writer.now()).control.tables.grants) == {grant_id(1), grant_id(2)}

    run(store, work)


def test_where_the_store_fails_nothing_happened_and_the_next_request_goes_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(connection: Any, entries: Sequence[Entry]) -> None:
        append_entries(connection, entries)
        raise BadInput("journal.db", "the disk is full")

    async def work(writer: Writer) -> None:
        await writer.do(NODE)
        before = journal_of(store)
        monkeypatch.setattr(journal, "append_entries", full)
        with pytest.raises(Unavailable, match="the disk is full"):
            await writer.do(request(1))
        assert journal_of(store) == before
        assert not (await writer.now()).control.tables.grants
        monkeypatch.undo()
        await writer.do(request(1))
        live = await writer.now()
        assert list(live.control.tables.grants) == [grant_id(1)]
        assert digest_of(live.control) == folded(store)

    run(store, work)


def test_where_a_commit_held_but_was_not_told_the_same_key_finds_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module._Transaction.finish

    def cut(self: Any, entries: Sequence[Entry]) -> None:
        real(self, entries)
        raise OSError("the connection was lost")

    async def work(writer: Writer) -> None:
        await writer.do(NODE)
        monkeypatch.setattr(module._Transaction, "finish", cut)
        with pytest.raises(Unavailable):
            await writer.do(request(1))
        monkeypatch.undo()
        assert await writer.do(request(1)) == []
        assert digest_of((await writer.now()).control) == folded(store)

    run(store, work)


def test_two_writers_of_one_journal_grant_nothing_twice(store: Store) -> None:
    """Both are asked for all of the disk, again and again, and see what the other wrote."""

    async def main() -> None:
        first, second = (Writer(store, lambda _: None, clock=lambda: 50.0) for _ in range(2))
        for writer in (first, second):
            await writer.start()
        await first.do(NODE)
        asks = [(first, second)[number % 2].do(request(number, 300)) for number in range(12)]
        await asyncio.gather(*asks)
        for writer in (first, second):
            await writer.look()
            live = await writer.now()
            states = [grant.state.value for grant in live.control.tables.grants.values()]
            assert (states.count("making"), states.count("queued")) == (3, 9)
            assert digest_of(live.control) == folded(store)
        for writer in (first, second):
            await writer.stop()

    asyncio.run(main())


def test_who_waits_for_a_state_that_is_being_read_again_sees_what_was_written_before_they_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, go_on = threading.Event(), threading.Event()

    def fail(*_: Any) -> None:
        raise OSError("the connection was lost")

    def slow(store: Store) -> Live:
        live = load(store)
        read.set()
        go_on.wait(60)
        return live

    async def work(other: Writer) -> None:
        writer = Writer(store, lambda _: None, clock=lambda: 50.0)
        await writer.start()
        await other.do(NODE)
        with monkeypatch.context() as broken:
            broken.setattr(journal, "append_entries", fail)
            with pytest.raises(Unavailable):
                await writer.do(request(1))
        monkeypatch.setattr(module, "load", slow)
        first = asyncio.create_task(writer.now())
        await asyncio.to_thread(read.wait, 60)
        await other.do(request(2))
        second = asyncio.create_task(writer.now())
        await asyncio.sleep(0)
        go_on.set()
        await first
        assert grant_id(2) in (await second).control.tables.grants
        await writer.stop()

    run(store, work)


def test_a_checkpoint_is_the_state_and_is_made_while_others_work(store: Store) -> None:
    async def work(writer: Writer) -> None:
        await writer.do(NODE)
        for number in range(60):
            await writer.do(request(number))
        live = await writer.now()
        number, text = await checkpoint(live)
        assert (number, json.loads(text)["control"]) == (live.last, live.control.document())
        assert json.loads(text)["changed"] == live.changed

    run(store, work, every=20)
    restored = load(store)
    assert digest_of(restored.control) == folded(store)
    assert len(restored.recent) < restored.last


def test_a_second_checkpoint_has_what_is_new_and_not_what_is_gone() -> None:
    live = Live()
    steps: list[tuple[co.Command, float]] = [(NODE, 0.0), (request(1), 1.0), (request(2), 1.0)]
    gone = co.Gone(caller=agent("n"), volume=f"{grant_id(1)}.0", disk="d", number=1)
    forget = [(co.Release(caller=USER, grant=grant_id(1)), 2.0), (gone, 3.0), (co.Tick(caller=co.SERVICE), 1e8)]
    for command, at in steps:
        live.note_done(live.control.do(command, at))
    asyncio.run(checkpoint(live))
    for command, at in [*forget, (request(3), 1e8)]:
        live.note_done(live.control.do(command, at))
    number, text = asyncio.run(checkpoint(live))
    document = json.loads(text)
    assert number == live.last
    assert grant_id(1) not in document["control"]["grants"]
    assert grant_id(3) in document["control"]["grants"]
    assert digest_of(Control.from_document(document["control"])) == digest_of(live.control)


def test_who_asks_alone_is_not_made_to_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    async def work(writer: Writer) -> None:
        await writer.do(NODE)
        for number in range(5):
            await writer.do(request(number))
        assert slept == []
        await asyncio.gather(*(writer.do(request(number)) for number in range(5, 8)))
        await writer.do(request(8))
        assert slept != []

    monkeypatch.setattr(asyncio, "sleep", noted)
    run(store, work)


def test_a_checkpoint_has_all_tables() -> None:
    _, text = asyncio.run(checkpoint(Live()))
    assert json.loads(text)["control"].keys() == Live().control.document().keys()


def test_a_journal_that_is_cut_off_inside_a_line_is_told(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "journal.db")) as store:
        with store.open_writer() as connection:
            append_entries(connection, [Entry(1, 0.0, "", '{"v":1,"kind":"Swe')])
        with pytest.raises(BadInput, match="journal, number 1: is not valid JSON; the journal may be cut off here"):
            load(store)
