import pytest

from forebay.act import command
from support.filesystems import pretend
from support.stores import database, postgresql, store

__all__ = ["database", "postgresql", "pretend", "store"]


@pytest.fixture(autouse=True)
def commands_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing to do between fork and exec, Python starts a command without a copy of itself. To copy a process
    that has imported all tests takes longer than most commands. That commands end with who started them is proved by
    processes that tests start (test_command.py, test_child.py)."""
    monkeypatch.setattr(command, "_end_with_parent", lambda _parent: None)
