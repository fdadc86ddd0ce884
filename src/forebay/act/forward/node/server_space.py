"""Which data servers have too little space to take new files."""

from collections.abc import Sequence

from forebay.act.forward.net.payloads import CreateRequest, Payload, Space
from forebay.act.forward.net.sole_payloads import AddRequest, AloneRequest
from forebay.act.forward.net.wire import Message, pack

_LEAST = 1 << 20
"""A server with less space, in bytes, gets no new files if others have more."""


class ServerSpace:
    """The servers that were full when their space was measured last."""

    def __init__(self) -> None:
        self._full: set[int] = set()

    def note(self, spaces: Sequence[Space]) -> None:
        """Note the space of all servers, in order."""
        self._full = {server for server, space in enumerate(spaces) if space.available < _LEAST}

    def name_unusable(self, message: Message, request: Payload | None, up: Sequence[bool]) -> None:
        """Name in a request for new files the servers that cannot take one: those that are full or not `up`."""
        if isinstance(request, CreateRequest):
            if self._full or not all(up):
                request.full = sorted(self._full)
                request.missing = [server for server, is_up in enumerate(up) if not is_up]
                message.payload = pack(request)
        elif self._full and isinstance(request, AloneRequest | AddRequest):
            request.full = tuple(self._full)
            message.payload = pack(request)
