"""The documents that the service returns, shared by API, client, command line and page.

The description of the API repeats the meaning of each field. Times are seconds since 1970, durations seconds,
sizes bytes, bandwidths bytes per second. A dict in an annotation adds keywords of JSON Schema.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypedDict

from forebay.decide.grants.machine import Role
from forebay.model.grant import State, VolumeState
from forebay.model.reasons import Reason

Bytes = Annotated[int, {"minimum": 0, "exclusiveMaximum": 2**63}]
Count = Bytes
Moment = Annotated[float, {"minimum": -1e12, "maximum": 1e12}]
Seconds = Annotated[float, {"minimum": 0, "maximum": 1e12}]
Rate = Annotated[float, {"minimum": 0}]
Id = Annotated[int, {"minimum": -1, "maximum": 2**32 - 2}]
Mode = Annotated[int, {"minimum": 0, "maximum": 0o7777}]
GrantId = Annotated[str, {"pattern": "^[0-9a-f]{32}$"}]
GrantState = Annotated[str, {"enum": [state.value for state in State]}]
StateOfVolume = Annotated[str, {"enum": [state.value for state in VolumeState]}]
ReasonCode = Annotated[str, {"enum": [reason.value for reason in Reason]}]
Fields = Mapping[str, object]


class StagingDocument(TypedDict):
    """The latest copies of files into or out of a grant."""

    key: Annotated[str, "The caller's own name for it; empty: there is none."]
    way: Annotated[str, "`in` or `out`."]
    pairs: Annotated[list[list[str]], "A source and a target each."]
    state: Annotated[str, "`running`, `done` or `failed`; empty: there is none."]
    because: Annotated[str, "Why it failed."]
    said: Annotated[str, "Its progress or its result as a sentence."]
    files: Annotated[Count, "Files that were copied."]
    bytes: Annotated[Bytes, "Bytes that were copied."]
    total: Annotated[Count, "How many files there are; 0: unknown."]
    nodes: Annotated[list[str], "The storage nodes that copy."]
    begun: Annotated[Moment, "When it began."]
    moved: Annotated[Moment, "When something was copied last."]
    ended: Annotated[Moment, "When it ended; 0: it runs."]
    limit: Annotated[Seconds, "The staging fails if no data has moved for this long."]


class VolumeDocument(TypedDict):
    """The space of a grant on one disk."""

    number: Annotated[Count, "Its number in the grant, from 0."]
    name: Annotated[str, "Its name."]
    node: Annotated[str, "The node that it is on."]
    disk: Annotated[str, "The disk."]
    size: Annotated[Bytes, "Bytes."]
    state: Annotated[StateOfVolume, "Its state."]
    path: Annotated[str, "Where it is mounted."]
    device: Annotated[str, "Its block device, if it is exposed."]
    settings: Annotated[dict[str, str], "How to reach it, if it is exposed."]
    because: Annotated[str, "Why it is in this state."]


class GrantSummary(TypedDict):
    """A grant without its volumes."""

    id: Annotated[GrantId, "Its name."]
    state: Annotated[GrantState, "Its state."]
    size: Annotated[Bytes, "Requested bytes."]
    seconds: Annotated[Seconds, "Requested duration."]
    uid: Annotated[Id, "The owner's uid."]
    user: Annotated[str, "The owner's name."]
    job: Annotated[str, "The batch job that it is for."]
    tier: Annotated[str, "The requested kind of disks."]
    because: Annotated[str, "Why it is in this state, as a sentence."]
    reason: Annotated[ReasonCode, "Why it is in this state, as a code; empty: none is recorded."]
    policy: Annotated[str, "The policy that decided."]
    position: Annotated[Count, "Its place in the queue, from 1; 0: it does not wait."]
    tried: Annotated[Count, "How often the request was retried."]
    expected: Annotated[Moment, "When space is expected; 0: unknown."]
    staging: Annotated[StagingDocument | None, "The latest copies of files into or out of it."]
    marks: Annotated[list[str], "Problems that its owner should know, such as a silent node or stagings that failed."]
    created: Annotated[Moment, "When it was requested."]
    changed: Annotated[Moment, "When it last changed."]


class GrantDocument(GrantSummary):
    """A grant with its volumes and its place in the queue."""

    start: Annotated[Moment, "When it begins."]
    until: Annotated[Moment, "When it ends."]
    gid: Annotated[Id, "The owner's group."]
    key: Annotated[str, "The caller's own name for the request."]
    fields: Annotated[dict[str, str], "Fields that its disks must have."]
    type: Annotated[str, "`volumes`, or `shared` for a file system that several nodes can mount."]
    servers: Annotated[Count, "The number of data servers of a shared file system; 0: none."]
    equal: Annotated[bool, "Whether all parts of a shared file system must have the same size."]
    expose: Annotated[str, "How other nodes reach its volumes; empty: they are mounted on their node."]
    path: Annotated[
        str, "Where it is mounted; with several volumes, the path of the first. A shared one: its path on every node."
    ]
    paths: Annotated[list[str], "Where each volume is mounted; the only path of a shared file system."]
    volumes: Annotated[list[VolumeDocument], "Its volumes."]


class GrantList(TypedDict):
    """Some grants, in the order of their requests."""

    grants: Annotated[list[GrantDocument], "The grants."]
    more: Annotated[bool, "Whether there are more; to get them, set `after`."]


class StoryLine(TypedDict):
    """An event of a grant, or a line of an agent's log about it."""

    time: Annotated[Moment, "When."]
    what: Annotated[str, "The kind of event, or `log` for a line of an agent's log."]
    number: Annotated[Count, "Its number in the journal; 0 for a line of a log."]
    node: Annotated[str, "The node whose agent wrote it; empty: the service."]
    level: Annotated[str, "How serious."]
    text: Annotated[str, "The event as a sentence."]
    more: Annotated[dict[str, object], "The other fields of the event."]


class DiskDocument(TypedDict):
    """A disk of a storage node."""

    name: Annotated[str, "Its name on its node."]
    capacity: Annotated[Bytes, "Bytes that can be granted in all."]
    used: Annotated[Bytes, "Bytes that volumes occupy."]
    read_bandwidth: Annotated[Rate, "How fast it reads."]
    write_bandwidth: Annotated[Rate, "How fast it writes."]
    identity: Annotated[str, "Identifies the disk, such as a serial number."]
    fields: Annotated[Fields, "What users can ask for."]
    there: Annotated[bool, "Whether its node still has it."]
    drained: Annotated[bool, "Whether it is drained: it gets no new grants."]
    unseen: Annotated[str, "Why its agent cannot read it at present; empty if it can."]
    suspended: Annotated[str, "Why it is suspended, after volumes failed on it; empty if it is not."]


class NodeDocument(TypedDict):
    """A storage node with its disks."""

    name: Annotated[str, "Its name."]
    silent: Annotated[bool, "Whether its agent has stopped answering."]
    drained: Annotated[bool, "Whether it is drained: it gets no new grants."]
    network_bandwidth: Annotated[Rate, "Bandwidth of its network."]
    fields: Annotated[Fields, "What users can ask for."]
    report: Annotated[Count, "The number of its agent's last report."]
    doubted: Annotated[bool, "Whether its agent knows another journal; the service then removes nothing there."]
    disks: Annotated[list[DiskDocument], "Its disks."]


class ActionDocument(TypedDict):
    """What an agent must do with one volume."""

    kind: Annotated[Literal["make", "release"], "What to do."]
    volume: Annotated[str, "The volume."]
    disk: Annotated[str, "Its disk."]
    size: Annotated[Bytes, "Bytes."]
    uid: Annotated[Id, "The owner's uid."]
    gid: Annotated[Id, "The owner's group."]
    mode: Annotated[Mode, "Mode of its folder."]
    ceiling: Annotated[Rate, "Its highest bandwidth; 0: no limit."]
    expose: Annotated[str, "How other nodes reach it."]
    hosts: Annotated[list[str], "The hosts that may reach it."]
    key: Annotated[str, "The secret with which they reach it."]
    index: Annotated[Count, "The number of its data server, if it is part of a shared file system."]
    servers: Annotated[Count, "The number of data servers of that file system; 0 if the volume is not part of one."]


class CopyDocument(TypedDict):
    """What an agent must copy. It ends copies that are no longer listed."""

    grant: Annotated[GrantId, "The grant."]
    key: Annotated[str, "The staging."]
    way: Annotated[Literal["in", "out"], "Into the space, or out of it."]
    pairs: Annotated[list[list[str]], "A source and a target each."]
    uid: Annotated[Id, "The owner's uid: the agent copies with the owner's rights."]
    gid: Annotated[Id, "The owner's group."]
    volumes: Annotated[list[str], "The volumes on the node."]
    number: Annotated[Count, "The node's number among the nodes that copy."]
    nodes: Annotated[Count, "The number of these nodes."]
    servers: Annotated[list[str], "Addresses of the data servers of a shared file system."]
    places: Annotated[list[int], "The numbers of those on the volumes."]
    settle: Annotated[bool, "Whether all nodes have copied their files."]
    limit: Annotated[float, "Seconds after which the staging fails if nothing has moved."]
    secret: Annotated[str, "The key of the shared file system."]


class ActionList(TypedDict):
    """An agent's actions. It stores `seen` before it carries them out, and sends it with its next call."""

    actions: Annotated[list[ActionDocument], "What the agent must do."]
    copies: Annotated[list[CopyDocument], "What the agent must copy."]
    report: Annotated[Count, "The number of its last report that took effect."]
    mode: Annotated[str, "`enforce` or `shadow`."]
    seen: Annotated[str, "Identifies this journal."]


class StrayDocument(TypedDict):
    """A volume that no grant owns."""

    name: Annotated[str, "The volume's name."]
    grant: Annotated[str, "The grant that it was made for."]
    node: Annotated[str, "The node that it is on."]
    disk: Annotated[str, "The disk that it is on."]
    size: Annotated[Bytes, "Bytes."]
    uid: Annotated[Id, "The owner's uid; -1: unknown."]
    user: Annotated[str, "The owner's name, if the service's machine knows it."]
    since: Annotated[Moment, "When it was made; 0: unknown."]
    path: Annotated[str, "Where it is mounted."]
    why: Annotated[str, "Why it is still there."]
    kept: Annotated[bool, "Whether an administrator has to decide about it."]


class HealthDocument(TypedDict):
    """Whether the service works, and how much it manages."""

    status: Annotated[str, "`ready`, or what is wrong."]
    version: Annotated[str, "Forebay's version."]
    mode: Annotated[str, "`enforce` or `shadow`."]
    policy: Annotated[str, "The storage policy."]
    journal: Annotated[Count, "The number of the last event."]
    nodes: Annotated[Count, "Number of storage nodes."]
    silent: Annotated[Count, "Number of nodes that do not answer."]
    kept: Annotated[Count, "Number of volumes that wait for an administrator's decision."]


class RulesDocument(TypedDict):
    """The rules in force."""

    split: Annotated[Bytes, "Larger requests are split over several disks; 0: never."]
    tries: Annotated[Count, "How often a request without space is retried."]
    interval: Annotated[Seconds, "Seconds between tries."]
    longest: Annotated[Seconds, "The longest duration of a grant, in seconds."]
    ahead: Annotated[Seconds, "How many seconds before its start a grant can be requested."]
    remember: Annotated[Seconds, "For how many seconds ended grants are listed."]
    most: Annotated[Count, "Grants that a user may hold or have queued at once; 0: no limit."]
    shadow: Annotated[bool, "Whether the service decides without acting."]


class JournalEvent(TypedDict):
    """An event with its number."""

    number: Annotated[Count, "Its number."]
    event: Annotated[dict[str, object], "The event, as in the journal.", {"$ref": "#/components/schemas/Event"}]


class JournalDocument(TypedDict):
    """Some events of the journal, in order."""

    events: Annotated[list[JournalEvent], "The events."]
    last: Annotated[Count, "The number of the last of them."]


class TokenOwner(TypedDict):
    """The owner of a token."""

    name: Annotated[str, "Its name."]
    role: Annotated[Role, "What its owner may do."]
    uid: Annotated[Id, "The user's uid; -1 for others."]
    node: Annotated[str, "The node of an agent."]


class TokenDocument(TokenOwner):
    """A token, without its secret."""

    made: Annotated[Moment, "When it was created."]


class NewToken(TokenOwner):
    """A new token."""

    token: Annotated[str, "The token. The service shows it only once."]


class TierDocument(TypedDict):
    """The space on the open disks of a tier."""

    name: Annotated[str, "The tier; `any` stands for all tiers."]
    disks: Annotated[Count, "Disks that are open for new grants."]
    total: Annotated[Bytes, "Capacity of these disks."]
    free: Annotated[Bytes, "Free bytes on these disks."]
    largest: Annotated[Bytes, "The most free bytes on one disk."]


class FitDocument(TypedDict):
    """How the service would decide a request."""

    answer: Annotated[Literal["now", "later", "never"], "When it would be granted."]
    because: Annotated[str, "Why not now, as a sentence."]
    reason: Annotated[ReasonCode, "Why not now, as a code; empty: it fits now."]


class LoginDocument(TypedDict):
    """The visitor who is logged in on the page."""

    role: Annotated[Literal["user", "administrator"], "What the visitor may do."]
    name: Annotated[str, "The visitor's name."]
    uid: Annotated[Id, "The visitor's uid; -1 for a token that belongs to no user."]
    until: Annotated[Moment, "When the login ends; 0: with the connection."]
    proof: Annotated[str, "The value of the header X-Forebay in every call of the page that changes something."]


class LoginLink(TypedDict):
    """A one-time link to log in."""

    secret: Annotated[str, "The secret that logs in once."]
    until: Annotated[Moment, "When it expires."]
    link: Annotated[str, "The same as an address to open in a browser; empty if the service does not listen on TCP."]


# Documents with one field

StoryDocument = TypedDict("StoryDocument", {"story": Annotated[list[StoryLine], "What happened to a grant, by time."]})
NodeList = TypedDict("NodeList", {"nodes": Annotated[list[NodeDocument], "All storage nodes."]})
StrayList = TypedDict("StrayList", {"strays": Annotated[list[StrayDocument], "All volumes that no grant owns."]})
Done = TypedDict("Done", {"done": Annotated[Count, "How many items were processed."]})
PolicyDocument = TypedDict("PolicyDocument", {"policy": Annotated[str, "The storage policy that decides."]})
TokenList = TypedDict("TokenList", {"tokens": Annotated[list[TokenDocument], "All tokens, without their secrets."]})
TierList = TypedDict("TierList", {"tiers": Annotated[list[TierDocument], "All tiers, `any` first."]})
KeyDocument = TypedDict("KeyDocument", {"grants": Annotated[list[GrantDocument], "The grants that carry a key."]})
LogoutDocument = TypedDict("LogoutDocument", {"done": Annotated[Literal[0, 1], "1 if a login ended, else 0."]})
