"""The live control system by seed with everything going wrong; benchmarks/control_chaos.py does hundreds of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.control_chaos import run
from support.nursery import shared_nursery
from support.stores import PostgreSQL, own_server

SEEDS = 12  # among them each kind of store, of disks and of disaster at least once
# The HTTP library leaves a socket to the collector where nobody listens.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL | None]:
    """Some runs kill it. Where PostgreSQL is not installed, all runs are on SQLite."""
    with ExitStack() as stack:
        try:
            own = stack.enter_context(own_server())
        except pytest.skip.Exception:
            own = None
        yield own


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_fails_the_journal_the_answers_and_the_disks_agree(seed: int, server: PostgreSQL | None) -> None:
    outcome = run(seed, shared_nursery(), server)
    assert outcome.wrong == {}
    assert outcome.happened["requests"] > 0 and outcome.happened["event Making"] > 0
