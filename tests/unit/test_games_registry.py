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


@pytest.mark.parametrize(
    ("name", "actions", "shape"),
    [
        ("go(size=9,komi=7.5,suicide=false)", 82, (17, 9, 9)),
        ("mnk(m=5,n=4,k=4)", 20, (3, 4, 5)),
        ("openspiel:hex(board_size=4)", 16, (10, 4, 4)),
        ("python:examples.domineering:Domineering", 60, (2, 6, 6)),
    ],
)
def test_a_name_may_have_rules_or_come_from_outside(
    name: str, actions: int, shape: tuple[int, int, int]
) -> None:
    spec = games.spec(name)
    assert (spec.name, spec.num_actions, spec.observation_shape) == (name, actions, shape)
    assert games.State(name).legal_actions()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("go(sise=9)", "unknown rule 'sise'; known: size, suicide, komi"),
        ("go(size=99)", "size must be 2 to 19, not 99"),
        ("go(size=9", "must end with"),
        ("go(size)", "expected key=value, not 'size'"),
        ("go(observation=all)", "observation must be history or liberties, not 'all'"),
        ("tic_tac_toe(size=4)", "unknown rule 'size'; the game takes none"),
        ("goo(size=9)", "did you mean 'go'"),
        ("gnugo:9", "unknown game 'gnugo:9'.* openspiel:NAME and python:MODULE:CLASS"),
        (":", "unknown game ':'"),
    ],
)
def test_a_rule_that_is_not_there_is_named(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        games.spec(name)
