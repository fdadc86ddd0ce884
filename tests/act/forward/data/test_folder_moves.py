"""Folders whose names move between servers: killed after every step, with several I/O nodes, and against an oracle."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.act.forward.data.folder_moves import _NAMES
from forebay.act.forward.data.name_database import DATABASE
from forebay.act.forward.data.server_folder import ServerFolder
from forebay.act.forward.net.payloads import AttributeValues, ForgetList, MkdirRequest
from forebay.act.forward.net.wire import Kind, Message, pack, unpack_as
from forebay.act.forward.node.name_routes import NameRoutes
from forebay.act.forward.node.server_link import ServerLink
from support.examples import examples
from support.forward import scratch
from support.forward_names import outcome
from support.name_cluster import NameCluster, NameServer


@contextmanager
def cluster(**options: int) -> Iterator[NameCluster]:
    with scratch() as folder:
        made = NameCluster(folder, **options)
        yield made
        made.close()


async def create(names: NameCluster, path: bytes, node: int = 0) -> int:
    reply = await names.ask(Kind.OPEN, node=node, path=path, create=True, exclusive=True)
    return reply.read_status().file or 0


async def await_outcome(work: Coroutine[Any, Any, object]) -> int:
    """0, or the errno of an error."""
    try:
        await work
    except OSError as error:
        return error.errno or -1
    return 0


def away(names: NameCluster, folder: int) -> int:
    """The server that has a folder, as server 0 knows it."""
    node = names.servers[0].store.read(folder)
    assert node is not None
    return max(node.away, 0)


# Where names are


def test_folders_with_files_take_turns_on_all_servers_and_cost_one_message_then() -> None:
    async def run(names: NameCluster) -> None:
        places = []
        for i in range(6):
            folder = (await names.ask(Kind.MKDIR, path=b"%d" % i)).read_status().file or 0
            assert away(names, folder) == 0
            await create(names, b"%d/a" % i)
            places.append(away(names, folder))
            assert (await names.ask(Kind.OPEN, at=folder, path=b"b", create=True)).server == places[-1]
            assert (await names.ask(Kind.STAT, at=folder, path=b"b")).server == places[-1]
            assert (await names.ask(Kind.UNLINK, at=folder, path=b"b")).server == places[-1]
        assert sorted(places) == [0, 0, 1, 1, 2, 2]
        names.check()

    with cluster() as names:
        asyncio.run(run(names))


def test_servers_without_space_or_connection_get_no_folders() -> None:
    async def run(names: NameCluster) -> None:
        for i in range(4):
            folder = (await names.ask(Kind.MKDIR, path=b"%d" % i)).read_status().file or 0
            await names.ask(Kind.OPEN, path=b"%d/a" % i, create=True, full=[1], missing=[0])
            assert away(names, folder) == 2

    with cluster() as names:
        asyncio.run(run(names))


def test_inode_numbers_and_everything_else_stay_when_server_0_takes_a_folder_over() -> None:
    async def run(names: NameCluster) -> None:
        folder = (await names.ask(Kind.MKDIR, path=b"a", mode=0o2750)).read_status().file or 0
        for i in range(_NAMES + 5):  # more than a page
            await create(names, b"a/%04d" % i)
        for path, value in ((b"a", b"v"), (b"a/0003", b"w" * 5000)):
            await names.ask(Kind.SETXATTR, path=path, name=b"user.x", value=value)
        await names.ask(Kind.LINK, path=b"a/0000", to=b"a/second")
        await names.ask(Kind.SETATTR, path=b"a", uid=7, mtime=5)
        before = await names.list_all()
        assert away(names, folder) == 1
        await names.ask(Kind.MKDIR, path=b"a/below", node=1)
        await names.ask(Kind.RMDIR, path=b"a/below", node=1)
        await names.ask(Kind.SETATTR, path=b"a", mtime=5)
        assert away(names, folder) == 0
        names.check()
        for node in (0, 1):
            after = await names.list_all(node=node)
            before[b"a"].ctime = after[b"a"].ctime
            assert after == before
        for path, value in ((b"a", b"v"), (b"a/0003", b"w" * 5000)):
            reply = await names.ask(Kind.GETXATTR, path=path, name=b"user.x")
            assert unpack_as(AttributeValues, reply.payload).value == value

    with cluster() as names:
        asyncio.run(run(names))


# Killed


async def _use_folders(names: NameCluster) -> None:
    await names.ask(Kind.MKDIR, path=b"a")
    for name in (b"a/f1", b"a/f2"):
        await create(names, name)
    await names.ask(Kind.LINK, path=b"a/f1", to=b"a/f3")
    await names.ask(Kind.RENAME, path=b"a/f2", to=b"a/f4")
    await names.ask(Kind.MKDIR, path=b"a/sub", node=1)  # server 0 takes over a
    await create(names, b"a/sub/g", 1)
    await names.ask(Kind.RENAME, path=b"a/f4", to=b"a/sub/f4")  # and this one
    await names.ask(Kind.MKDIR, path=b"e")
    await create(names, b"e/x")
    await names.ask(Kind.UNLINK, path=b"e/x")
    await names.ask(Kind.RMDIR, path=b"e")
    await names.ask(Kind.MKDIR, path=b"h")
    await create(names, b"h/x")
    await names.ask(Kind.RENAME, path=b"h", to=b"a/h")


def test_killed_after_any_step_all_that_was_acknowledged_is_there_once() -> None:
    async def run(names: NameCluster, dies_after: int) -> int:
        names.dies_after = dies_after
        await _use_folders(names)
        steps, names.dies_after = names.steps, -1
        listing = await names.list_all(node=1)
        expected = b"a a/f1 a/f3 a/h a/h/x a/sub a/sub/f4 a/sub/g".split()
        assert sorted(listing) == expected, dies_after
        assert (listing[b"a"].links, listing[b"a/f1"].links, listing[b"a/f3"].links) == (4, 2, 2)
        names.check()
        return steps

    with cluster() as names:
        steps = asyncio.run(run(names, -1))
    assert steps > 100
    for dies_after in range(1, steps + 1):
        with cluster() as names:
            asyncio.run(run(names, dies_after))


class DyingLink:
    """A link of an I/O node that is killed after some messages."""

    sharded = True

    def __init__(self, server: NameServer, dies_now: Callable[[], bool]) -> None:
        self._server, self._dies_now = server, dies_now

    async def ask(self, request: Message, within: float) -> Message:
        if self._dies_now():
            raise ConnectionAbortedError(errno.ECONNABORTED, "the I/O node was killed")
        return await self._server.ask(request, within)


def test_an_io_node_that_is_killed_while_a_folder_moves_leaves_the_rest_to_the_next() -> None:
    async def run(names: NameCluster, most: int) -> bool:
        await names.ask(Kind.MKDIR, path=b"a")
        file = await create(names, b"a/f")
        sent = 0

        def dies_now() -> bool:
            nonlocal sent
            sent += 1
            return sent > most

        links = [DyingLink(server, dies_now) for server in names.servers]
        request = MkdirRequest(path=b"a/sub")
        node = NameRoutes(cast("list[ServerLink]", links), patience=1.0)
        end = await await_outcome(node.ask(Message(Kind.MKDIR, payload=pack(request)), request))
        assert await create(names, b"a/g", 1)
        listing = await names.list_all(node=1)
        assert listing[b"a/f"].file == file
        assert {*listing} - {b"a/sub"} == {b"a", b"a/f", b"a/g"}
        await names.ask(Kind.RENAME, path=b"a", to=b"b", node=1)
        names.check()
        return not end

    for most in range(20):
        with cluster() as names:
            if asyncio.run(run(names, most)):
                assert most > 4
                return
    raise AssertionError("the folder never moved")


# Several I/O nodes at a time


def test_files_created_while_the_folder_moves_are_all_there() -> None:
    async def run(names: NameCluster) -> None:
        await names.ask(Kind.MKDIR, path=b"a")
        await create(names, b"a/first")
        works = [create(names, b"a/%d" % i, i % 2) for i in range(40)]
        moves = [names.ask(Kind.MKDIR, path=b"a/sub%d" % i, node=i) for i in range(2)]
        await asyncio.gather(*works[:20], *moves, *works[20:])
        expected = {b"first", b"sub0", b"sub1", *(b"%d" % i for i in range(40))}
        for node in (0, 1):
            assert {name for name, _, _ in await names.names(b"a", node)} == expected
        names.check()

    with cluster() as names:
        asyncio.run(run(names))


@pytest.mark.parametrize("first", range(6))
def test_a_folder_is_removed_or_gets_a_file_but_not_both(first: int) -> None:
    async def later(work: Coroutine[Any, Any, object]) -> None:
        for _ in range(first):
            await asyncio.sleep(0)
        await work

    async def run(names: NameCluster) -> None:
        await names.ask(Kind.MKDIR, path=b"a")
        await create(names, b"a/x")
        folder = (await names.status(b"a", 1)).file
        await names.ask(Kind.UNLINK, path=b"a/x")
        removed, created = await asyncio.gather(
            await_outcome(names.ask(Kind.RMDIR, path=b"a")),
            await_outcome(later(names.ask(Kind.OPEN, node=1, at=folder, path=b"y", create=True))),
        )
        assert (removed, created) in ((0, errno.ESTALE), (errno.ENOTEMPTY, 0))
        assert [*(await names.list_all())] == ([b"a", b"a/y"] if removed else [])
        names.check()

    with cluster() as names:
        asyncio.run(run(names))


def test_an_open_file_without_a_name_stays_where_its_folder_was() -> None:
    async def run(names: NameCluster) -> None:
        await names.ask(Kind.MKDIR, path=b"a")
        file = await create(names, b"a/x")
        await create(names, b"a/y")
        reply = await names.ask(Kind.UNLINK, path=b"a/x")
        assert not unpack_as(ForgetList, reply.payload).forget  # it is open
        await names.ask(Kind.MKDIR, path=b"a/sub")
        status = await names.ask(Kind.STAT, node=1, file=file)
        assert (status.server, status.read_status().links) == (1, 0)
        assert [each for each, _ in names.servers[1].names.close_files("node", [(file, 1)]).forget] == [file]

    with cluster() as names:
        asyncio.run(run(names))


# Random operations, against a plain folder


def _make(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))


PLAIN: dict[Kind, Callable[..., Any]] = {
    Kind.OPEN: _make,
    Kind.MKDIR: os.mkdir,
    Kind.UNLINK: os.unlink,
    Kind.RMDIR: os.rmdir,
    Kind.RENAME: os.rename,
    Kind.LINK: os.link,
}
PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
ONE = st.tuples(st.sampled_from([Kind.OPEN, Kind.OPEN, Kind.MKDIR, Kind.UNLINK, Kind.RMDIR]), st.tuples(PATHS))
TWO = st.tuples(st.sampled_from([Kind.RENAME, Kind.LINK]), st.tuples(PATHS, PATHS))
DEATHS = st.one_of(st.none(), st.integers(1, 12))
STEPS = st.lists(st.tuples(st.integers(0, 1), DEATHS, st.one_of(ONE, TWO)), max_size=25)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS)
def test_random_operations_and_kills_give_what_a_plain_folder_gives(
    steps: list[tuple[int, int | None, tuple[Kind, tuple[str, ...]]]],
) -> None:
    async def run(names: NameCluster, plain: Path) -> None:
        for node, dies, (kind, paths) in steps:
            names.dies_after = names.steps + (dies or -names.steps - 1)
            fields: dict[str, Any] = dict(zip(("path", "to"), map(os.fsencode, paths), strict=False))
            fields |= {"create": True, "exclusive": True} if kind == Kind.OPEN else {}
            expected = outcome(PLAIN[kind], *(plain / path for path in paths))
            end = await await_outcome(names.ask(kind, node=node, **fields))
            was_killed = dies is not None and names.steps >= names.dies_after
            assert end == expected or (was_killed and not end), (kind, paths, end, expected)
        names.dies_after = -1
        for node in (0, 1):
            listing = {os.fsdecode(path): each.links for path, each in (await names.list_all(node=node)).items()}
            assert listing == {str(path.relative_to(plain)): path.stat().st_nlink for path in plain.rglob("*")}
        names.check()

    with cluster() as names, tempfile.TemporaryDirectory() as plain:
        asyncio.run(run(names, Path(plain)))


# Layers of earlier releases


def test_names_of_an_earlier_layer_stay_at_server_0(tmp_path: Path) -> None:
    identity = {"format": 2, "index": 0, "servers": 3}
    (tmp_path / "server.json").write_text(json.dumps(identity))
    (tmp_path / DATABASE).touch()
    for _ in range(2):
        folder = ServerFolder(tmp_path, 0, 3)
        folder.close()
        assert not folder.sharded
    assert json.loads((tmp_path / "server.json").read_text()) == identity | {"format": 3, "sharded": False}
