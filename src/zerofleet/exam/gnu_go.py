"""Games of Go against GNU Go: points won, area won, and the komi at which the score would be even.

If the player loses every game, the score does not show progress, but the margin does. So GNU Go may
not resign, and a margin is the difference in area at the end, without komi. Each opening is random
and played twice with colours swapped, so that the first move's advantage cancels out in the mean of
the margins.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from zerofleet.config import RunConfig
from zerofleet.cpus import usable_cpus
from zerofleet.database import MatchGame
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.games.go import GoRules
from zerofleet.match.anchors import why_absent
from zerofleet.match.play_match import PairQueue, SearchPlayer, draw_openings, play_match
from zerofleet.match.program_players import GtpPlayer, gnugo_command, go_setup
from zerofleet.prediction import Predictor
from zerofleet.search_configs import match_search

LEVELS = (1, 5, 10)
"""Default levels of GNU Go in an exam."""
_PAIRS_AT_ONCE = 8  # each game has its own program, and all programs end with the last game


@dataclass(frozen=True, slots=True)
class GnuGoGames:
    """Results of a player's games against a level of GNU Go, equally many with each colour."""

    level: int
    games: int
    wins: int
    draws: int
    margins: tuple[int, ...]
    """The player's area minus GNU Go's, without komi, for each game played to its end."""

    @property
    def given_up(self) -> int:
        """Number of ``wins`` in which GNU Go resigned, erred, or refused a legal move."""
        return self.games - len(self.margins)

    @property
    def mean_margin(self) -> float | None:
        """Mean margin; None: GNU Go played an illegal move or refused a legal one every time."""
        return statistics.fmean(self.margins) if self.margins else None

    @property
    def even_komi(self) -> float | None:
        """Points that the player would need, instead of the komi, to win half of the games.

        It is the median of the missing points; below 0, of the points that it could give.
        """
        return -statistics.median(self.margins) if self.margins else None


def check_gnu_go(game: str) -> None:
    """Check that GNU Go can play.

    Raises:
        ConfigError: it does not play this game, or is not installed.
    """
    reason = why_absent("gnugo:1", game, ())
    if reason is not None:
        raise ConfigError(reason)


async def play_gnu_go(
    run: RunConfig,
    predictor: Predictor,
    level: int,
    games: int,
    num_simulations: int,
    report: Callable[[int, int], None] | None = None,
) -> GnuGoGames:
    """Play games against a level of GNU Go.

    Args:
        run: run with the game, ``[search]``, seed and ``evaluator.opening_plies``.
        predictor: the player's network.
        level: level of GNU Go, 1 to 10.
        games: an even number, because each opening is played twice. Fewer are played if there are
            fewer openings.
        num_simulations: the player's simulations for each action.
        report: called after every 16 games or fewer, with the number of finished games and of all.

    Raises:
        ConfigError: see ``check_gnu_go``; or no game continues after the opening.
        EngineGoneError: GNU Go ended, or does not answer.
        GtpError: it refuses the board or komi, or resigns before the first action.
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
    thinking = asyncio.Semaphore(usable_cpus())
    at_once = min(_PAIRS_AT_ONCE, max(1, run.inference.max_batch_rows // 2))
    places = [(opening, colour) for opening in range(len(openings)) for colour in (0, 1)]
    for begin in range(0, len(places), 2 * at_once):
        async with AsyncExitStack() as programs:
            other = GtpPlayer(game, command, go_setup(rules), programs, thinking)
            queue = PairQueue(places[begin : begin + 2 * at_once], at_once)
            await play_match(game, openings, (player, other), queue, keep)
        if report is not None:
            report(len(played), len(places))
    results = [(each.record.result or 0) * (1 - 2 * each.color) for each in played]
    margins = [margin for each in played if (margin := _margin(game, each)) is not None]
    return GnuGoGames(level, len(played), results.count(1), results.count(0), tuple(margins))


def _margin(game: str, played: MatchGame) -> int | None:
    """Return the player's area minus the other's; None for a game that was resigned."""
    state = State(game, played.record.columns.action.tolist())
    if not state.is_terminal:
        return None
    return int(state.final_planes().sum()) * (1 - 2 * played.color)
