"""Commands of administrators, and of the service itself."""

from dataclasses import dataclass

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.permissions import Command
from forebay.decide.grants.deadlines import forget_grants
from forebay.decide.grants.draft import Draft
from forebay.decide.grants.grant_limits import GrantRules
from forebay.decide.grants.queue import retry_requests, sweep_queue
from forebay.decide.grants.suspensions import try_disks
from forebay.decide.registry import find
from forebay.model.errors import BadInput
from forebay.model.grant import HELD


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick(Command):
    """Time has passed."""

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        retry_requests(draft)
        try_disks(draft)
        if draft.tables.facts.swept and not draft.frees_space:
            sweep_queue(draft, afresh=False)
        forget_grants(draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePolicy(Command):
    """Use another storage policy from now on."""

    policy: str

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        policy = find("storage", self.policy).name
        if policy != draft.tables.facts.policy:
            draft.emit(ev.PolicyChanged(at=draft.now, policy=policy))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRules(Command):
    """Use other rules from now on."""

    rules: GrantRules

    def decide(self, draft: Draft) -> None:
        self.require_administrator()
        old = draft.tables.rules
        if self.rules.shadow != old.shadow and any(g.state in HELD for g in draft.tables.grants.values()):
            raise BadInput("rules.shadow", "cannot change while grants exist; release them first")
        if self.rules != old:
            draft.emit(ev.RulesChanged(at=draft.now, rules=self.rules))
