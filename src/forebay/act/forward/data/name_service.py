"""The names of a data server, as its I/O nodes use them: what they have open, and who waits for the end of leases."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import count
from time import monotonic

from forebay.act.forward.data.checkpoints import Checkpoints
from forebay.act.forward.data.disk_space import DiskSpace
from forebay.act.forward.data.folder_records import Elsewhere
from forebay.act.forward.data.leases import Conflict
from forebay.act.forward.data.name_database import DATABASE, NameStore
from forebay.act.forward.data.name_requests import NAME_KINDS, Names
from forebay.act.forward.data.objects import Objects
from forebay.act.forward.data.old_names import convert_names
from forebay.act.forward.data.recalls import UNASKED, HolderFile, Recalls, Retry
from forebay.act.forward.data.settings import ServerSettings
from forebay.act.forward.data.sole_leases import SoleLeases
from forebay.act.forward.data.untrusted_tree import Tree
from forebay.act.forward.net.connection import Connection
from forebay.act.forward.net.payloads import ForgetList, LayoutFields, NodeList, OpenFiles, Payload
from forebay.act.forward.net.request_payloads import read_request
from forebay.act.forward.net.wire import ELSEWHERE, Kind, Message, answer_header, pack
from forebay.model.errors import BadInput, why
from forebay.model.layout import Layout

_A_MOMENT = 0.02
Handler = Callable[[Message], Payload | None]
"""Returns the answer's payload; raises OSError or BadMessage."""


class NameService:
    """The `handlers` carry out requests. `answer` sends what a handler returns; `receive` begins a request again."""

    def __init__(
        self,
        settings: ServerSettings,
        objects: Objects,
        space: DiskSpace,
        *,
        sharded: bool,
        answer: Callable[[Handler, Connection, Message], None],
        receive: Retry,
        counts: Counter[str],
    ) -> None:
        self._loop, self._index, self._servers = asyncio.get_running_loop(), settings.index, settings.servers
        self._objects, self._answer, self._receive, self._counts = objects, answer, receive, counts
        self._space = space
        self._grace, self._graced = settings.grace, monotonic() + settings.grace
        self._closed = False
        self._holders: dict[Connection, str] = {}
        self._numbers = count()
        self._removed: set[int] = set()  # files without a name whose only objects are to be removed
        with ExitStack() as held:
            holders = HolderFile(Tree(settings.folder), space)
            leases = SoleLeases(holders.former, former_soles=holders.former_soles, record=holders.write_soles)
            self._recalls = held.enter_context(closing(Recalls(self._loop, leases, holders)))
            self._names = held.enter_context(closing(self._open_names(settings, leases, sharded=sharded)))
            self._checkpoints = held.enter_context(closing(Checkpoints(self._names)))
            self._release = held.pop_all().close
        self.descriptors_to_sync = self._names.descriptors_to_sync
        names: dict[int, Callable[[Message, str], Payload | None]] = dict.fromkeys(NAME_KINDS, self._names.answer)
        names |= {Kind.PENDING: self._list_pending, Kind.OPENED: self._note_open, Kind.CLOSED: self._note_closed}
        names |= {Kind.IMPORT: self._import, Kind.HELD: self._note_held}
        self.handlers: dict[int, Callable[[Connection, Message], None]] = {
            **{kind: partial(self._answer_names, handler) for kind, handler in names.items()},
            Kind.WATCH: self._watch,
            Kind.RECALLED: self._end_leases,
        }

    def close(self) -> None:
        self._closed = True
        self._release()

    def lose(self, connection: Connection) -> None:
        """Keep open for a while what was open through a lost connection."""
        self._recalls.lose(connection)
        if not self._closed:
            self._loop.call_later(self._grace, self._drop_holder, self._holder(connection))
            del self._holders[connection]

    def _open_names(self, settings: ServerSettings, leases: SoleLeases, *, sharded: bool) -> Names:
        layout = settings.layout or Layout(count=settings.servers)
        try:
            if not settings.index:
                convert_names(settings.folder)
            is_known = (settings.folder / DATABASE).exists()
            names = Names(
                NameStore(settings.folder, space=self._space), settings.servers, layout,
                leases=leases, index=settings.index, objects=self._objects, sharded=sharded,
                known_at=self._graced if is_known else 0.0,
            )  # fmt: skip
        except OSError as error:
            raise BadInput(str(settings.folder), f"cannot open the names: {why(error)}") from None
        for file, fields in names.list_pending(known=True).forget:
            self._objects.forget(file)  # the next I/O node removes the other servers' objects
            if self._has_all_of(fields):
                names.forget(file)
        return names

    def _answer_names(
        self, handler: Callable[[Message, str], Payload | None], connection: Connection, message: Message
    ) -> None:
        if self._checkpoints.hold(partial(self._repeat, connection, message)):
            message.detach()
            return
        holder = self._holder(connection)
        self._counts["names"] += 1
        try:
            self._answer(lambda request: self._remove_own(handler(request, holder)), connection, message)
        except Conflict as conflict:
            self._recalls.wait(conflict, self._receive, connection, message)
        except Elsewhere as elsewhere:
            message.release()
            detour = pack(elsewhere.detour)
            connection.send([answer_header(message, status=ELSEWHERE, length=len(detour)), detour])
        self._checkpoints.begin_if_due()

    def _remove_own(self, answer: Payload | None) -> Payload | None:
        """Remove files soon that have only one object, on this server; I/O nodes hear of the others."""
        if not isinstance(answer, ForgetList) or not answer.forget:
            return answer
        files = [file for file, fields in answer.forget if self._has_all_of(fields)]
        if files and not self._removed:
            self._loop.call_later(_A_MOMENT, self._remove_objects)
        self._removed.update(files)
        others = [each for each in answer.forget if each[0] not in self._removed]
        return ForgetList(forget=others, folder=answer.folder)

    def _has_all_of(self, objects: LayoutFields) -> bool:
        count, _, start = objects
        return count == 1 and start % self._servers == self._index

    def _remove_objects(self) -> None:
        """What fails stays in the list of pending files, which an I/O node asks for from time to time."""
        removed, self._removed = self._removed, set()
        if self._closed:
            return
        gone = []
        for file in removed:
            with suppress(OSError):
                self._objects.forget(file)
                gone.append(file)
        with suppress(OSError):
            self._names.forget(*gone)
        self._space.keep_spare()

    def _repeat(self, connection: Connection, message: Message) -> None:
        if not connection.closed:
            self._receive(connection, message)

    def _list_pending(self, _: Message, __: str) -> Payload | None:
        """The files to remove. After a start, I/O nodes and clients first have time to say what they have open."""
        return self._names.list_pending(known=monotonic() < self._graced)

    def _holder(self, connection: Connection) -> str:
        """The name under which files are open through a connection: an I/O node that connects again gets a new one."""
        if connection not in self._holders:
            self._holders[connection] = f"{connection.peer.name} {next(self._numbers)}"
        return self._holders[connection]

    def _note_open(self, message: Message, holder: str) -> Payload | None:
        return self._names.replace_files(holder, _read_files(message))

    def _note_closed(self, message: Message, holder: str) -> Payload | None:
        return self._names.close_files(holder, _read_files(message))

    def _note_held(self, message: Message, holder: str) -> None:
        self._names.hold_files(holder, _read_files(message))

    def _import(self, message: Message, _: str) -> Payload | None:
        """Take over a folder, and ask all I/O nodes which of its files they have open; until then, all seem open."""
        holder, arrived = self._names.import_page(message)
        if arrived:
            payload = pack(NodeList(nodes=arrived))
            for connection in self._holders:
                if not connection.closed:
                    connection.send([Message(Kind.ARRIVED, tag=UNASKED, payload=payload).header(), payload])
            self._loop.call_later(self._grace, self._drop_holder, holder)
        return None

    def _drop_holder(self, holder: str) -> None:
        """Forget what was open through a lost connection. I/O nodes find the files to remove in the pending list."""
        if not self._closed:
            self._names.replace_files(holder, ())

    # Leases

    def _watch(self, connection: Connection, message: Message) -> None:
        self._recalls.watch(connection, message)
        self._answer(lambda _: None, connection, message)

    def _end_leases(self, connection: Connection, message: Message) -> None:
        request = read_request(message.kind, message.payload)
        assert isinstance(request, NodeList)
        self._recalls.give_up(message, request.nodes)
        self._answer(lambda _: None, connection, message)


def _read_files(message: Message) -> list[tuple[int, int]]:
    request = read_request(message.kind, message.payload)
    assert isinstance(request, OpenFiles)
    return request.files
