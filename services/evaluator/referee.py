"""The referee: matches of the gate as rows, played until they are decided."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Literal

import structlog

from zerofleet.database import GateRule, Grounds, MatchGame, MatchRow, match_seed
from zerofleet.match.openings import draw_openings
from zerofleet.match.play_match import PairQueue, Place, play_match
from zerofleet.match.verdict import Standing, judge
from zerofleet.search_configs import match_search
from zerofleet.services.evaluator.context import EvaluatorContext
from zerofleet.services.evaluator.players import Players

_log = structlog.get_logger()

# Pairs count in order, so a long pair holds up the count, and others begin meanwhile. More pairs
# ahead than this save no more time (measured on go 9x9, 16 pairs at once), and more games do not
# count.
_AHEAD = 2  # times the pairs at once


class Referee:
    """Opens, plays and closes the gate's matches of one run.

    Args:
        context: of this evaluator.
        players: by their names.
    """

    def __init__(self, context: EvaluatorContext, players: Players) -> None:
        self._context = context
        self._players = players
        self._figures = context.figures

    async def open(self, candidate: int, best: int) -> MatchRow:
        """Begin a match, or go on with the undecided one of these two models."""
        context, section = self._context, self._context.run.evaluator
        seed = match_seed(context.run.seed, "gate", str(candidate), str(best))
        openings = self._openings(section.games // 2, seed)
        is_sequential = section.test == "sprt"
        return await context.ask(
            context.database.open_match,
            context.run.name,
            "gate",
            str(candidate),
            str(best),
            games=2 * len(openings),
            num_simulations=section.num_simulations,
            seed=seed,
            epoch=context.epoch,
            rule=GateRule(
                threshold=section.threshold,
                sprt_elo=section.sprt_elo if is_sequential else None,
                sprt_error=section.sprt_error if is_sequential else None,
                draws_only=section.draws_only,
            ),
        )

    async def play(self, match: MatchRow) -> Standing:
        """Play what the match lacks until it is decided; each game is a row as soon as it is over.

        A sequential test keeps so many pairs in play, and looks whenever a game is stored. When it
        ends, the games in play are given up, and complete pairs beyond its end do not count.

        Returns:
            The standing, judged from the rows; without a verdict when the game offers fewer
            openings than the match has.

        Raises:
            IncompatibleModelError: one of the two models cannot be used.
        """
        openings = self._openings(match.games // 2, match.seed)
        stored = await self._context.ask(self._context.database.match_places, match.match_id)
        figures = self._figures
        figures.candidate, figures.match_in_play = match.candidate, True
        figures.match_games, figures.match_most_games = len(stored), match.games
        figures.match_pairs_counted = figures.match_score = figures.match_llr = None
        try:
            standing = await self._look(match)
            missing = {(i, color) for i in range(len(openings)) for color in (0, 1)} - stored
            if standing.verdict is None and missing:
                await self._play(match, openings, self._queue(match, missing))
                standing = await self._look(match)
        finally:
            figures.match_in_play = False
        return standing

    def _queue(self, match: MatchRow, missing: set[Place]) -> PairQueue:
        run = self._context.run
        most = run.inference.max_batch_rows // 2
        if match.rule is None or match.rule.sprt_elo is None:
            return PairQueue(missing, most)
        at_once = min(run.evaluator.pairs_at_once, most)
        return PairQueue(missing, at_once, _AHEAD * at_once)

    async def _look(self, match: MatchRow) -> Standing:
        """How a match stands, by its rows."""
        pairs = await self._context.ask(self._context.database.match_pairs, match.match_id)
        standing = judge(match, pairs)
        grounds, figures = standing.grounds, self._figures
        figures.match_pairs_counted = (grounds.games_counted or 0) / 2
        figures.match_score, figures.match_llr = grounds.score, grounds.llr
        return standing

    async def _play(self, match: MatchRow, openings: list[list[int]], queue: PairQueue) -> None:
        _log.info(
            "match", candidate=match.candidate, best=match.best, games_to_play=len(queue.missing)
        )

        async def keep(games: Sequence[MatchGame]) -> None:
            await self._context.record(match.match_id, games)
            self._figures.match_games += len(games)
            if (await self._look(match)).verdict is not None:
                queue.over.set()

        search = match_search(self._context.run.search, match.num_simulations)
        async with AsyncExitStack() as streams:
            players = (
                await self._players.player(streams, match.player, search, match.seed),
                await self._players.player(streams, match.opponent, search, match.seed),
            )
            await play_match(
                self._context.run.game.name,
                openings,
                players,
                queue,
                keep,
                clock_ahead=self._context.clock_ahead,
                in_play=self._context.in_play,
            )

    async def close(
        self, match: MatchRow, verdict: Literal["rejected", "skipped"], grounds: Grounds
    ) -> None:
        """Write down a verdict that promotes no model, and why."""
        _log.info(
            verdict, candidate=match.candidate, best=match.best, decided_by=grounds.decided_by
        )
        await self._context.ask(
            self._context.database.decide_match,
            match.match_id,
            verdict,
            epoch=self._context.epoch,
            grounds=grounds,
        )

    def _openings(self, count: int, seed: int) -> list[list[int]]:
        plies = self._context.run.evaluator.opening_plies
        return draw_openings(self._context.run.game.name, plies, count, seed)
