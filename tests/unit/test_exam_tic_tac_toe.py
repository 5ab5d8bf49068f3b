"""The exam of tic-tac-toe against players whose result is known."""

import functools

import numpy as np
import pytest
from numpy.typing import NDArray
from zerofleet_core import State

from zerofleet.errors import ConfigError
from zerofleet.exam import examine, has_exam
from zerofleet.games import parse_actions
from zerofleet.prediction import Prediction

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


@functools.cache
def outcome(mine: frozenset[int], theirs: frozenset[int]) -> int:
    """Return the outcome of perfect play for the player to move, without the code under test."""
    if any(theirs.issuperset(line) for line in LINES):
        return -1
    free = [point for point in range(9) if point not in mine | theirs]
    return max((-outcome(theirs, mine | {point}) for point in free), default=0)


class Oracle:
    """Perfect play (``sign`` 1), its opposite (-1), from the observation alone."""

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.rows = 0

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        self.rows += len(observations)
        logits = np.full((len(observations), 9), -4.0, np.float16)
        value = np.zeros(len(observations), np.float32)
        planes = np.unpackbits(observations, axis=1)[:, :27].reshape(-1, 3, 9)
        for row, (first, second, _) in enumerate(planes):
            to_move = [first, second] if first.sum() == second.sum() else [second, first]
            mine, theirs = (frozenset(np.flatnonzero(marks).tolist()) for marks in to_move)
            free = [point for point in range(9) if point not in mine | theirs]
            worth = {point: -outcome(theirs, mine | {point}) * self.sign for point in free}
            best = max(worth.values())
            logits[row, [point for point in free if worth[point] == best]] = 4.0
            value[row] = best
        return Prediction(logits, value, 1)


@pytest.mark.parametrize("num_simulations", [2, 50])
async def test_perfect_play_loses_no_line(num_simulations: int) -> None:
    result = await examine("tic_tac_toe", Oracle(1), num_simulations=num_simulations, positions=1)
    assert (result.errors, result.error_rate, result.wrong_answers) == (0, 0.0, ())
    assert result.positions > 300
    assert (result.game, result.num_simulations) == ("tic_tac_toe", num_simulations)


async def test_whoever_wants_to_lose_loses_most_lines() -> None:
    result = await examine("tic_tac_toe", Oracle(-1), num_simulations=2, positions=1)
    assert result.error_rate > 0.5


async def test_the_lines_are_those_of_the_games_a_fixed_player_can_meet() -> None:
    """A player that always takes the first free point, walked here by plain recursion."""

    class FirstFree:
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            logits = np.tile(np.arange(9, 0, -1, dtype=np.float16) * 2, (len(observations), 1))
            return Prediction(logits, np.zeros(len(observations), np.float32), 1)

    def walk(state: State, player: int) -> tuple[int, int]:
        if state.is_terminal:
            lost = state.result == (-1 if player == 0 else 1)
            return 1, int(lost)
        actions = state.legal_actions()
        totals = np.zeros(2, np.int64)
        for action in actions[:1] if state.to_play == player else actions:
            after = state.copy()
            after.apply(action)
            totals += walk(after, player)
        return int(totals[0]), int(totals[1])

    both = np.add(walk(State("tic_tac_toe"), 0), walk(State("tic_tac_toe"), 1))
    result = await examine("tic_tac_toe", FirstFree(), num_simulations=1, positions=1)
    assert (result.positions, result.errors) == tuple(both)
    assert result.wrong_answers
    for each in result.wrong_answers:
        actions = parse_actions("tic_tac_toe", each.moves)
        mine, theirs = (frozenset(actions[(len(actions) + side) % 2 :: 2]) for side in (0, 1))
        state = State("tic_tac_toe", actions)
        worth = {
            state.action_to_string(point): -outcome(theirs, mine | {point})
            for point in state.legal_actions()
        }
        assert worth[each.played] == -1
        assert set(each.right) == {word for word in worth if worth[word] >= 0}


async def test_the_exam_is_cheap_and_gives_one_model_one_result() -> None:
    first, second = Oracle(-1), Oracle(-1)
    results = [
        await examine("tic_tac_toe", oracle, num_simulations=20, positions=1)
        for oracle in (first, second)
    ]
    assert results[0] == results[1]
    assert first.rows == second.rows
    assert first.rows < 5_478 * 2  # the legal positions of the game, with room for no cache at all


async def test_a_game_without_an_exam_is_refused() -> None:
    assert not has_exam("gomoku")
    with pytest.raises(ConfigError, match="no exam for 'gomoku'"):
        await examine("gomoku", Oracle(1), num_simulations=1, positions=1)
