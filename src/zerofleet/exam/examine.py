"""One entry for every game that has an exam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zerofleet.config import SearchSection
from zerofleet.database import WrongAnswer
from zerofleet.errors import ConfigError
from zerofleet.exam.examined_player import MOST_ROWS, ExaminedPlayer
from zerofleet.exam.good_play import good_sample
from zerofleet.exam.lines import walk_lines, wrong_lines
from zerofleet.exam.sample import answer, random_sample, wrong_answer
from zerofleet.prediction import Predictor

PositionKind = Literal["lines", "random", "good"]
"""``lines``: the games of tic-tac-toe; ``random``: positions of random play, of Connect Four or of
the last empty squares of Othello; ``good``: positions of Connect Four near good play."""

_KINDS: dict[str, tuple[PositionKind, ...]] = {
    "connect_four": ("random", "good"),
    "othello": ("random",),
    "tic_tac_toe": ("lines",),
}


@dataclass(frozen=True, slots=True)
class ExamResult:
    """What an exam found.

    ``positions`` counts the finished games walked (tic-tac-toe) or the positions of the sample
    (the others); ``errors`` the games lost, or the actions that threw an outcome away.
    """

    game: str
    kind: PositionKind
    num_simulations: int
    positions: int
    errors: int
    prior_errors: int | None = None
    """Of a sample, by the network's prior alone; None: not asked."""
    value_error: float | None = None
    """Mean square of the searched value less the outcome of perfect play; None: not known."""
    wrong: tuple[bool, ...] = ()
    """[positions] which ones of a sample the player erred in."""
    wrong_answers: tuple[WrongAnswer, ...] = ()
    """The positions themselves; of tic-tac-toe those in which it let go of the draw."""

    @property
    def error_rate(self) -> float:
        """Share of errors, in [0, 1]."""
        return self.errors / self.positions


def has_exam(game: str) -> bool:
    """Whether perfect play of this game is known here."""
    return game in _KINDS


def position_kinds(game: str) -> tuple[PositionKind, ...]:
    """The kinds of positions that a game can be examined in; none where it has no exam."""
    return _KINDS.get(game, ())


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
    """Examine ``predictor`` behind a search of ``num_simulations`` for each action.

    Args:
        game: a game for which ``has_exam`` is true.
        predictor: the examined network; asked for many positions at once.
        num_simulations: simulations for each action.
        positions: size of the sample, at most; tic-tac-toe is always walked in full.
        kind: of the positions; by default the game's first one.
        seed: of random positions; the same one everywhere, so that models of all runs compare.
        search: the run's; by default that of a run file without ``[search]``.
        most_rows: positions of one request at most; a server's limit is ``max_batch_rows``.

    Raises:
        ConfigError: no exam for this game, or no such positions.
        InferenceUnavailableError, OverloadedError: from ``predictor``.
    """
    kinds = position_kinds(game)
    if not kinds:
        raise ConfigError(f"there is no exam for {game!r}: it exists for {', '.join(_KINDS)}")
    kind = kind or kinds[0]
    if kind not in kinds:
        raise ConfigError(
            f"the exam of {game} has no {kind!r} positions: ask for {' or '.join(kinds)}"
        )
    section = search or SearchSection()
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
    if kind == "random":
        sample = await random_sample(game, positions, seed)
    else:
        sample = good_sample(positions)
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
            wrong_answer(game, position.actions, action, position.best_actions)
            for position, action in zip(sample, answers.chosen, strict=True)
            if position.is_error(action)
        ),
    )
