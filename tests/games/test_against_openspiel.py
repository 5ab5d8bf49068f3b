"""The rules against those of OpenSpiel, an independent implementation, over random games."""

from __future__ import annotations

import random

import pyspiel
import pytest
import zerofleet_core

from zerofleet.games import State

# How many random games are compared; both libraries number the actions of these games alike.
COMPARED = {"connect_four": 1500, "tic_tac_toe": 2500}


def test_every_game_is_compared() -> None:
    assert set(COMPARED) == set(zerofleet_core.game_names())


@pytest.mark.slow
@pytest.mark.parametrize("game", sorted(COMPARED))
def test_same_rules(game: str) -> None:
    generator = random.Random(20)
    oracle_game = pyspiel.load_game(game)
    for _ in range(COMPARED[game]):
        state, oracle = State(game), oracle_game.new_initial_state()
        line: list[int] = []
        while not oracle.is_terminal():
            assert not state.is_terminal, line
            assert state.legal_actions() == oracle.legal_actions(), line
            assert state.to_play == oracle.current_player(), line
            line.append(generator.choice(oracle.legal_actions()))
            state.apply(line[-1])
            oracle.apply_action(line[-1])
        assert state.is_terminal, line
        assert [state.result, -state.result] == oracle.returns(), line
