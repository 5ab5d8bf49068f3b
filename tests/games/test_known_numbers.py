"""Published numbers for the games, counted again through the Python rules."""

from __future__ import annotations

from collections import Counter

import pytest

from zerofleet.games import State


def census(game: str, depth: int) -> list[dict[int, tuple[State, int]]]:
    """Return, for each ply, the distinct positions by hash and the number of lines to each."""
    levels: list[dict[int, tuple[State, int]]] = [{State(game).hash: (State(game), 1)}]
    for _ in range(depth):
        level: dict[int, tuple[State, int]] = {}
        for state, lines in levels[-1].values():
            for action in state.legal_actions():
                after = state.copy()
                after.apply(action)
                _, others = level.get(after.hash, (after, 0))
                level[after.hash] = (after, others + lines)
        levels.append(level)
    return levels


def lines(level: dict[int, tuple[State, int]], *, ended: bool = False) -> int:
    return sum(count for state, count in level.values() if state.is_terminal or not ended)


def test_tic_tac_toe() -> None:
    levels = census("tic_tac_toe", 9)
    assert [len(level) for level in levels] == [1, 9, 72, 252, 756, 1260, 1520, 1140, 390, 78]
    alive = [1, 9, 72, 504, 3024, 15120, 54720, 148176, 200448, 127872]
    assert [lines(level) for level in levels] == alive
    ended = [0, 0, 0, 0, 0, 1440, 5328, 47952, 72576, 127872]
    assert [lines(level, ended=True) for level in levels] == ended
    terminal = [entry for level in levels for entry in level.values() if entry[0].is_terminal]
    assert Counter(state.result for state, _ in terminal) == {1: 626, -1: 316, 0: 16}
    results: Counter[int] = Counter()
    for state, count in terminal:
        results[state.result] += count
    assert results == {1: 131_184, -1: 77_904, 0: 46_080}


def test_perfect_tic_tac_toe_is_a_draw() -> None:
    values: dict[int, int] = {}  # for the first player
    for level in reversed(census("tic_tac_toe", 9)):
        for key, (state, _) in level.items():
            outcomes = []
            for action in state.legal_actions():
                after = state.copy()
                after.apply(action)
                outcomes.append(values[after.hash])
            best = max if state.to_play == 0 else min
            values[key] = state.result if state.is_terminal else best(outcomes)
    assert values[State("tic_tac_toe").hash] == 0


def test_connect_four() -> None:
    levels = census("connect_four", 6)
    assert [len(level) for level in levels] == [1, 7, 49, 238, 1120, 4263, 16422]
    assert [lines(level) for level in levels] == [7**ply for ply in range(7)]


@pytest.mark.slow
def test_connect_four_deeper() -> None:
    levels = census("connect_four", 8)
    assert [len(level) for level in levels[7:]] == [54859, 184275]
    assert [lines(level) for level in levels[7:]] == [823536, 5673234]
    assert [lines(level, ended=True) for level in levels[7:]] == [13032, 44430]


def test_othello() -> None:
    """Source: aartbik.blogspot.com, 2009. A pass is a ply; the first one occurs at ply 9."""
    levels = census("othello", 6)
    assert [lines(level) for level in levels] == [1, 4, 12, 56, 244, 1396, 8200]
    assert [len(level) for level in levels] == [1, 4, 12, 54, 236, 1288, 7092]


def census_of_go(size: int, depth: int, *, suicide: bool = True) -> list[int]:
    """Count lines of play one by one: equal boards can differ in the moves that superko forbids."""
    name = f"go(size={size},suicide={'true' if suicide else 'false'})"
    level, counts = [State(name)], [1]
    for _ in range(depth - 1):
        after: list[State] = []
        for state in level:
            for action in state.legal_actions():
                after.append(state.copy())
                after[-1].apply(action)
        counts.append(len(after))
        level = after
    return [*counts[1:], sum(len(state.legal_actions()) for state in level)]


def test_go() -> None:
    """Tromp-Taylor rules with strict alternation; the C++ tests count to greater depths."""
    assert census_of_go(2, 7) == [5, 21, 68, 156, 316, 604, 1088]
    assert census_of_go(3, 4) == [10, 91, 738, 5281]
    assert census_of_go(5, 3) == [26, 651, 15650]


@pytest.mark.slow
def test_suicide_tells_two_rules_of_go_apart_at_the_sixth_ply() -> None:
    assert census_of_go(3, 6) == [10, 91, 738, 5281, 33384, 180768]
    assert census_of_go(3, 6, suicide=False) == [10, 91, 738, 5281, 33384, 179712]
