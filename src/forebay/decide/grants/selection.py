"""The disks that a request may go to, as a platform of their own: a policy sees these and no others."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from forebay.decide.grants.machine import LiveDisk, LiveNode
from forebay.decide.grants.space import Space
from forebay.decide.storage.policy_memory import TURN, Turn, turn
from forebay.model.ledger import NODE, SERVER, Ledger
from forebay.model.system import Node, Platform, Server

_CHANGING = ["root", "level", "live", "latest", "next", "ahead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """Whose turn it is after a decision: what the storage policy remembers until the next."""

    server: int = 0
    node: int = -1
    failed: int = 0
    current: str = ""  # a disk's key; "" for the first
    chance: int = 0
    probed: tuple[tuple[str, int], ...] = ()  # the nodes whose count of probes has changed


@dataclass(frozen=True, slots=True)
class Selection:
    """Disks, grouped by their nodes, and the arrays in which a policy finds them."""

    keys: tuple[str, ...]
    names: tuple[str, ...]  # of their nodes
    orders: tuple[tuple[int, int], ...]  # of node and disk, ascending
    numbers: Any
    is_all: bool  # whether these were all disks, in their order
    nodes: Any
    servers: Any
    of_node: Any
    platform: Platform
    scratch: Turn

    def ledger(self, space: Space, *, ours: bool) -> Ledger:
        """These disks alone, until `put_back`; where all are meant, our own policies may have the space's."""
        disks = space.ledger.disks
        if not (ours and self.is_all and disks.size == self.numbers.size):
            disks = disks.take(self.numbers)  # a tenth of the time that `copy` or an index takes
        disks["node"] = self.of_node
        return space.ledger._replace(disks=disks, nodes=self.nodes, servers=self.servers)

    def put_back(self, space: Space, ledger: Ledger) -> None:
        """What was folded or booked meanwhile is the space's too."""
        if ledger.disks is not space.ledger.disks:
            for column in _CHANGING:
                space.ledger.disks[column][self.numbers] = ledger.disks[column]


def select(disks: Sequence[LiveDisk], nodes: dict[str, LiveNode], space: Space) -> Selection | None:
    """A selection of these disks; None if there are none."""
    if not disks:
        return None
    ordered = sorted(disks, key=lambda disk: (nodes[disk.node].order, disk.order))
    members = tuple(
        Node(
            name=name,
            network_bandwidth=nodes[name].network_bandwidth,
            disks=tuple(disk.spec.as_disk() for disk in disks),
            fields=nodes[name].fields,
        )
        for name, disks in groupby(ordered, key=lambda disk: disk.node)
    )
    records = np.zeros(len(members), dtype=NODE)
    records["network_bandwidth"] = [node.network_bandwidth for node in members]
    records["capacity"] = [sum(disk.capacity for disk in node.disks) for node in members]
    records["disks"] = [len(node.disks) for node in members]
    records["first"] = np.cumsum(records["disks"]) - records["disks"]
    server = np.zeros(1, dtype=SERVER)
    server["nodes"] = records.size
    numbers = np.array([space.numbers[disk.key] for disk in ordered])
    return Selection(
        keys=tuple(disk.key for disk in ordered),
        names=tuple(node.name for node in members),
        orders=tuple((nodes[disk.node].order, disk.order) for disk in ordered),
        numbers=numbers,
        is_all=np.array_equal(numbers, np.arange(space.ledger.disks.size)),
        nodes=records,
        servers=server,
        of_node=np.repeat(np.arange(records.size), records["disks"]),
        platform=Platform(name="live", servers=(Server(name="live", nodes=members),)),
        scratch=turn(space.ledger._replace(disks=space.ledger.disks[numbers], nodes=records), seed=0),
    )


def load_turn(selection: Selection, turned: Turned, counts: dict[str, int], first: int) -> Turn:
    """The policy's memory in terms of this selection; `first` is the disk that it begins with."""
    state = np.array([(turned.server, turned.node, turned.failed, first, False)], dtype=TURN)
    probed = np.zeros(len(selection.names), dtype=np.int64)
    if counts:  # only some policies probe
        probed[:] = [counts.get(name, 0) for name in selection.names]
    return selection.scratch._replace(state=state, disk=probed, chance=np.array([turned.chance], dtype=np.uint64))


def save_turn(selection: Selection, memory: Turn, before: Any) -> Turned:
    """What the policy remembers now; `before` are the counts of probes that it began with."""
    server, node, failed, current, _ = memory.state.item()
    probed = () if (memory.disk == before).all() else np.flatnonzero(memory.disk != before)
    return Turned(
        server=server,
        node=node,
        failed=failed,
        current=selection.keys[current] if 0 < current < len(selection.keys) else "",
        chance=memory.chance.item(),
        probed=tuple((selection.names[at], int(memory.disk[at])) for at in probed),
    )
