"""The base of all commands, and checks of who may give them."""

from dataclasses import dataclass

from forebay.decide.grants.draft import Draft
from forebay.decide.grants.machine import Role
from forebay.model.grant import NotAllowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is calling. `uid` matters for users, `node` for agents. The service itself calls as an administrator."""

    role: Role
    uid: int = -1
    node: str = ""


SERVICE = Caller(role="administrator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to the service; `decide` finds the events that it causes."""

    caller: Caller

    def decide(self, draft: Draft) -> None:
        raise NotImplementedError

    def require_administrator(self) -> None:
        if self.caller.role != "administrator":
            raise NotAllowed("only an administrator may do this")

    def require_owner(self, uid: int) -> None:
        """Refuse everybody but this user and administrators."""
        is_owner = self.caller.role == "user" and self.caller.uid == uid
        if not is_owner and self.caller.role != "administrator":
            raise NotAllowed("only its owner or an administrator may do this")

    def require_agent(self, node: str) -> None:
        if self.caller.role != "agent":
            raise NotAllowed(f"only the agent of node {node!r} may report this")
        if self.caller.node != node:
            raise NotAllowed(f"the agent of node {self.caller.node!r} may not report for node {node!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCommand(Command):
    """About a node, a disk ("node/disk"), or the kept volumes of a grant."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand(Command):
    """About a node; `node` is its name."""

    node: str
