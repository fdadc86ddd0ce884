"""Who does the work, as a user names it."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.model.errors import BadInput
from forebay.work import Dask, Slurm, parse_workers


@pytest.mark.parametrize("text", [None, ""])
def test_nothing_said_is_a_process_for_each_core(text: str | None) -> None:
    assert parse_workers(text) == (os.cpu_count() or 1)


@given(st.integers(1, 256))
def test_a_number_is_so_many_processes_or_jobs(count: int) -> None:
    assert parse_workers(str(count)) == parse_workers(count) == count
    assert parse_workers(f"slurm:{count}") == Slurm(count)


@pytest.mark.parametrize("address", ["login1:8786", "10.0.0.1:1", "[fe80::1]:65535", "a-b.example.org:80"])
def test_a_scheduler_is_named_by_host_and_port(address: str) -> None:
    assert parse_workers(f"dask://{address}") == parse_workers(f"dask://{address}/") == Dask(address)


@pytest.mark.parametrize(
    "text",
    [
        *("0", "-1", "1.5", "two", "257", "9" * 400, "٣", "4\n5", "tcp://h:1"),
        *("slurm", "slurm:", "slurm:0", "slurm:-1", "slurm:10001", "slurm:x"),
        *("dask://", "dask://host", "dask://:8786", "dask://host:0", "dask://host:65536", "dask://a b:1"),
    ],
)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"^--workers: ") as refused:
        parse_workers(text)
    assert "\n" not in str(refused.value)


@given(st.text())
def test_no_text_does_harm(text: str) -> None:
    try:
        parse_workers(text)
    except BadInput as refused:
        assert refused.where == "--workers"
