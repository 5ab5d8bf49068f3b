"""Restarts: where the player was most wrong, and what a game that began there says."""

import itertools

import numpy as np
import pytest

from zerofleet.learning.restarts import (
    LEAST_REGRET,
    MOST_RESTARTS,
    RECENT_GAMES,
    RestartBuffer,
    regrets_of,
)


def add(buffer: RestartBuffer, actions: list[int], values: list[float | None], result: int) -> None:
    """Add a game of alternating players; a value of None is a ply of a random opening."""
    plies = np.arange(len(actions))
    buffer.add(
        np.array(actions, np.int16),
        (plies % 2).astype(np.int8),
        np.array([0.0 if each is None else each for each in values], np.float32),
        np.array([each is not None for each in values]),
        result,
    )


def test_regret_is_the_mean_squared_error_up_to_the_end() -> None:
    to_play = np.array([0, 1, 0, 1], np.int8)
    values = np.array([9.0, 0.5, -0.5, 1.0], np.float32)
    searched = np.array([False, True, True, True])
    # The first player lost: the values should have been +1, -1, +1 for the players to move.
    regrets = regrets_of(to_play, values, searched, -1)
    assert np.isnan(regrets[0])
    assert regrets[1:] == pytest.approx([(0.25 + 0.25 + 0) / 3, 0.25 / 2, 0.0])


def test_the_worst_position_of_a_game_is_where_games_begin() -> None:
    buffer = RestartBuffer()
    add(buffer, [3, 1, 4, 2], [0.9, -0.9, 0.9, 1.0], -1)
    assert buffer.restarts() == []  # the worst position is the usual start
    add(buffer, [3, 1, 4, 2], [-1.0, -0.9, 0.9, 1.0], -1)
    [found] = buffer.restarts()
    assert found.actions == (3,)
    assert found.regret == pytest.approx((1.9**2 + 1.9**2 + 0) / 3)


def test_a_game_that_began_there_replaces_the_regret_and_can_end_it() -> None:
    buffer = RestartBuffer()
    add(buffer, [3, 1, 4, 2], [None, -0.9, 0.9, 1.0], -1)
    add(buffer, [3, 1, 5, 2], [None, 0.5, -0.5, 1.0], -1)
    [found] = buffer.restarts()
    # Both games began at this position.
    assert found.regret == pytest.approx(((1.9**2 * 2) / 3 + 0.5 / 3) / 2)
    for _ in range(40):
        add(buffer, [3, 1, 5, 2], [None, 1.0, -1.0, 1.0], -1)
    assert buffer.restarts() == []


def test_a_player_who_resigns_at_once_knows_the_position() -> None:
    buffer = RestartBuffer()
    add(buffer, [3, 1, 4, 2], [-1.0, -0.9, 0.9, 1.0], -1)
    assert [each.actions for each in buffer.restarts()] == [(3,)]
    add(buffer, [3], [None], 1)
    assert buffer.restarts() == []


def test_the_buffer_is_bounded_and_forgets() -> None:
    buffer = RestartBuffer()
    for game in range(3 * MOST_RESTARTS):
        add(buffer, [game, 1], [None, 0.9 - game / 1e4], 1)
    found = buffer.restarts()
    assert [each.actions for each in found] == [(game,) for game in range(MOST_RESTARTS)]
    assert all(one.regret >= two.regret for one, two in itertools.pairwise(found))
    for _ in range(RECENT_GAMES):
        add(buffer, [1, 1], [1.0, -1.0], 1)
    assert buffer.restarts() == []


def test_games_without_a_search_and_small_errors_say_nothing() -> None:
    buffer = RestartBuffer()
    add(buffer, [3, 1], [None, None], 1)
    add(buffer, [3, 1], [1.0, -1.0 + LEAST_REGRET], 1)
    assert buffer.restarts() == []


def test_a_value_that_is_no_number_does_not_count() -> None:
    buffer = RestartBuffer()
    nan = float("nan")
    add(buffer, [3, 1], [nan, nan], 1)
    add(buffer, [3, 1, 4], [nan, 0.9, nan], 1)
    [found] = buffer.restarts()
    assert found.actions == (3,)
    assert found.regret == pytest.approx(1.9**2)
