"""Those who do the work: what the loop over pieces asks of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

Work = Callable[[Any], Any]
"""From a piece to its result; a module's function or a partial of one, so that it can be sent elsewhere."""


@dataclass(frozen=True, slots=True)
class Died:
    """Instead of a result: whoever did the piece died over it, more than once."""

    because: str


class Crew(Protocol):
    """Those who do one kind of work."""

    def size(self) -> int:
        """How many pieces they can do at a time, now."""

    def give(self, number: int, piece: Any) -> None:
        """Another piece; `number` is what they call it by."""

    def ready(self) -> list[tuple[int, Any]]:
        """Wait, and hand over what is ready. What a piece raised is raised here."""


class Cluster(Protocol):
    """Workers beyond this machine."""

    def crew(self, work: Work) -> AbstractContextManager[Crew]:
        """Those who do this work, until the context ends: then nothing of it is left with them."""
