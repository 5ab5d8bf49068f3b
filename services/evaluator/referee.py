"""The referee: matches as rows, played until no row is missing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import structlog

from services.evaluator.gate import Standing, judge
from services.evaluator.office import Office
from services.evaluator.openings import draw_openings
from services.evaluator.record import match_record
from services.evaluator.roster import Place, Roster
from services.evaluator.table import Played, Table
from zerofleet.client import AsyncModel
from zerofleet.database import Grounds, MatchGame, MatchRow, MatchTest
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import State
from zerofleet.searches import match_search
from zerofleet.waiting import PatientPredictor

_log = structlog.get_logger()

# A pair that lasts long holds up the count, and others begin meanwhile. Farther ahead than this
# saves no more time (of go on 9x9, 16 pairs at once), but plays more in vain.
_AHEAD = 2  # times the pairs at once


class Referee:
    """Opens, plays and closes the matches of one run.

    Args:
        office: of this evaluator.
        model: the run's, at the inference service.
    """

    def __init__(self, office: Office, model: AsyncModel) -> None:
        self._office = office
        self._model = model
        self.games_played = 0
        self.figures: dict[str, float] = {}

    async def predictor(self, streams: AsyncExitStack, version: int) -> PatientPredictor:
        """One exact version, over a stream that ends with ``streams``."""
        stream = self._model.stream(version=version)
        return PatientPredictor(
            await streams.enter_async_context(stream),
            self._office.waits,
            f"version {version}",
            f"inference to load version {version}",
        )

    async def can_play(self, version: int) -> bool:
        """Whether a model answers at all; waits until the inference service has tried it."""
        async with AsyncExitStack() as streams:
            predictor = await self.predictor(streams, version)
            start = State(self._office.run.game.name).observation()[np.newaxis]
            try:
                await predictor.predict(start)
            except IncompatibleModelError as error:
                _log.error("model_unusable", version=version, reason=str(error))
                return False
            finally:
                self._office.waits.end(f"version {version}")  # also when the asking is given up
        return True

    async def open(self, candidate: int, best: int) -> MatchRow:
        """Begin a match, or go on with the undecided one of these two models."""
        section = self._office.run.evaluator
        seed = match_seed(self._office.run.seed, candidate, best)
        openings = self._openings(section.games // 2, seed)
        return await self._office.ask(
            self._office.database.create_match,
            self._office.run.name,
            candidate,
            best,
            games=2 * len(openings),
            threshold=section.threshold,
            num_simulations=section.num_simulations,
            seed=seed,
            epoch=self._office.epoch,
            test=MatchTest(
                sprt_elo=section.sprt_elo if section.test == "sprt" else None,
                sprt_error=section.sprt_error if section.test == "sprt" else None,
                draws_only=section.draws_only,
            ),
        )

    async def play(self, match: MatchRow) -> Standing:
        """Play what the match lacks until it is decided; each game is a row as soon as it is over.

        A sequential test keeps so many pairs in play, and looks whenever a game is stored. When it
        ends, the games in play are given up; others may have been played beyond its end in vain.

        Returns:
            The standing, judged from the rows; without a verdict when the game offers fewer
            openings than the match has.

        Raises:
            IncompatibleModelError: one of the two models cannot be used.
        """
        openings = self._openings(match.games // 2, match.seed)
        stored = await self._office.ask(self._office.database.match_places, match.match_id)
        self.figures = {
            "candidate": float(match.candidate),
            "match_games": float(len(stored)),
            "match_most_games": float(match.games),
            "match_in_play": 1.0,
        }
        try:
            standing = await self._look(match)
            missing = {(i, color) for i in range(len(openings)) for color in (0, 1)} - stored
            if standing.verdict is None and missing:
                await self._play(match, openings, self._roster(match, missing))
                standing = await self._look(match)
        finally:
            self.figures["match_in_play"] = 0.0
        return standing

    def _roster(self, match: MatchRow, missing: set[Place]) -> Roster:
        most = self._office.run.inference.max_batch_rows // 2
        if match.test != "sprt":
            return Roster(missing, most)
        at_once = min(self._office.run.evaluator.pairs_at_once, most)
        return Roster(missing, at_once, _AHEAD * at_once)

    async def _look(self, match: MatchRow) -> Standing:
        """How a match stands, by its rows."""
        pairs = await self._office.ask(self._office.database.match_pairs, match.match_id)
        standing = judge(match, pairs)
        self._show(standing.grounds)
        return standing

    def _show(self, grounds: Grounds) -> None:
        """For the heartbeat and the metrics: how a match stands."""
        figures = {
            "match_pairs_counted": (grounds.games_counted or 0) / 2,
            "match_score": grounds.score,
            "match_llr": grounds.llr,
        }
        self.figures |= {name: float(value) for name, value in figures.items() if value is not None}

    async def _play(self, match: MatchRow, openings: list[list[int]], roster: Roster) -> None:
        _log.info(
            "match", candidate=match.candidate, best=match.best, games_to_play=len(roster.missing)
        )
        started_at = datetime.now(UTC)

        async def keep(played: list[Played]) -> None:
            await self._store(match, played, started_at)
            if (await self._look(match)).verdict is not None:
                roster.over.set()

        async with AsyncExitStack() as streams:
            sides = (
                await self.predictor(streams, match.candidate),
                await self.predictor(streams, match.best),
            )
            search = match_search(self._office.run.search, match.num_simulations)
            table = Table(self._office.run.game.name, openings, search, sides, roster, keep)
            try:
                await table.play()
            finally:
                for version in (match.candidate, match.best):
                    self._office.waits.end(f"version {version}")

    async def close(
        self, match: MatchRow, verdict: Literal["rejected", "skipped"], grounds: Grounds
    ) -> None:
        """Write down a verdict that promotes nobody, and why."""
        _log.info(
            verdict, candidate=match.candidate, best=match.best, decided_by=grounds.decided_by
        )
        await self._office.ask(
            self._office.database.decide_match,
            match.match_id,
            verdict,
            epoch=self._office.epoch,
            grounds=grounds,
        )

    def _openings(self, count: int, seed: int) -> list[list[int]]:
        plies = self._office.run.evaluator.opening_plies
        return draw_openings(self._office.run.game.name, plies, count, seed)

    async def _store(self, match: MatchRow, played: list[Played], started_at: datetime) -> None:
        now = datetime.now(UTC)
        games: list[MatchGame] = []
        for each in played:
            opening, player = each.place
            first, second = match.candidate, match.best
            versions = (first, second) if player == 0 else (second, first)
            record = match_record(self._office.run.game.name, each.game, versions, started_at, now)
            games.append(MatchGame(opening, player, record))
        await self._office.ask(
            self._office.database.record_match_games,
            self._office.run.name,
            self._office.worker,
            match.match_id,
            games,
        )
        self.games_played += len(games)
        self.figures["match_games"] += len(games)


def match_seed(run_seed: int, candidate: int, best: int) -> int:
    """Seed of a match's openings: other ones for each pair of models."""
    sequence = np.random.SeedSequence([run_seed, candidate, best])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))  # a bigint has a sign
