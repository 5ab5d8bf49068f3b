"""Compare our rules with OpenSpiel, an independent implementation, over random games.

``ZEROFLEET_ORACLE_GAMES=100000 ZEROFLEET_ORACLE_SEED=7`` plays this many games of each kind, with
another seed. ``--log-cli-level=INFO`` prints the number of games. A failure shows the actions that
led to it.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable
from dataclasses import dataclass

import pyspiel
import pytest
import zerofleet_core

from zerofleet.games import State

_log = logging.getLogger(__name__)

GAMES = os.environ.get("ZEROFLEET_ORACLE_GAMES")
SEED = int(os.environ.get("ZEROFLEET_ORACLE_SEED", "20"))


@dataclass(frozen=True)
class Oracle:
    """OpenSpiel's name of a game, in which the actions have the same numbers."""

    name: str
    games: int  # number of games in a normal run
    explain: Callable[[pyspiel.State, list[int], set[bytes]], bool] | None = None


def repeats(oracle: pyspiel.State, actions: list[int], boards: set[bytes]) -> bool:
    """Return whether every action repeats a position; OpenSpiel forbids only the simple ko."""
    return all(stones(oracle.child(action)) in boards for action in actions)


def stones(oracle: pyspiel.State) -> bytes:
    """Return Black's points, then White's."""
    planes = oracle.observation_tensor(0)
    return bytes(map(int, planes[: len(planes) // 2]))


ORACLES = {
    "connect_four": Oracle("connect_four", 400),
    # OpenSpiel forbids suicide. It would score a repetition as a draw, but none occurs here.
    "go(size=5,komi=7.5,suicide=false)": Oracle("go(board_size=5,komi=7.5)", 150, repeats),
    "go(size=9,komi=7.5,suicide=false)": Oracle("go(board_size=9,komi=7.5)", 40, repeats),
    "gomoku": Oracle("mnk(m=15,n=15,k=5)", 30),
    "mnk(m=5,n=4,k=4)": Oracle("mnk(m=5,n=4,k=4)", 300),
    "othello": Oracle("othello", 100),
    "tic_tac_toe": Oracle("tic_tac_toe", 1000),
}


def test_every_family_is_compared() -> None:
    families = {game.partition("(")[0] for game in ORACLES}
    assert families | {"chess"} == set(zerofleet_core.game_names())  # test_chess.py tests chess


@pytest.mark.slow
@pytest.mark.timeout(0 if GAMES else 240)
@pytest.mark.parametrize("game", sorted(ORACLES))
def test_same_rules(game: str) -> None:
    oracle = ORACLES[game]
    rules = pyspiel.load_game(oracle.name)
    generator = random.Random(f"{game} {SEED}")
    count = int(GAMES) if GAMES else oracle.games
    plies = sum(compare(game, oracle, rules, generator) for _ in range(count))
    _log.info("%s: %d games, %d plies, seed %d", game, count, plies, SEED)


def compare(game: str, oracle: Oracle, rules: pyspiel.Game, generator: random.Random) -> int:
    """Play one game by both rules and return its number of plies."""
    ours, theirs = State(game), rules.new_initial_state()
    boards = {stones(theirs)} if oracle.explain else set[bytes]()
    line: list[int] = []
    while not ours.is_terminal:
        assert not theirs.is_terminal(), line
        assert ours.to_play == theirs.current_player(), line
        legal, others = ours.legal_actions(), theirs.legal_actions()
        if legal != others:
            assert oracle.explain is not None, line
            assert set(legal) < set(others), line
            assert oracle.explain(theirs, sorted(set(others) - set(legal)), boards), line
        line.append(generator.choice(legal))
        ours.apply(line[-1])
        theirs.apply_action(line[-1])
        if oracle.explain:
            boards.add(stones(theirs))
    assert theirs.is_terminal(), line
    assert [ours.result, -ours.result] == theirs.returns(), line
    return len(line)


def test_the_solver_of_late_othello_agrees_with_plain_search_over_openspiel() -> None:
    def best_for_first(oracle: pyspiel.State) -> int:
        """Return the first player's result with perfect play."""
        if oracle.is_terminal():
            return int(oracle.returns()[0])
        choose = max if oracle.current_player() == 0 else min
        return choose(best_for_first(oracle.child(action)) for action in oracle.legal_actions())

    generator = random.Random(SEED)
    compared = 0
    while compared < 40:
        oracle = pyspiel.load_game("othello").new_initial_state()
        while not oracle.is_terminal() and str(oracle).count("-") > 6:
            oracle.apply_action(generator.choice(oracle.legal_actions()))
        if oracle.is_terminal():
            continue
        compared += 1
        outcomes = zerofleet_core.othello_action_outcomes(oracle.history())
        sign = 1 if oracle.current_player() == 0 else -1
        expected = {a: sign * best_for_first(oracle.child(a)) for a in oracle.legal_actions()}
        assert {a: outcome for a, outcome in enumerate(outcomes) if outcome is not None} == expected
