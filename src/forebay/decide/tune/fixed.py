"""`fixed`: nothing is learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from forebay.decide.tune.bandit import OPTIONS
from forebay.model.kernels import kernel


@kernel
def fixed(bandit: Any, chance: Any) -> int:  # noqa: ARG001
    """Always the same value: the one numbered `arm`, counted from 0."""
    return np.int64(bandit[OPTIONS])  # type: ignore[return-value]
