"""Finds what a request for names is about: here, or at another server (folder_moves.py)."""

import errno
import stat
from collections.abc import Iterable
from typing import NamedTuple

from forebay.act.forward.data.folder_records import Detour, Elsewhere, EmptyFolder
from forebay.act.forward.data.name_database import REMOVED, NameStore, Node
from forebay.act.forward.data.paths import split_path
from forebay.act.forward.data.permissions import LAYER, SEARCH, check_access, system_error
from forebay.act.forward.data.sole_leases import SoleLeases
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import LEASED_NAMES, Caller


class Place(NamedTuple):
    """Where a request leads: a folder, a name in it, and what has this name. Without a name, the node itself."""

    folder: Node
    name: bytes
    node: Node | None


class NamePlaces:
    """The nodes of server `index`. The folders that are `_leaving` it are out of use."""

    def __init__(self, store: NameStore, index: int, leases: SoleLeases) -> None:
        self._store, self._index, self._leases = store, index, leases
        self._leaving = set(store.list_leaving())

    def _by_id(self, id_: int) -> Node:
        """Read the node with this id; raises ESTALE if it does not exist any more, and Elsewhere if it is not here."""
        node = self._read_known(id_)
        if node.away > 0:
            raise self._refer(node)
        return node

    def _admit_by_id(self, id_: int, caller: Caller) -> Node:
        """As `_by_id`; raises Conflict if a mount other than the caller's has the node alone."""
        node = self._by_id(id_)
        self._leases.admit(caller.holder, id_, by_id=not node.is_folder)
        return node

    def _read_known(self, id_: int) -> Node:
        """The node with this id; what the folder holds may be away."""
        node = self._store.read(id_)
        if node is None and self._index:
            raise Elsewhere(Detour())
        if node is None or node.links == REMOVED:
            raise system_error(errno.ESTALE)
        if self._leaving and node.links > 0 and folder_of(node) in self._leaving:
            raise self._pull(folder_of(node))
        return node

    def _refer(self, node: Node, path: Iterable[bytes] = (), leased: int = 0) -> Elsewhere:
        """Lead a request to the server that has what is in a folder, and the path from there."""
        attributes, leases = self._store.attributes(node.id), self._leases.hand_over((node.id,))
        empty = EmptyFolder(node=node, attributes=attributes, leases=leases)
        rest = b"/".join(path)
        return Elsewhere(Detour(folder=node.id, server=node.away, path=rest, leased=leased, empty=empty))

    def _pull(self, *folders: int) -> Elsewhere:
        """Have server 0 take over folders of this server before it carries out the request."""
        return Elsewhere(Detour(pull=tuple((folder, self._index) for folder in folders)))

    def _find(self, request: payloads.PathRequest) -> Node:
        node = self._locate(request).node
        if node is None:
            raise system_error(errno.ENOENT)
        return node

    def _locate(self, request: payloads.PathRequest) -> Place:
        return self._walk(request.at, request.path, caller_of(request))

    def _locate_entry(self, request: payloads.PathRequest) -> Place:
        """The place of a name whose removal is requested."""
        return self._walk(request.at, request.path, caller_of(request), entries=True)

    def _locate_both(self, request: payloads.TwoNamesRequest, *, exists: bool = False) -> tuple[Place, Place]:
        """The two places of a request; raises Elsewhere unless they are in folders that can be changed in one step.

        If the first one `exists`, raises ENOENT if it does not.
        """
        caller, places, detours = caller_of(request), [], []
        for at, path in ((request.at, request.path), (request.to_at, request.to)):
            try:
                places.append(self._walk(at, path, caller, entries=True))
            except Elsewhere as elsewhere:
                if self._index and not places:
                    raise
                detours.append(elsewhere.detour)
            except OSError:
                if not detours:
                    raise
                break  # the first place may be wrong too, which counts then
            if exists and places and places[0].node is None:
                raise system_error(errno.ENOENT)
        if self._index:
            folders = {place.folder.id if place.name else folder_of(place.folder) for place in places}
            if detours or len(folders) > 1:
                raise self._pull(*folders)
            return places[0], places[1]
        if len({detour.folder for detour in detours}) == 1 and len(detours) == 2:
            detours[0].to = detours[1].path
            raise Elsewhere(detours[0])
        away = [(place.node.id, place.node.away) for place in places if place.node is not None and place.node.away > 0]
        away += [(detour.folder, detour.server) for detour in detours]
        if away:
            raise Elsewhere(Detour(pull=tuple(away)))
        return places[0], places[1]

    def _walk(self, at: int, path: bytes, caller: Caller, *, entries: bool = False) -> Place:
        """Follow a path. With `entries`, a name at its end is all that counts, wherever what it names may be.

        Raises Conflict if a mount other than the caller's has any node on the way alone.
        """
        node: Node | None = self._read_known(at)
        assert node is not None
        admit, holder = self._leases.admit, caller.holder
        admit(holder, at, by_id=not node.is_folder)
        folder, name = node, b""
        names = split_path(path)
        for done, name in enumerate(names):
            if node is None:
                raise system_error(errno.ENOENT)
            if node.away > 0:
                raise self._refer(node, names[done:])
            if not node.is_folder:
                raise system_error(errno.ELOOP if stat.S_ISLNK(node.mode) else errno.ENOTDIR)
            if caller.uid:
                check_access(caller, node, SEARCH)
            folder, node = node, self._store.find(node.id, name)
            if node is not None:
                admit(holder, node.id)
        if node is not None and node.away > 0 and not entries:
            leased = bool(name) and caller.holder and self._leases.grant(caller.holder, folder.id)
            raise self._refer(node, leased=LEASED_NAMES if leased else 0)
        return Place(folder, name, node)


def folder_of(node: Node) -> int:
    """The folder that a node of another server than 0 belongs to."""
    return node.id if node.is_folder else node.parent


def caller_of(request: payloads.PathRequest) -> Caller:
    return request.caller or LAYER
