"""Kernels that don't count references can't be used where that would be wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from forebay.model.kernels import hot_kernel, kernel


@hot_kernel
def _make(size: int) -> float:
    return float(np.zeros(size).sum())


@hot_kernel
def _return_part(array: Any) -> Any:
    return array[1:]


@pytest.mark.parametrize(("function", "argument"), [(_make, 3), (_return_part, np.arange(3))])
def test_a_hot_kernel_neither_makes_nor_returns_arrays(function: Any, argument: Any) -> None:
    with pytest.raises(TypingError):
        function(argument)


@kernel
def _sum_of_new(size: int) -> float:
    return float(np.ones(size).sum())


@hot_kernel
def _call(size: int) -> float:
    return _sum_of_new(size)


def test_a_hot_kernel_can_call_one_that_makes_arrays() -> None:
    assert _call(3) == 3.0
