"""Openings: legal, seeded, distinct as far as the game goes, never the end of it."""

import pytest

from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.match.play_match import draw_openings, draw_starts, random_openings

CHESS960 = "chess(chess960=true)"


def test_openings_are_legal_distinct_positions_of_the_right_length() -> None:
    openings = draw_openings("connect_four", 4, 50, seed=1)
    states = [State("connect_four", actions) for actions in openings]
    assert len({state.hash for state in states}) == 50
    assert {state.ply for state in states} == {4}
    assert not any(state.is_terminal for state in states)


def test_the_seed_decides() -> None:
    assert draw_openings("connect_four", 4, 20, 3) == draw_openings("connect_four", 4, 20, 3)
    assert draw_openings("connect_four", 4, 20, 3) != draw_openings("connect_four", 4, 20, 4)


def test_a_small_game_gives_what_it_has() -> None:
    assert len(draw_openings("tic_tac_toe", 2, 500, seed=1)) == 72
    assert draw_openings("tic_tac_toe", 0, 500, seed=1) == [[]]


def test_no_opening_ends_the_game() -> None:
    openings = draw_openings("tic_tac_toe", 7, 100, seed=1)
    assert len(openings) == 100
    assert not any(State("tic_tac_toe", actions).is_terminal for actions in openings)


def test_chess960_begins_at_different_starts() -> None:
    starts = draw_starts(CHESS960, 100, seed=1)
    assert len(set(starts)) == 100
    assert starts == draw_starts(CHESS960, 100, seed=1)
    assert starts != draw_starts(CHESS960, 100, seed=2)
    openings = draw_openings(CHESS960, 3, 100, 1, starts)
    assert [len(actions) for actions in openings] == [3] * 100
    for actions, start in zip(openings, starts, strict=True):
        assert not State(CHESS960, actions, start).is_terminal
    every = draw_starts(CHESS960, 1_000, seed=1)
    assert len(every) == 1_000
    assert len(set(every)) > 940


@pytest.mark.parametrize("game", ["chess", "go(size=9)", "openspiel:tic_tac_toe"])
def test_other_games_have_one_start(game: str) -> None:
    assert draw_starts(game, 20, seed=1) == []


def test_more_plies_than_any_game_has_is_an_error_of_the_run_file() -> None:
    with pytest.raises(ConfigError, match=r"^evaluator\.opening_plies = 9: "):
        draw_openings("tic_tac_toe", 9, 10, seed=1)


def test_too_long_openings_are_an_error_of_the_option_that_gave_them() -> None:
    with pytest.raises(ConfigError, match=r"^--opening-plies = 9: every game of tic_tac_toe"):
        random_openings("tic_tac_toe", 9, 10, seed=1, setting="--opening-plies")
