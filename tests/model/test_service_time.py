import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.service_time import MODELS, ServiceTime, new_state, service_time

MODEL = ServiceTime()
REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2), st.booleans(), st.integers(1, 4)
    ),
    max_size=20,
)


def naive(model: ServiceTime, requests: list[tuple[int, int, int, int, bool, int]]) -> list[float]:
    """The formula, as one would write it down."""
    found = []
    last: tuple[int, int, int] | None = None
    for node, file, offset, size, write, nodes in requests:
        seconds = model.start + size / model.bandwidth
        if last is None or last[0] != node:
            seconds += model.switch * (model.write_switch if write else 1)
        if last is None or last[1] != file:
            seconds += model.file
        elif last[2] != offset:
            seconds += model.gap
        seconds *= 1 + (model.write_crowd if write else model.crowd) * (nodes - 1)
        found.append(seconds * 1e9)
        last = node, file, offset + size
    return found


@given(REQUESTS, st.sampled_from(sorted(MODELS)))
def test_each_request_takes_what_the_formula_says(
    requests: list[tuple[int, int, int, int, bool, int]], name: str
) -> None:
    model, state = MODELS[name], new_state()
    found = [service_time(model.pack(), state, *request) for request in requests]
    assert found == pytest.approx(naive(model, requests))


def test_a_contiguous_request_of_the_same_node_and_file_pays_only_for_itself() -> None:
    state = new_state()
    service_time(MODEL.pack(), state, 0, 1, 0, 65536, False, 1)
    again = service_time(MODEL.pack(), state, 0, 1, 65536, 65536, False, 1)
    assert again == pytest.approx(60e3 + 65536 / 0.6)


def test_the_noise_comes_last_in_what_the_kernel_gets() -> None:
    assert MODEL.pack()[8] == MODEL.sigma
    assert MODEL.pack().dtype == np.float64


@pytest.mark.parametrize("wrong", [{"start": -1.0}, {"bandwidth": 0.0}, {"gap": float("nan")}, {"file": float("inf")}])
def test_what_can_not_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ServiceTime(**wrong)
