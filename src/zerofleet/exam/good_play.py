"""Positions of Connect Four near good play: what a good player meets, and errs in.

They come from games in which each side plays an action of the best outcome with the probability of
``CARE``, and any legal action otherwise; at most ``MOST_A_PLY`` of a ply. The solver needs half a
minute for a position of two plies and seconds for the next ones. So the first action is careful by
what is known, that the centre alone wins (Allis 1988); the second is any, for after the centre all
are lost; each opening is gone on from several times; and the positions are kept in a file, which
``write_file`` makes again in about three minutes.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from zerofleet_core import State, connect_four_action_outcomes

from zerofleet.exam.sample import GAME, LabelledPosition, symmetry_key

CARE = (0.95, 0.85, 0.7)
"""Probability of an optimal action; one for each opening, in turn."""
MOST_A_PLY = 30
_OPENINGS = 30
_OPENING_PLIES = 8
_GAMES = 10  # from each opening
_SEED = 1
_CENTRE, _LAST_COLUMN = 3, 6
_FILE = Path(__file__).with_name("good_play.txt")
_SIGNS: dict[str, int | None] = {"+": 1, "=": 0, "-": -1, ".": None}

Outcomes = Callable[[Sequence[int]], Sequence[int | None]]


def good_sample(size: int | None = None) -> tuple[LabelledPosition, ...]:
    """So many of the positions, or all; they are in no order: any number is a sample of all."""
    return _kept()[:size]


@functools.cache
def _kept() -> tuple[LabelledPosition, ...]:
    return tuple(map(_read, _FILE.read_text(encoding="ascii").splitlines()))


def _read(line: str) -> LabelledPosition:
    actions, outcomes = line.split(" ")
    return LabelledPosition(tuple(map(int, actions)), tuple(_SIGNS[sign] for sign in outcomes))


def _written(position: LabelledPosition) -> str:
    signs = {outcome: sign for sign, outcome in _SIGNS.items()}
    actions = "".join(map(str, position.actions))
    return f"{actions} {''.join(signs[outcome] for outcome in position.outcomes)}"


def draw_good_positions(
    openings: int, games: int, seed: int, outcomes: Outcomes = connect_four_action_outcomes
) -> list[LabelledPosition]:
    """The positions of games in which an error is possible, shuffled.

    Args:
        openings: that are played.
        games: that go on from each.
        seed: of the games and of the order.
        outcomes: of each action after a list of actions, under perfect play.
    """
    generator = random.Random(seed)
    solve = _remembering(outcomes)
    found: dict[bytes, LabelledPosition] = {}
    plies: Counter[int] = Counter()

    def play(state: State, actions: list[int], care: float, last_ply: int) -> None:
        while not state.is_terminal and state.ply < last_ply:
            position = LabelledPosition(tuple(actions), tuple(solve(actions)))
            key, ply = symmetry_key(state), state.ply
            if position.allows_error and key not in found and plies[ply] < MOST_A_PLY:
                found[key] = position
                plies[ply] += 1
            careful = generator.random() < care
            action = generator.choice(position.best_actions if careful else state.legal_actions())
            state.apply(action)
            actions.append(action)

    for number in range(openings):
        care = CARE[number % len(CARE)]
        columns = State(GAME).legal_actions()
        first = _CENTRE if generator.random() < care else generator.choice(columns)
        opening = [first, generator.choice(columns)]
        state = State(GAME, opening)
        play(state, opening, care, _OPENING_PLIES)
        for _ in range(games):
            play(state.copy(), list(opening), care, sys.maxsize)
    positions = list(found.values())
    generator.shuffle(positions)
    return positions


def _remembering(outcomes: Outcomes) -> Outcomes:
    """The same function; what it has said of a position it also knows of the mirror image."""
    known: dict[bytes, Sequence[int | None]] = {}

    def solve(actions: Sequence[int]) -> Sequence[int | None]:
        here, mirrored = (
            State(GAME, line).observation().tobytes()
            for line in (actions, [_LAST_COLUMN - action for action in actions])
        )
        if here not in known:
            known[here] = outcomes(actions)
            known[mirrored] = known[here][::-1]
        return known[here]

    return solve


def write_file() -> None:
    """Find all positions anew and write them to the file of this package."""
    positions = draw_good_positions(_OPENINGS, _GAMES, _SEED)
    _FILE.write_text("".join(f"{_written(each)}\n" for each in positions), encoding="ascii")
