"""How much is drawn: `make check` draws a tenth of what the whole suite does."""

from __future__ import annotations

from hypothesis import settings


def examples(usual: int) -> int:
    """`usual` in the whole suite; fewer or more as the profile of hypothesis has fewer or more than 100 examples."""
    return max(1, usual * settings().max_examples // 100)
