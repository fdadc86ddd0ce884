"""Lists that users write: policies by commas, loads by a range, all of them checked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from forebay.model.errors import BadInput

if TYPE_CHECKING:
    from forebay.decide.policy import Kind


def policy_list(kind: Kind, text: str | None) -> list[str]:
    """The named policies; all of one kind for 'all' or nothing, but `optimal` only when it is named."""
    from forebay.decide.registry import find, policies

    if text is None or text == "all":  # optimal takes for ever on all but small cases
        return [name for name in policies(kind) if name != "optimal"]
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise BadInput(f"--{kind}", "names no policy")
    for name in names:
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
