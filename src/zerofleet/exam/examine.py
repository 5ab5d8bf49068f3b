"""One entry for every game that has an exam."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.config import SearchSection
from zerofleet.errors import ConfigError
from zerofleet.exam.examined_player import MOST_ROWS, ExaminedPlayer
from zerofleet.exam.lines import walk_lines
from zerofleet.exam.sample import connect_four_sample, count_errors
from zerofleet.prediction import Predictor

_GAMES = ("connect_four", "tic_tac_toe")


@dataclass(frozen=True, slots=True)
class ExamResult:
    """What an exam found.

    ``positions`` counts the finished games walked (tic-tac-toe) or the positions of the sample
    (Connect Four); ``errors`` the games lost, or the actions that threw an outcome away.
    """

    game: str
    num_simulations: int
    positions: int
    errors: int

    @property
    def error_rate(self) -> float:
        """Share of errors, in [0, 1]."""
        return self.errors / self.positions


def has_exam(game: str) -> bool:
    """Whether perfect play of this game is known here."""
    return game in _GAMES


async def examine(
    game: str,
    predictor: Predictor,
    *,
    num_simulations: int,
    positions: int,
    seed: int = 1,
    search: SearchSection | None = None,
    most_rows: int = MOST_ROWS,
) -> ExamResult:
    """Examine ``predictor`` behind a search of ``num_simulations`` for each action.

    Args:
        game: a game for which ``has_exam`` is true.
        predictor: the examined network; asked for many positions at once.
        num_simulations: simulations for each action.
        positions: size of the sample (Connect Four); tic-tac-toe is always walked in full.
        seed: of the sample; the same one everywhere, so that models of all runs compare.
        search: the run's; by default that of a run file without ``[search]``.
        most_rows: positions of one request at most; a server's limit is ``max_batch_rows``.

    Raises:
        ConfigError: no exam for this game.
        InferenceUnavailableError, OverloadedError: from ``predictor``.
    """
    section = search or SearchSection()
    player = ExaminedPlayer.of(game, predictor, num_simulations, section, most_rows)
    if game == "tic_tac_toe":
        walk = await walk_lines(player)
        return ExamResult(game, num_simulations, walk.finished, walk.lost)
    if game == "connect_four":
        sample = await connect_four_sample(positions, seed)
        errors = await count_errors(player, sample)
        return ExamResult(game, num_simulations, len(sample), errors)
    raise ConfigError(f"there is no exam for {game!r}: it exists for {', '.join(_GAMES)}")
