"""Games of Go against GNU Go: points won, area won, and the komi at which the score would be even.

Whoever loses all games learns nothing from the score, but something from the margin. So GNU Go may
not resign, and a margin is the difference in area at the end, without komi. Each opening is random
and played twice with colours swapped, so that the first move's advantage does not count in the mean
of the margins.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from zerofleet.config import RunConfig
from zerofleet.database import MatchGame
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.go import GoRules
from zerofleet.match.anchors import GtpPlayer, gnugo_command, go_setup, why_absent
from zerofleet.match.play_match import PairQueue, SearchPlayer, draw_openings, play_match
from zerofleet.prediction import Predictor
from zerofleet.search_configs import match_search

LEVELS = (1, 5, 10)
"""Of GNU Go, which an exam asks unless it is told others."""
_PAIRS_AT_ONCE = 8  # each game has a program of its own, which ends with the last of them


@dataclass(frozen=True, slots=True)
class GnuGoGames:
    """How a player's games against a level of GNU Go ended, both colours as often."""

    level: int
    games: int
    wins: int
    draws: int
    margins: tuple[int, ...]
    """Of each game that both played to its end, the player's area less GNU Go's, without komi."""

    @property
    def given_up(self) -> int:
        """The games among ``wins`` in which GNU Go gave up, erred, or refused a legal move."""
        return self.games - len(self.margins)

    @property
    def mean_margin(self) -> float | None:
        """None: GNU Go played an illegal move, or refused a legal one, in every game."""
        return statistics.fmean(self.margins) if self.margins else None

    @property
    def even_komi(self) -> float | None:
        """The points that the player would need, in place of the komi, to win half of the games.

        That is the median of what it lacked; below 0, what it could give.
        """
        return -statistics.median(self.margins) if self.margins else None


def check_gnu_go(game: str) -> None:
    """Look for GNU Go.

    Raises:
        ConfigError: it does not play this game, or is not installed.
    """
    reason = why_absent("gnugo:1", game)
    if reason is not None:
        raise ConfigError(reason)


async def play_gnu_go(
    run: RunConfig,
    predictor: Predictor,
    level: int,
    games: int,
    num_simulations: int,
    told: Callable[[int, int], None] | None = None,
) -> GnuGoGames:
    """Play so many games against a level of GNU Go.

    Args:
        run: whose game, ``[search]``, seed and openings these are (``evaluator.opening_plies``).
        predictor: the player's network.
        level: of GNU Go, 1 to 10.
        games: an even number: each opening is played twice. Fewer where the openings are fewer.
        num_simulations: of the player, for each action.
        told: is called after every 16 games or fewer, with those that are over and all.

    Raises:
        ConfigError: see ``check_gnu_go``; or no game goes on after the opening.
        EngineGoneError: GNU Go ended, or does not answer.
        GtpError: it refuses the board or komi, or gives up before the first action.
        InferenceUnavailableError, OverloadedError: from ``predictor``.
    """
    game = run.game.name
    check_gnu_go(game)
    rules = GoRules.of(game)
    command = gnugo_command(level, rules, resigns=False)
    assert command is not None, "GNU Go was there a moment ago"
    openings = draw_openings(game, run.evaluator.opening_plies, games // 2, run.seed)
    played: list[MatchGame] = []

    async def keep(finished: Sequence[MatchGame]) -> None:
        played.extend(finished)

    player = SearchPlayer(predictor, match_search(run.search, num_simulations))
    thinking = asyncio.Semaphore(os.cpu_count() or 1)
    at_once = min(_PAIRS_AT_ONCE, max(1, run.inference.max_batch_rows // 2))
    places = [(opening, colour) for opening in range(len(openings)) for colour in (0, 1)]
    for begin in range(0, len(places), 2 * at_once):
        async with AsyncExitStack() as programs:
            other = GtpPlayer(game, command, go_setup(rules), programs, thinking)
            queue = PairQueue(places[begin : begin + 2 * at_once], at_once)
            await play_match(game, openings, (player, other), queue, keep)
        if told is not None:
            told(len(played), len(places))
    results = [(each.record.result or 0) * (1 - 2 * each.color) for each in played]
    margins = [margin for each in played if (margin := _margin(game, each)) is not None]
    return GnuGoGames(level, len(played), results.count(1), results.count(0), tuple(margins))


def _margin(game: str, played: MatchGame) -> int | None:
    """The player's area less the other's; None of a game that was given up."""
    state = State(game, played.record.columns.action.tolist())
    if not state.is_terminal:
        return None
    return int(state.final_planes().sum()) * (1 - 2 * played.color)
