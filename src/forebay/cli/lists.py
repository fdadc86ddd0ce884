"""Lists that users write: policies by commas, loads by a range, all of them checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forebay.model.errors import BadInput

if TYPE_CHECKING:
    from forebay.decide.policy import Kind

_OPTIONS: dict[Kind, str] = {
    "allocate": "--allocate",
    "place": "--place",
    "storage": "--policy",
    "stripe": "--policy",
    "order": "--scheduler",
    "tune": "--tuner",
}


def policy_list(kind: Kind, text: str | None, *, also: Sequence[str] = ()) -> list[str]:
    """The named policies; all of one kind for 'all' or nothing, but `optimal` only when it is named.

    `also` are names that are no policies, and fine all the same.
    """
    from forebay.decide.registry import find, policies

    every = [name for name in policies(kind) if name != "optimal"]  # which takes for ever on all but small cases
    if text is None:
        return every
    named = (name.strip() for name in text.split(",") if name.strip())
    names = list(dict.fromkeys(n for name in named for n in (every if name == "all" else [name])))
    if not names:
        raise BadInput(_OPTIONS[kind], f"names no {'scheduler' if kind == 'order' else 'policy'}")
    for name in names:
        if name not in also:
            find(kind, name)
    return names


def load_range(text: str) -> tuple[list[float], float]:
    """'0.2:1.2:0.1' -> the loads 0.2, 0.3, ... 1.2, and the step; one load alone has a step of 0.1."""
    try:
        parts = [float(part) for part in text.split(":")]
    except ValueError:
        parts = []
    if len(parts) == 1:
        parts = [parts[0], parts[0], 0.1]
    positive = all(math.isfinite(part) and part > 0 for part in parts)
    if len(parts) != 3 or not positive or parts[0] > parts[1]:
        raise BadInput("--loads", f"must be LOW:HIGH:STEP like 0.2:1.2:0.1, all positive, not {text!r}")
    low, high, step = parts
    steps = (high - low) / step + 1e-9
    if steps > 1000:
        raise BadInput("--loads", f"{text!r} makes {steps:.3g} loads; at most 1000")
    return [round(low + i * step, 9) for i in range(int(steps) + 1)], step
