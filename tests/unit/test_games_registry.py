from __future__ import annotations

import pytest
import zerofleet_core

from zerofleet import games
from zerofleet.errors import ConfigError


def test_names_are_sorted_and_complete() -> None:
    assert games.names() == sorted(zerofleet_core.game_names())
    assert {"connect_four", "tic_tac_toe"} <= set(games.names())


def test_spec_says_how_large_a_game_is() -> None:
    spec = games.spec("connect_four")
    assert (spec.name, spec.num_actions, spec.max_length) == ("connect_four", 7, 42)
    assert spec.observation_shape[1:] == (6, 7)


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("tictactoe", "tic_tac_toe"), ("connect4", "connect_four"), ("Connect-Four", "connect_four")],
)
def test_an_unknown_name_is_answered_with_the_nearest(wrong: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown game '{wrong}'; did you mean '{nearest}'") as e:
        games.spec(wrong)
    assert all(name in str(e.value) for name in games.names())


def test_nothing_near_is_no_guess() -> None:
    with pytest.raises(ConfigError, match="unknown game 'zzz'; known games: "):
        games.spec("zzz")
