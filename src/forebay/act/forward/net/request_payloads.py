"""Which payload each kind of request carries."""

from forebay.act.forward.net.payloads import (
    AllocateRequest,
    AttributeRequest,
    AttributesRequest,
    LayoutRequest,
    LeaseRequest,
    LinkRequest,
    ListRequest,
    LockRequest,
    MakeRequest,
    MkdirRequest,
    NodeList,
    OnceRequest,
    OpenFiles,
    OpenRequest,
    Payload,
    PlaceRequest,
    RenameRequest,
    SetAttributeRequest,
    StatusRequest,
)
from forebay.act.forward.net.sole_payloads import AddRequest, AloneRequest, RemoveRequest
from forebay.act.forward.net.wire import Bytes, Kind, unpack_as

REQUESTS: dict[int, type[Payload]] = {
    Kind.OPEN: OpenRequest,
    Kind.STAT: StatusRequest,
    Kind.ATTACH: StatusRequest,
    Kind.UNLINK: OnceRequest,
    Kind.READDIR: ListRequest,
    Kind.MKDIR: MkdirRequest,
    Kind.RMDIR: OnceRequest,
    Kind.ALONE: AloneRequest,
    Kind.REMOVE: RemoveRequest,
    Kind.ADD: AddRequest,
    Kind.RENAME: RenameRequest,
    Kind.LAYOUT: LayoutRequest,
    Kind.SETATTR: AttributesRequest,
    Kind.MAKE: MakeRequest,
    Kind.PLACE: PlaceRequest,
    Kind.LINK: LinkRequest,
    Kind.GETXATTR: AttributeRequest,
    Kind.SETXATTR: SetAttributeRequest,
    Kind.ALLOCATE: AllocateRequest,
    Kind.LOCK: LockRequest,
    Kind.LEASE: LeaseRequest,
    Kind.OPENED: OpenFiles,
    Kind.CLOSED: OpenFiles,
    Kind.HELD: OpenFiles,
    Kind.RECALLED: NodeList,
    Kind.CLOSE: NodeList,
    Kind.TOUCH: NodeList,
}
"""The payload that each kind of message carries; kinds that are not listed carry none."""


def read_request(kind: int, payload: Bytes) -> Payload | None:
    """Decode the request in a message's payload; raises BadMessage if it is malformed."""
    shape = REQUESTS.get(kind)
    if shape is None:
        return None
    return shape() if shape is StatusRequest and not len(payload) else unpack_as(shape, payload)
