"""Exams by samples: fixed seeded positions of a game, labelled by its exact solver.

Each position comes from random legal play, in Connect Four to 10 to 30 discs, in Othello to the
last 6 to 12 empty squares. It is not over, and offers at least two actions whose outcomes under
perfect play differ, so that an error is possible. Positions that differ only by a symmetry of the
board count once.

A game written in Python has such an exam if its class defines ``perfect_outcomes`` and it has too
many positions to examine every line of play (``lines``). Its positions are of any ply.

Connect Four has a second kind: positions near good play, which a good player meets and makes
mistakes in. They come from games in which each side plays an action of the best outcome with the
probability ``CARE``, and any legal action otherwise; at most ``MOST_A_PLY`` of a ply count. The
solver needs half a minute for a position of two plies and seconds for the next ones. So the first
action is careful by what is known: only the centre wins (Allis 1988). The second is any action,
because after the centre all lose. Each opening is continued several times. The positions are stored
in a file, which ``write_good_positions`` makes again in about three minutes.
"""

from __future__ import annotations

import asyncio
import functools
import random
import statistics
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from zerofleet_core import (
    State,
    connect_four_action_outcomes,
    game_spec,
    othello_action_outcomes,
    transform_observation,
)

from zerofleet.database import GroupErrors, WrongAnswer
from zerofleet.errors import ConfigError
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.games import format_actions
from zerofleet.games.game_specs import outside_rules
from zerofleet.games.python_game import ClassRules

GAME = "connect_four"
"""Game of the exams that support only one game."""

CARE = (0.95, 0.85, 0.7)
"""Probability of an optimal action, one for each opening in turn."""
MOST_A_PLY = 30
_OPENINGS = 30
_OPENING_PLIES = 8
_GAMES = 10  # games from each opening
_SEED = 1
_CENTRE, _LAST_COLUMN = 3, 6
_FILE = Path(__file__).with_name("good_play.txt")
SIGNS: dict[str, int | None] = {"+": 1, "=": 0, "-": -1, ".": None}
"""Outcomes as the files of positions write them; None: an illegal action."""

Outcomes = Callable[[Sequence[int]], Sequence[int | None]]


@dataclass(frozen=True, slots=True)
class _SolvedGame:
    """How positions of a game are drawn and labelled."""

    least_discs: int
    most_discs: int  # most discs on the board, of both players
    action_outcomes: Callable[[Sequence[int]], Sequence[int | None]]


_DRAWS = 500
"""Positions drawn without a new one that allows an error, until a game counts as exhausted."""

_SOLVED = {
    "connect_four": _SolvedGame(10, 30, connect_four_action_outcomes),
    "othello": _SolvedGame(52, 58, othello_action_outcomes),
}


@dataclass(frozen=True, slots=True)
class LabelledPosition:
    """A position and the outcome of each action under perfect play."""

    actions: tuple[int, ...]  # played so far
    outcomes: tuple[int | None, ...]  # [num_actions] for the player to move; None: illegal
    start: str = ""  # the position before these actions; empty: the usual start
    group: str = ""  # errors are counted for each group; empty: there are no groups

    @property
    def value(self) -> int:
        """The outcome of perfect play, for the player to move."""
        return max(outcome for outcome in self.outcomes if outcome is not None)

    @property
    def best_actions(self) -> list[int]:
        """Actions with the best outcome."""
        value = self.value
        return [action for action, each in enumerate(self.outcomes) if each == value]

    @property
    def allows_error(self) -> bool:
        """Whether two actions differ in their outcome."""
        return len({outcome for outcome in self.outcomes if outcome is not None}) > 1

    def is_error(self, action: int) -> bool:
        """Return whether another action would have kept a better outcome."""
        return self.outcomes[action] != self.value


def python_rules(game: str) -> ClassRules | None:
    """Return the rules of a game in Python whose class knows perfect play; None: another game."""
    rules = outside_rules(game) if game.startswith("python:") else None
    return rules if isinstance(rules, ClassRules) and rules.knows_perfect_play else None


async def random_sample(game: str, size: int, seed: int) -> tuple[LabelledPosition, ...]:
    """Return the sample of ``size`` positions of ``game``; each is labelled once in a process.

    A thread labels one position at a time, so that a cancelled exam ends within one position. A
    small game may have fewer positions.

    Raises:
        ConfigError: no position of the game was found that allows an error.
    """
    sample = _sample_of(game, seed)
    while len(sample.positions) < size and sample.misses < _DRAWS:
        await asyncio.to_thread(sample.grow)
    if not sample.positions:
        raise ConfigError(
            f"game '{game}': none of {_DRAWS} positions of random play has perfect_outcomes() "
            "that differ, so that an error is possible"
        )
    return tuple(sample.positions[:size])


@dataclass(frozen=True, slots=True)
class Answers:
    """A player's answers to a sample."""

    chosen: tuple[int, ...]  # [positions] the chosen action
    wrong: tuple[bool, ...]  # [positions] whether the action gave up an outcome
    prior_errors: int  # positions in which the best action by the prior alone is wrong
    # mean squared difference of the root's value and the outcome of perfect play
    value_error: float


async def answer(player: ExaminedPlayer, sample: Sequence[LabelledPosition]) -> Answers:
    """Search every position of the sample with the player."""
    results = await player.search(
        [position.actions for position in sample], [position.start for position in sample]
    )
    pairs = list(zip(sample, results, strict=True))
    return Answers(
        tuple(result.best_action for result in results),
        tuple(position.is_error(result.best_action) for position, result in pairs),
        sum(
            position.is_error(int(result.actions[result.priors.argmax()]))
            for position, result in pairs
        ),
        statistics.fmean((result.root_value - position.value) ** 2 for position, result in pairs),
    )


def wrong_answer(
    game: str, actions: Sequence[int], played: int, right: Sequence[int], start: str = ""
) -> WrongAnswer:
    """Return a position with a wrong answer, in the game's notation."""
    state = State(game, actions, start)
    return WrongAnswer(
        format_actions(game, actions, start),
        state.action_to_san(played),
        tuple(map(state.action_to_san, right)),
        start,
    )


def count_groups(
    sample: Sequence[LabelledPosition], wrong: Sequence[bool]
) -> tuple[GroupErrors, ...]:
    """Return the errors in each group of a sample, short names first; empty: it has no groups.

    Args:
        wrong: whether the answer to each position was wrong, [positions].
    """
    errors: dict[str, list[bool]] = {}
    for position, is_wrong in zip(sample, wrong, strict=True):
        if position.group:
            errors.setdefault(position.group, []).append(is_wrong)
    names = sorted(errors, key=lambda name: (len(name), name))
    return tuple(GroupErrors(name, len(errors[name]), sum(errors[name])) for name in names)


class _Sample:
    """A game's positions for one seed, in the order of drawing."""

    def __init__(self, game: str, seed: int) -> None:
        self.positions: list[LabelledPosition] = []
        self.misses = 0
        """Positions drawn since the last one that was kept."""
        self._game = game
        self._solved = _SOLVED.get(game)
        self._rules = None if self._solved else python_rules(game)
        self._generator = random.Random(seed)
        self._seen: set[bytes] = set()
        self._one_at_a_time = threading.Lock()

    def grow(self) -> None:
        """Draw one more position; positions that allow no error are skipped."""
        with self._one_at_a_time:
            self.misses += 1
            actions, state = self._random_position()
            key = symmetry_key(state)
            if state.is_terminal or key in self._seen:
                return
            self._seen.add(key)
            outcomes = self._outcomes(actions, state)
            if outcomes is None:
                return
            position = LabelledPosition(tuple(actions), tuple(outcomes))
            if position.allows_error:
                self.positions.append(position)
                self.misses = 0

    def _random_position(self) -> tuple[list[int], State]:
        state = State(self._game)
        actions: list[int] = []
        if self._solved is None:
            while not state.is_terminal:
                actions.append(self._generator.choice(state.legal_actions()))
                state.apply(actions[-1])
            actions = actions[: self._generator.randrange(len(actions))]
            return actions, State(self._game, actions)
        discs = self._generator.randint(self._solved.least_discs, self._solved.most_discs)
        while not state.is_terminal and _discs(state) < discs:
            action = self._generator.choice(state.legal_actions())
            state.apply(action)
            actions.append(action)
        return actions, state

    def _outcomes(self, actions: Sequence[int], state: State) -> Sequence[int | None] | None:
        """Return the outcome of every action; None if perfect play is not known here."""
        if self._solved is not None:
            return self._solved.action_outcomes(actions)
        assert self._rules is not None
        position = self._rules.start()
        for action in actions:
            position.apply(action)
        known = position.perfect_outcomes()
        if known is None:
            return None
        outcomes: list[int | None] = [None] * self._rules.num_actions
        for action, outcome in zip(state.legal_actions(), known, strict=True):
            outcomes[action] = outcome
        return outcomes


@functools.cache
def _sample_of(game: str, seed: int) -> _Sample:
    return _Sample(game, seed)


def _discs(state: State) -> int:
    """Count the discs on the board, which are the first two planes."""
    points = game_spec(state.game).board_points
    return int(np.unpackbits(state.observation())[: 2 * points].sum())


def symmetry_key(state: State) -> bytes:
    """Return a key that a position shares with its images under the board's symmetries."""
    observation = state.observation()
    symmetries = range(game_spec(state.game).num_symmetries)
    images = (transform_observation(state.game, observation, each) for each in symmetries)
    return min(image.tobytes() for image in images)


def good_sample(size: int | None = None) -> tuple[LabelledPosition, ...]:
    """Return the first ``size`` positions near good play, or all; they are in no order."""
    return _good_positions()[:size]


@functools.cache
def _good_positions() -> tuple[LabelledPosition, ...]:
    return tuple(map(_read, _FILE.read_text(encoding="ascii").splitlines()))


def _read(line: str) -> LabelledPosition:
    actions, outcomes = line.split(" ")
    return LabelledPosition(tuple(map(int, actions)), tuple(SIGNS[sign] for sign in outcomes))


def _written(position: LabelledPosition) -> str:
    signs = {outcome: sign for sign, outcome in SIGNS.items()}
    actions = "".join(map(str, position.actions))
    return f"{actions} {''.join(signs[outcome] for outcome in position.outcomes)}"


def draw_good_positions(
    openings: int, games: int, seed: int, outcomes: Outcomes = connect_four_action_outcomes
) -> list[LabelledPosition]:
    """Return the positions of games in which an error is possible, shuffled.

    Args:
        games: games from each opening.
        seed: seed of the games and of the order.
        outcomes: returns the outcome of each action after a list of actions, under perfect play.
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
    """Return the same function with a cache that also covers mirror images."""
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


def write_good_positions() -> None:
    """Find all positions again and write them to the file of this package."""
    positions = draw_good_positions(_OPENINGS, _GAMES, _SEED)
    _FILE.write_text("".join(f"{_written(each)}\n" for each in positions), encoding="ascii")
