"""The gate: the match of a candidate against the best model, its verdict, and the promotion.

A match is stored as rows and played until it is decided. A promotion is a row in Postgres first;
then the pointer in Redis moves, which can always be rebuilt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Literal

import structlog

from zerofleet.best_pointer import BestPointer
from zerofleet.database import MatchGame, MatchRow, Promotion, PromotionChain, match_seed
from zerofleet.errors import StaleEpochError, StoreUnavailableError
from zerofleet.match.play_match import PairQueue, Place, all_places, play_match, random_openings
from zerofleet.search_configs import match_search
from zerofleet.services.evaluator.context import EvaluatorContext, Players
from zerofleet.verdict import GateRule, Judgement, MatchStatistics, judge
from zerofleet.waiting import Waits, awaited

_log = structlog.get_logger()

# Pairs count in order, so a long pair delays the count while others begin. Having further pairs
# ahead saves no time (measured on go 9x9, 16 pairs at once) and adds games that do not count.
_AHEAD = 2  # times the pairs at once

_RECONCILE_SECONDS = 5.0
_AGAIN_SECONDS = 1.0  # while the pointer cannot be moved


class Referee:
    """Opens, plays and closes the gate's matches of one run."""

    def __init__(self, context: EvaluatorContext, players: Players) -> None:
        self._context = context
        self._players = players
        self._figures = context.figures

    async def open(self, candidate: int, best: int) -> MatchRow:
        """Begin a match, or resume the undecided one between these two models."""
        context, section = self._context, self._context.run.evaluator
        seed = match_seed(context.run.seed, "gate", str(candidate), str(best))
        openings, _ = self._openings(section.games // 2, seed)
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

    async def play(self, match: MatchRow) -> Judgement:
        """Play the missing games of a match until it is decided, and store each when it is over.

        A sequential test keeps ``pairs_at_once`` pairs in play and is computed whenever a game is
        stored. When it ends, the games in play are abandoned, and later pairs do not count.

        Returns:
            The judgement, judged from the rows; without a verdict if the game has fewer openings
                than the match.

        Raises:
            IncompatibleModelError: one of the two models cannot be used.
        """
        openings, starts = self._openings(match.games // 2, match.seed)
        stored = await self._context.ask(self._context.database.match_places, match.match_id)
        figures = self._figures
        figures.candidate, figures.match_in_play = match.candidate, True
        figures.match_games, figures.match_most_games = len(stored), match.games
        figures.match_pairs_counted = figures.match_score = figures.match_llr = None
        try:
            judgement = await self._judge(match)
            missing = set(all_places(len(openings))) - stored
            if judgement.verdict is None and missing:
                await self._play(match, openings, starts, self._queue(match, missing))
                judgement = await self._judge(match)
        finally:
            figures.match_in_play = False
        return judgement

    def _queue(self, match: MatchRow, missing: set[Place]) -> PairQueue:
        run = self._context.run
        most = run.inference.max_batch_rows // 2
        if match.rule is None or match.rule.sprt_elo is None:
            return PairQueue(missing, most)
        at_once = min(run.evaluator.pairs_at_once, most)
        return PairQueue(missing, at_once, _AHEAD * at_once)

    async def _judge(self, match: MatchRow) -> Judgement:
        """Judge a match by its rows, and show its statistics in the heartbeat."""
        pairs = await self._context.ask(self._context.database.match_pairs, match.match_id)
        judgement = judge(match, pairs)
        statistics, figures = judgement.statistics, self._figures
        figures.match_pairs_counted = (statistics.games_counted or 0) / 2
        figures.match_score, figures.match_llr = statistics.score, statistics.llr
        return judgement

    async def _play(
        self, match: MatchRow, openings: list[list[int]], starts: list[str], queue: PairQueue
    ) -> None:
        _log.info(
            "match", candidate=match.candidate, best=match.best, games_to_play=len(queue.missing)
        )

        async def keep(games: Sequence[MatchGame]) -> None:
            await self._context.record(match.match_id, games)
            self._figures.match_games += len(games)
            if (await self._judge(match)).verdict is not None:
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
                starts=starts,
            )

    async def close(
        self, match: MatchRow, verdict: Literal["rejected", "skipped"], statistics: MatchStatistics
    ) -> None:
        """Record a verdict that promotes no model, and its figures."""
        _log.info(
            verdict, candidate=match.candidate, best=match.best, decided_by=statistics.decided_by
        )
        await self._context.ask(
            self._context.database.decide_match,
            match.match_id,
            verdict,
            epoch=self._context.epoch,
            statistics=statistics,
        )

    def _openings(self, count: int, seed: int) -> tuple[list[list[int]], list[str]]:
        run = self._context.run
        return random_openings(run.game.name, run.evaluator.opening_plies, count, seed)


class Promoter:
    """Adds to one run's chain of promotions and keeps the pointer in Redis at its end."""

    def __init__(self, context: EvaluatorContext, pointer: BestPointer) -> None:
        self._context = context
        self._pointer = pointer

    async def promote(
        self,
        version: int,
        match_id: int | None,
        head: Promotion | None,
        statistics: MatchStatistics | None = None,
    ) -> Promotion | None:
        """Make a version the best, and then visible.

        Args:
            match_id: the match that it won; None if there was none.
            head: the newest promotion when the decision was made.
            statistics: statistics of that match, for its row.

        Returns:
            The promotion. None if the chain has grown in the meantime, for example by a person's
                rollback; then nothing was decided.

        Raises:
            StaleEpochError: another evaluator has taken over; this one must stop.
        """
        promotion = await self._context.ask(self._record, version, match_id, head, statistics)
        if promotion is None:
            _log.warning("chain_moved", not_promoted=version, match_id=match_id)
            return None
        _log.info("promoted", version=version, seq=promotion.seq, match_id=match_id)
        await self.point(promotion)
        return promotion

    def _record(
        self,
        version: int,
        match_id: int | None,
        head: Promotion | None,
        statistics: MatchStatistics | None,
    ) -> Promotion | None:
        context, database = self._context, self._context.database
        run, actor = context.run.name, context.worker
        expected = head.seq if head else 0
        try:
            return database.promote(
                run, version, match_id, actor, expected, epoch=context.epoch, statistics=statistics
            )
        except StaleEpochError:
            mine = (expected + 1, version, match_id, actor)
            for row in database.promotion_history(run)[:1]:
                now = row.promotion
                if (now.seq, now.version, row.match_id, row.actor) == mine:
                    return now  # it is this very promotion, whose answer was lost
            if database.evaluator_epoch(run) == context.epoch:
                return None
            raise

    async def point(self, promotion: Promotion) -> None:
        """Move the pointer; if Redis is down or refuses writes, the reconciler will."""
        try:
            await asyncio.to_thread(self._pointer.set_if_newer, promotion)
        except StoreUnavailableError as error:
            _log.warning("pointer_not_moved", version=promotion.version, reason=str(error))


async def reconcile(pointer: BestPointer, database: PromotionChain, waits: Waits) -> None:
    """Keep the pointer at the end of the chain, whatever happens to Redis; run until cancelled."""
    while True:
        pause = _RECONCILE_SECONDS
        try:
            await asyncio.to_thread(pointer.reconcile, database)
        except StoreUnavailableError as error:
            if pointer.state.status != "up":  # otherwise it is Postgres, which others wait for
                thing = f"{awaited(error, 'Redis')} (the best pointer is not moved)"
                waits.begin("pointer", thing, reason=str(error))
                pause = _AGAIN_SECONDS
        else:
            waits.end("pointer")
        await asyncio.sleep(pause)
