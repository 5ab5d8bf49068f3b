"""The solvers as Python sees them."""

from __future__ import annotations

import random

import pytest
from zerofleet_core import (
    State,
    connect_four_action_outcomes,
    connect_four_outcome,
    othello_action_outcomes,
)


def random_line(generator: random.Random, plies: int) -> list[int]:
    """Actions after which the game goes on."""
    while True:
        state, line = State("connect_four"), list[int]()
        while len(line) < plies and not state.is_terminal:
            line.append(generator.choice(state.legal_actions()))
            state.apply(line[-1])
        if not state.is_terminal:
            return line


def plain_outcome(state: State) -> int:
    """For the player to move, by looking at everything that can follow."""
    if state.is_terminal:
        return state.result if state.to_play == 0 else -state.result
    best = -1
    for action in state.legal_actions():
        after = state.copy()
        after.apply(action)
        best = max(best, -plain_outcome(after))
        if best == 1:
            break
    return best


def test_late_positions_agree_with_plain_search() -> None:
    generator = random.Random(1)
    for plies in [*range(34, 42)] * 5:
        line = random_line(generator, plies)
        assert connect_four_outcome(line) == plain_outcome(State("connect_four", line)), line


def test_outcomes_of_actions_are_those_of_the_positions_they_lead_to() -> None:
    generator = random.Random(2)
    for plies in (16, 20, 24, 28, 32, 36, 40):
        line = random_line(generator, plies)
        state = State("connect_four", line)
        outcomes = connect_four_action_outcomes(line)
        legal = [column for column, outcome in enumerate(outcomes) if outcome is not None]
        assert legal == state.legal_actions()
        for column in legal:
            after = State("connect_four", [*line, column])
            expected = 1 if after.is_terminal and after.result else None
            if expected is None:
                expected = 0 if after.is_terminal else -connect_four_outcome([*line, column])
            assert outcomes[column] == expected, (line, column)
        assert connect_four_outcome(line) == max(o for o in outcomes if o is not None)


def test_a_win_at_once_and_a_threat_that_must_be_met() -> None:
    three_in_a_column = [3, 0, 3, 0, 3, 6]
    assert connect_four_outcome(three_in_a_column) == 1
    assert connect_four_action_outcomes(three_in_a_column)[3] == 1
    two_ends_open = [2, 2, 3, 3, 4]  # 1 and 5 both win: the second player cannot stop it
    assert connect_four_outcome(two_ends_open) == -1
    assert connect_four_action_outcomes(two_ends_open) == [-1] * 7


@pytest.mark.parametrize("outcome", [connect_four_outcome, connect_four_action_outcomes])
def test_bad_lines_are_refused(outcome: object) -> None:
    assert callable(outcome)
    with pytest.raises(ValueError, match="action 7 at ply 1 is illegal in connect_four"):
        outcome([0, 7])
    with pytest.raises(ValueError, match="action 0 at ply 6"):
        outcome([0] * 7)
    with pytest.raises(ValueError, match="over"):
        outcome([0, 1, 0, 1, 0, 1, 0])


def test_the_solver_of_othello_takes_late_positions_alone() -> None:
    with pytest.raises(ValueError, match=r"60 squares are empty: .* takes at most 16"):
        othello_action_outcomes([])
    with pytest.raises(ValueError, match="action 0 at ply 0 is illegal in othello"):
        othello_action_outcomes([0])


@pytest.mark.slow
def test_the_first_player_wins_in_the_centre() -> None:
    """The line that Allen and Allis found in 1988, in which both stay in the centre."""
    assert connect_four_outcome([3, 3]) == 1
