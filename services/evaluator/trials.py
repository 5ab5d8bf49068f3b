"""Trials: matches that a person asked for with ``zerofleet match``, played in spare time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import structlog

from zerofleet.database import MatchGame, MatchRow
from zerofleet.errors import ConfigError, IncompatibleModelError
from zerofleet.match.openings import draw_openings
from zerofleet.match.play_match import PairQueue, play_match
from zerofleet.search_configs import match_search
from zerofleet.services.evaluator.context import EvaluatorContext
from zerofleet.services.evaluator.players import Players
from zerofleet.services.evaluator.pool import CANNOT_PLAY

_log = structlog.get_logger()

_NEVER = datetime.max.replace(tzinfo=UTC)
_PLACES_AT_ONCE = 24  # a program of an anchor is kept for each until all are played


class Trials:
    """Plays the trials that lack games, one after the other.

    A trial is a row before it begins and decides nothing. What is missing of it follows from the
    rows, so another evaluator, or this one after a restart, goes on with it.

    Args:
        context: of this evaluator.
        players: by their names.
        go: cleared while games in play have to wait.
        rate: rates all players anew.
    """

    def __init__(
        self,
        context: EvaluatorContext,
        players: Players,
        go: asyncio.Event,
        rate: Callable[[], Awaitable[None]],
    ) -> None:
        self._context = context
        self._players = players
        self._go = go
        self._rate = rate
        self._figures = context.figures

    @property
    def in_play(self) -> bool:
        """See ``SpareGames``."""
        return self._figures.trial_in_play

    async def play_some(self) -> bool:
        """Play some games of the oldest trial that lacks any; see ``SpareGames``."""
        database, run = self._context.database, self._context.run.name
        waiting = await self._context.ask(database.unfinished_trials, run)
        if not waiting:
            return False
        trial = waiting[0]
        self._figures.trial_in_play = True
        try:
            await self._check_files(trial)
            await self._play(trial)
        except (ConfigError, *CANNOT_PLAY) as error:
            await self._leave_out(trial, str(error))
        finally:
            self._figures.trial_in_play = False
        await self._rate()
        return True

    async def _check_files(self, trial: MatchRow) -> None:
        """Refuse a model whose files were removed: inference could never load it."""
        for version in trial.versions:
            model = await self._context.ask(
                self._context.database.model, self._context.run.name, version
            )
            if model is None or (model.removed_at or _NEVER) <= datetime.now(UTC):
                raise IncompatibleModelError(f"the files of model {version} are not kept any more")

    async def _play(self, trial: MatchRow) -> None:
        context, run = self._context, self._context.run
        # In a thread: of thousands of openings this takes seconds.
        openings = await asyncio.to_thread(
            draw_openings,
            run.game.name,
            run.evaluator.opening_plies,
            trial.games // 2,
            trial.seed,
        )
        games = 2 * len(openings)
        if games < trial.games:
            _log.warning("trial_shortened", match_id=trial.match_id, openings=len(openings))
            await context.ask(
                context.database.shorten_match, trial.match_id, games, epoch=context.epoch
            )
        stored = await context.ask(context.database.match_places, trial.match_id)
        self._figures.trial_games, self._figures.trial_most_games = len(stored), games
        self._figures.trial_score = None
        missing = {(i, color) for i in range(len(openings)) for color in (0, 1)} - stored
        _log.info("trial", player=trial.player, opponent=trial.opponent, games_to_play=len(missing))

        # After them the programs that played end, and it is asked again what is to play first.
        missing = set(sorted(missing)[:_PLACES_AT_ONCE])

        async def keep(games: Sequence[MatchGame]) -> None:
            await context.record(trial.match_id, games)
            score = await context.ask(context.database.match_score, trial.match_id)
            self._figures.trial_games, self._figures.trial_score = score.games, score.score

        search = match_search(run.search, trial.num_simulations)
        async with AsyncExitStack() as streams:
            players = (
                await self._players.player(streams, trial.player, search, trial.seed),
                await self._players.player(streams, trial.opponent, search, trial.seed),
            )
            queue = PairQueue(missing, run.inference.max_batch_rows // 2)
            await play_match(
                run.game.name,
                openings,
                players,
                queue,
                keep,
                self._go,
                context.clock_ahead,
                context.in_play,
            )

    async def _leave_out(self, trial: MatchRow, reason: str) -> None:
        """A trial that cannot be played holds nothing up; asked for again, it is tried again."""
        _log.error("trial_left_out", player=trial.player, opponent=trial.opponent, reason=reason)
        context = self._context
        await context.ask(
            context.database.leave_out_trial, trial.match_id, reason, epoch=context.epoch
        )
