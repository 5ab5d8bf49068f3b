"""The exam of a game: one function for every game that has one.

Connect Four, Othello and chess are examined in samples of positions (``sample``,
``chess_positions``). Tic-tac-toe and small games in Python are walked in full (``lines``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zerofleet.config import SearchSection
from zerofleet.database import GroupErrors, WrongAnswer
from zerofleet.errors import ConfigError
from zerofleet.exam.chess_positions import chess_sample
from zerofleet.exam.examined_player import MOST_ROWS, ExaminedPlayer
from zerofleet.exam.lines import is_small, walk_lines, wrong_lines
from zerofleet.exam.sample import (
    LabelledPosition,
    answer,
    count_groups,
    good_sample,
    python_rules,
    random_sample,
    wrong_answer,
)
from zerofleet.games.chess import is_chess
from zerofleet.prediction import Predictor
from zerofleet.search_configs import PLAIN_SEARCH

PositionKind = Literal["lines", "random", "good", "endgames", "mates"]
"""Kinds of positions of an exam.

``lines``: the games of tic-tac-toe, or of a small game in Python. ``random``: positions of random
play, of Connect Four, with the last empty squares of Othello, or of a larger game in Python.
``good``: positions of Connect Four near good play. ``endgames``: positions of chess with three or
four pieces. ``mates``: forced mates of chess in one to three moves.
"""

_KINDS: dict[str, tuple[PositionKind, ...]] = {
    "chess": ("endgames", "mates"),
    "connect_four": ("random", "good"),
    "othello": ("random",),
    "tic_tac_toe": ("lines",),
}

OWN_EXAM_HINT = (
    "Your class can define perfect_outcomes: see the tutorial Your own game, section Add an exam."
)
"""Sentence for a game in Python without an exam."""


@dataclass(frozen=True, slots=True)
class ExamResult:
    """Result of an exam.

    For ``lines``, ``positions`` counts the finished games and ``errors`` the games that the player
    lost by a mistake of its own. For the other kinds they count the positions of the sample, and
    the answers that lose value.
    """

    game: str
    kind: PositionKind
    num_simulations: int
    positions: int
    errors: int
    prior_errors: int | None = None
    """Errors in a sample by the network's prior alone; None for ``lines``."""
    value_error: float | None = None
    """Mean squared error of the searched value against perfect play; None for ``lines``."""
    wrong: tuple[bool, ...] = ()
    """Whether the player made a mistake in each position of a sample, [positions]."""
    wrong_answers: tuple[WrongAnswer, ...] = ()
    """Positions with a wrong answer; for ``lines`` the ones in which it lost by that answer."""
    groups: tuple[GroupErrors, ...] = ()
    """Errors by material or by length of the mate, short names first; empty for other games."""

    @property
    def error_rate(self) -> float:
        """Share of errors, in [0, 1]."""
        return self.errors / self.positions


def has_exam(game: str) -> bool:
    """Return whether perfect play of this game is known here."""
    return python_rules(game) is not None or bool(_kinds(game))


def position_kinds(game: str) -> tuple[PositionKind, ...]:
    """Return the kinds of positions that a game can be examined in; empty if it has no exam.

    The first call for a game in Python takes seconds, because it counts the positions.
    """
    if python_rules(game) is not None:
        return ("lines",) if is_small(game) else ("random",)
    return _kinds(game)


def _kinds(game: str) -> tuple[PositionKind, ...]:
    return _KINDS.get("chess" if is_chess(game) else game, ())


async def examine(
    game: str,
    predictor: Predictor,
    *,
    num_simulations: int,
    positions: int,
    kind: PositionKind | None = None,
    seed: int = 1,
    search: SearchSection | None = None,
    most_rows: int = MOST_ROWS,
) -> ExamResult:
    """Examine ``predictor`` with a search of ``num_simulations`` for each action.

    Args:
        game: a game for which ``has_exam`` is true.
        predictor: the examined network; predicts many positions at once.
        num_simulations: simulations for each action.
        positions: upper limit of the sample's size; lines are always walked in full.
        kind: kind of positions; by default the game's first one.
        seed: seed of random positions; the same everywhere, so that models of all runs compare.
        search: the run's settings; by default PUCT without proofs.
        most_rows: upper limit of positions in one request; a server's is ``max_batch_rows``.

    Raises:
        ConfigError: no exam for this game, or no such positions.
        InferenceUnavailableError, OverloadedError: from ``predictor``.
    """
    kinds = position_kinds(game)
    if not kinds:
        raise ConfigError(
            f"there is no exam for '{game}', only for {', '.join(_KINDS)}, and for games in Python "
            "whose class defines perfect_outcomes()"
        )
    kind = kind or kinds[0]
    if kind not in kinds:
        raise ConfigError(
            f"the exam of {game} has no sample of positions named '{kind}': choose "
            f"{' or '.join(kinds)}"
        )
    section = search or PLAIN_SEARCH
    player = ExaminedPlayer.of(game, predictor, num_simulations, section, most_rows)
    if kind == "lines":
        walk = await walk_lines(player)
        return ExamResult(
            game,
            kind,
            num_simulations,
            walk.finished,
            walk.lost,
            wrong_answers=wrong_lines(game, walk.answers) if walk.lost else (),
        )
    sample: Sequence[LabelledPosition]
    if kind == "random":
        sample = await random_sample(game, positions, seed)
    elif kind == "good":
        sample = good_sample(positions)
    else:
        sample = chess_sample(game, kind, positions)
    answers = await answer(player, sample)
    return ExamResult(
        game,
        kind,
        num_simulations,
        len(sample),
        sum(answers.wrong),
        answers.prior_errors,
        answers.value_error,
        answers.wrong,
        tuple(
            wrong_answer(game, position.actions, action, position.best_actions, position.start)
            for position, action in zip(sample, answers.chosen, strict=True)
            if position.is_error(action)
        ),
        count_groups(sample, answers.wrong),
    )
