"""What every part of an evaluator needs: its run, the record, its name and its fence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ParamSpec, TypeVar

import structlog

from zerofleet.config import RunConfig
from zerofleet.database import Database, MatchGame
from zerofleet.fleet.figures import EvaluatorFigures
from zerofleet.match.play_match import MatchGamesInPlay
from zerofleet.waiting import Waits

_log = structlog.get_logger()

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(slots=True)
class EvaluatorContext:
    """One evaluator from the moment it took the fence."""

    run: RunConfig
    database: Database
    waits: Waits  # told what is waited for
    worker: str  # name of this process
    epoch: int  # of the evaluator's fence
    clock_ahead: timedelta = timedelta(0)  # of Postgres' clock; see ``Games.clock_ahead``
    figures: EvaluatorFigures = field(default_factory=EvaluatorFigures)  # for the heartbeat
    in_play: MatchGamesInPlay = field(default_factory=MatchGamesInPlay)  # of all its matches
    games_played: int = 0  # stored by this process

    async def ask(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Make a store's call in a thread, until the store answers."""
        return await self.waits.ask_store(call, *args, **kwargs)

    async def record(self, match_id: int, games: Sequence[MatchGame]) -> None:
        """Store finished games of a match; see ``Matches.record_match_games``."""
        for game in games:
            if game.remark is not None:
                place = {"opening": game.opening, "color": game.color}
                _log.warning("forfeit", match_id=match_id, **place, reason=game.remark)
        database, run = self.database, self.run.name
        await self.ask(
            database.record_match_games, run, self.worker, match_id, games, epoch=self.epoch
        )
        self.games_played += len(games)
