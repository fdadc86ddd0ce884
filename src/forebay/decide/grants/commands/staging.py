"""Commands about staging: from users, who want files copied, and from the agents that copy them."""

from dataclasses import dataclass, replace

from forebay.decide.grants import events as ev
from forebay.decide.grants.commands.permissions import Command
from forebay.decide.grants.draft import Draft
from forebay.model.errors import BadInput, Refused
from forebay.model.grant import AVAILABLE, ON_DISK, Grant
from forebay.model.staging import LIMIT, Pairs, Progress, Staging, Step, Way, check_limit, check_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Command):
    """Have the storage nodes of a grant copy files. A command that is sent twice copies once."""

    grant: str
    key: str
    way: Way
    pairs: Pairs
    limit: float = LIMIT

    def decide(self, draft: Draft) -> None:
        grant = draft.tables.find_grant(self.grant)
        self.require_owner(grant.ask.uid)
        check_pairs(self.way, self.pairs)
        check_limit(self.limit)
        known = grant.staging
        if known is not None and known.key == self.key:
            if (known.way, known.pairs) != (self.way, self.pairs):
                raise Refused(f"key {self.key!r} is already used for another staging; choose another key")
            return
        if grant.is_staging:
            raise Refused(f"grant {grant.id} is still staging {known.way if known else ''}; wait until that is done")
        nodes = self._find_nodes(draft, grant)
        staging = Staging(
            key=self.key, way=self.way, pairs=self.pairs, limit=self.limit, begun=draft.now, moved=draft.now,
            nodes={node: Progress() for node in nodes},
        )  # fmt: skip
        draft.emit(ev.StagingBegun(at=draft.now, grant=grant.id, staging=staging))

    def _find_nodes(self, draft: Draft, grant: Grant) -> list[str]:
        """The nodes that copy: each that has a volume; into separate volumes, only the one with the first."""
        ask, tables = grant.ask, draft.tables
        if grant.state not in AVAILABLE:
            raise Refused(f"grant {grant.id} is {grant.state}; files can be copied once it is ready")
        if ask.expose and not ask.is_shared:
            reason = "its volumes are not mounted on their nodes; copy the files where it is attached"
            raise Refused(f"grant {grant.id}: {reason}")
        if ask.uid == 0 or ask.gid == 0:
            raise BadInput("uid", "must not be root's: files are copied only as an ordinary user")
        if tables.rules.shadow:
            raise Refused("the service is in shadow mode and copies nothing")
        volumes = [volume for volume in tables.volumes_of(grant) if volume.state in ON_DISK]
        if self.way == "in" and not ask.is_shared:
            volumes = volumes[:1]
        return list(dict.fromkeys(volume.node for volume in volumes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied(Command):
    """An agent reports how far it is, or why it cannot go on. Reports of earlier stagings change nothing."""

    node: str
    grant: str
    key: str
    progress: Progress
    because: str = ""

    def decide(self, draft: Draft) -> None:
        self.require_agent(self.node)
        grant = draft.tables.grants.get(self.grant)
        if grant is None or not grant.is_staging or grant.staging is None:
            return
        staging = grant.staging
        before = staging.nodes.get(self.node)
        if staging.key != self.key or before is None or before.step is Step.SETTLED:
            return
        if before.step is Step.COPIED and self.progress.step is Step.COPYING and not self.because:
            return
        progress = self.progress
        if progress.step is Step.SETTLED and before.step is Step.COPIED:
            progress = replace(before, step=Step.SETTLED)  # nothing is copied in this step
        if self.because:  # earlier releases do not say how far they were
            most = {name: max(getattr(before, name), getattr(progress, name)) for name in ("files", "bytes", "total")}
            progress = replace(before, **most)
        if progress != before:
            draft.emit(ev.StagingMoved(at=draft.now, grant=grant.id, node=self.node, progress=progress))
        if self.because:
            draft.end_staging(draft.tables.grants[grant.id], self.because)
            return
        self._finish(draft, draft.tables.grants[grant.id])

    def _finish(self, draft: Draft, grant: Grant) -> None:
        """End the staging once all nodes are done, or if a source is missing on all of them."""
        assert grant.staging is not None
        parts = grant.staging.nodes.values()
        if grant.staging.is_copied:
            for number in sorted(set.intersection(*(set(part.missing) for part in parts))):
                draft.end_staging(grant, f"{grant.staging.pairs[number][0]}: no such file or directory")
                return
        if all(part.step is Step.SETTLED for part in parts):
            draft.end_staging(grant)
