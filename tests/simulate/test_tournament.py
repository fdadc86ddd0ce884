"""The smallest key, at any time, whatever was put."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.simulate.tournament import first, players, put, tournament

keys = st.one_of(st.just(np.inf), st.integers(0, 3).map(float), st.floats(0, 1e9))


@pytest.mark.parametrize(("count", "size"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1000, 1024)])
def test_a_tree_has_the_next_power_of_two_of_players(count: int, size: int) -> None:
    assert players(count) == size


@given(st.data())
def test_after_any_puts_the_winner_is_the_lowest_player_with_the_smallest_key(data: st.DataObject) -> None:
    now = data.draw(st.lists(keys, min_size=1, max_size=17))
    tree = tournament(np.array(now))
    size = players(len(now))
    for player, key in data.draw(st.lists(st.tuples(st.integers(0, len(now) - 1), keys), max_size=40)):
        put(tree, 0, size, player, key)
        now[player] = key
        assert tree[1] == min(now)
        assert first(tree.view(np.int64), 0, size) == now.index(min(now))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), keys), max_size=40))
def test_trees_in_one_array_do_not_touch_each_other(puts: list[tuple[int, int, float]]) -> None:
    forest = np.full(3 * 8, np.inf)
    now = [[np.inf] * 4 for _ in range(3)]
    for tree, player, key in puts:
        put(forest, 8 * tree, 4, player, key)
        now[tree][player] = key
        for other in range(3):
            assert first(forest.view(np.int64), 8 * other, 4) == now[other].index(min(now[other]))
            assert forest[8 * other + 1] == min(now[other])
