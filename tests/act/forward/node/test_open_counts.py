"""What servers of names know of the files that are open at an I/O node, while folders move to server 0."""

from __future__ import annotations

from math import inf
from typing import cast

import pytest

from forebay.act.forward.node.name_routes import NameRoutes
from forebay.act.forward.node.open_counts import OpenCounts
from forebay.act.forward.node.server_link import ServerLink


class Link:
    sharded = True


@pytest.fixture
def routes() -> NameRoutes:
    return NameRoutes(cast("list[ServerLink]", [Link(), Link(), Link()]), patience=1.0)


@pytest.fixture
def counts(routes: NameRoutes) -> OpenCounts:
    return OpenCounts(routes)


def test_the_server_that_has_opened_a_file_hears_of_its_end(counts: OpenCounts) -> None:
    assert counts.add(5, 2)
    assert counts.add(5, 2)
    assert counts.add(6, 0)
    assert counts.report_closed() == {}
    counts.close(5)
    counts.close(6)
    assert counts.report_closed() == {2: [(5, 2)], 0: [(6, 1)]}
    assert counts.report_closed() == {}


def test_a_file_of_a_lost_client_ends_later(counts: OpenCounts) -> None:
    counts.add(5, 1)
    counts.keep(5, inf)
    counts.close(5)
    assert counts.report_closed() == {}
    assert counts.report_all(1) == [(5, 1)]


def test_server_0_hears_what_is_open_of_the_files_that_it_takes_over(counts: OpenCounts, routes: NameRoutes) -> None:
    counts.add(5, 2)
    counts.add(5, 2)
    counts.add(6, 2)
    counts.add(7, 2)
    counts.close(7)
    assert counts.report_closed() == {2: [(7, 1)]}
    assert counts.move_to_first([5, 7, 8]) == [(5, 2)]
    assert counts.move_to_first([5]) == []  # it knows
    assert routes.server_of(5) == 0
    counts.add(5, 0)
    counts.close(5)
    counts.close(6)
    assert counts.report_closed() == {0: [(5, 3)], 2: [(6, 1)]}


def test_an_open_that_a_server_answered_before_its_file_moved_is_told_to_server_0(counts: OpenCounts) -> None:
    counts.add(5, 2)
    assert counts.move_to_first([5]) == [(5, 1)]
    assert not counts.add(5, 2)  # the answer comes late
    counts.close(5)
    assert counts.report_closed() == {0: [(5, 2)]}


def test_after_its_restart_server_0_hears_of_all_files_once(counts: OpenCounts) -> None:
    counts.add(5, 2)
    counts.add(6, 0)
    assert sorted(counts.report_all(0)) == [(5, 1), (6, 1)]
    assert counts.report_all(2) == [(5, 1)]
    counts.add(5, 2)
    assert counts.move_to_first([5]) == [(5, 1)]  # the first one it knows
    counts.close(5)
    assert counts.report_closed() == {0: [(5, 2)]}


def test_both_servers_hear_of_the_end_of_a_file_that_did_not_move(counts: OpenCounts) -> None:
    counts.add(5, 2)
    counts.report_all(0)
    counts.close(5)
    assert counts.report_closed() == {2: [(5, 1)], 0: [(5, 1)]}
