"""Calls of a function that is left to do its work."""

from typing import Any

import pytest

Calls = list[tuple[Any, ...]]
"""The positional arguments of each."""


def record_calls(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> Calls:
    """All calls of `owner.name` from now on."""
    calls: Calls = []
    function = getattr(owner, name)

    def record(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return function(*args, **options)

    monkeypatch.setattr(owner, name, record)
    return calls
