"""The settings of a data server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from forebay.act.forward.data.objects import MOST_OPEN
from forebay.act.forward.net.address import Address
from forebay.act.forward.net.admission import TIMEOUT
from forebay.act.forward.net.payloads import LOCK_LEASE
from forebay.model.errors import BadInput
from forebay.model.layout import Layout

if TYPE_CHECKING:  # most servers emulate nothing, and start faster without numpy and numba
    from forebay.act.forward.data.emulation import Emulation

GRACE = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Server `index` of a layer of `servers`, with its objects in `folder`.

    The first server also keeps the names; `layout` is the default for new files (None: stripes of 1 MiB on every
    server). A peer has `timeout` seconds to prove itself. A removed file that was open at an I/O node exists for
    `grace` seconds after the node is lost, so that its clients can continue at another one. Without `locks`, programs
    get ENOLCK; a client loses its locks `lease` seconds after its last renewal.
    """

    folder: Path
    address: Address
    key: bytes
    timeout: float = TIMEOUT
    grace: float = GRACE
    locks: bool = True
    lease: float = LOCK_LEASE
    index: int = 0
    servers: int = 1
    most_open: int = MOST_OPEN
    layout: Layout | None = None
    emulation: Emulation | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.servers <= 4096:
            raise BadInput("servers", f"must be between 1 and 4096, not {self.servers}")
        if not 0 <= self.index < self.servers:
            raise BadInput("index", f"must be between 0 and {self.servers - 1}, not {self.index}")
