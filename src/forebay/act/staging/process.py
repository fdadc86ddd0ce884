"""The process that copies for an agent, as the grant's owner. The agent may kill and start it at any time.

Its arguments are descriptors: of the plan, of the journal, and of a pipe on which the agent says that all nodes have
copied their files. It prints a JSON document per line: its progress, and at last how it ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Literal

from forebay.act.command import become_user, user_groups
from forebay.act.staging.copier import Copier, Tree
from forebay.act.staging.folders import Folder
from forebay.act.staging.journal import Journal
from forebay.act.staging.path_pairs import find_targets, find_trees, open_volume
from forebay.act.volumes.data_server import FOLDER as DATA
from forebay.decide.grants.machine import CopyAction
from forebay.model.errors import BadInput, ForebayError, UserError, why
from forebay.model.staging import Progress, Step

_PATIENCE = 60.0  # seconds to wait for a data server that is being restarted
_SHORT_PATIENCE = 2.0  # the same to remove incomplete copies, which usually go with the space
_EVERY = 0.5  # seconds between lines about progress
Work = Literal["copy", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do: copy files, or remove incomplete copies.

    The `volumes` of the action are paths on this node.
    """

    work: Work
    tag: str
    action: CopyAction

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Plan:
        fields = json.loads(text)
        return cls(**fields | {"action": CopyAction.read(fields["action"])})


def take_rights(uid: int, gid: int) -> None:
    """Switch to an ordinary user for good, with only that user's groups."""
    if uid == 0 or gid == 0:
        raise BadInput("uid", "must not be root's: files are copied only as an ordinary user")
    if os.geteuid() == 0:
        become_user(uid, gid, user_groups(uid, gid))
    elif (os.getuid(), os.getgid()) != (uid, gid):
        raise UserError(f"only root can copy as another user (uid {uid}), not uid {os.getuid()}; run it as root")


def carry_out(
    plan: Plan, journal: Journal, shared: Folder | None, await_others: Callable[[Progress], None]
) -> Progress:
    """Do the work, and return how far the node is at its end. `shared` is the root folder of a shared file system.

    `await_others` reports that the node has copied its files, and returns when all have.
    """
    action = plan.action
    roots: list[Folder] = [open_volume(path) for path in action.volumes] if shared is None else [shared]
    if plan.work == "remove":
        Copier(journal, plan.tag).remove_incomplete(find_targets(action.way, action.pairs, roots))
        return Progress()
    if shared is not None and action.settle and action.number:
        return Progress(step=Step.SETTLED)  # another node does what is left
    trees, missing = find_trees(action.way, action.pairs, roots)
    if missing and (action.way == "in" or shared is not None):
        raise BadInput(action.pairs[missing[0]][0], "no such file or directory")
    nodes = 1 if shared is None else action.nodes
    copier = Copier(journal, plan.tag, number=action.number, nodes=nodes, settles=action.settle)
    try:
        return _copy(action, copier, trees, missing, shared is not None, await_others)
    except (ForebayError, OSError) as error:
        done = Progress(files=copier.files, bytes=copier.bytes, total=copier.total)
        raise _Failed(done, _describe(error)) from error


class _Failed(UserError):
    """The work failed after this `progress`."""

    def __init__(self, progress: Progress, because: str) -> None:
        super().__init__(because)
        self.progress = progress


def _describe(error: ForebayError | OSError) -> str:
    return f"cannot copy: {why(error)}" if isinstance(error, OSError) else str(error)


def _copy(
    action: CopyAction,
    copier: Copier,
    trees: Sequence[Tree],
    missing: Sequence[int],
    is_shared: bool,
    await_others: Callable[[Progress], None],
) -> Progress:
    with _progress_printed(copier):
        copier.copy(trees)
    progress = Progress(
        step=Step.COPIED, files=copier.files, bytes=copier.bytes, total=copier.files, missing=tuple(missing)
    )
    if action.nodes > 1 and not action.settle:
        await_others(progress)
    if action.nodes > 1 and not is_shared and (replaced := copier.find_replaced(trees)):
        raise BadInput(replaced, "comes from volumes of two nodes, and only one is left; use different names")
    if not is_shared or action.number == 0:
        copier.settle(trees)
    return replace(progress, step=Step.SETTLED)


@contextmanager
def _progress_printed(copier: Copier) -> Iterator[None]:
    end = threading.Event()

    def report() -> None:
        shown = (0, 0, 0)
        while not end.wait(_EVERY):
            now = copier.files, copier.bytes, copier.total
            if now != shown:
                _print(Progress(files=now[0], bytes=now[1], total=now[2]))
                shown = now

    thread = threading.Thread(target=report, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _open_shared(plan: Plan, journal: Journal) -> AbstractContextManager[Folder | None]:
    action = plan.action
    if not action.servers:
        return nullcontext()
    from forebay.act.staging.shared_folders import open_shared

    volumes = {place: Path(path) / DATA for place, path in zip(action.places, action.volumes, strict=False)}
    patience = _PATIENCE if plan.work == "copy" else _SHORT_PATIENCE
    name = f"staging {plan.tag} {action.number}"
    return open_shared(action.servers, action.secret, name, volumes, journal, patience)


def _print(progress: Progress, because: str = "") -> None:
    document = {**asdict(progress), "because": because}
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str]) -> int:
    plan_file, journal_file, settle = map(int, argv)

    def await_others(progress: Progress) -> None:
        _print(progress)
        if not os.read(settle, 1):  # the agent has ended
            sys.exit(1)

    with os.fdopen(plan_file) as file:
        file.seek(0)
        plan = Plan.from_text(file.read())
    try:
        if plan.action.servers:  # import it before the process gives up the rights to read this program
            import_module("forebay.act.staging.shared_folders")
        take_rights(plan.action.uid, plan.action.gid)
        journal = Journal(journal_file)
        with _open_shared(plan, journal) as shared:
            _print(carry_out(plan, journal, shared, await_others))
    except _Failed as error:
        _print(error.progress, str(error))
    except (ForebayError, OSError) as error:
        _print(Progress(), _describe(error))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
