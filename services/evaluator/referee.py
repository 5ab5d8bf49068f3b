"""The referee: matches as rows, played until no row is missing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import structlog

from services.evaluator.gate import Standing, judge
from services.evaluator.match import Place, Played, match_search, play
from services.evaluator.openings import draw_openings
from services.evaluator.record import match_record
from zerofleet.config import RunConfig
from zerofleet.database import Database, Grounds, MatchGame, MatchRow, MatchTest
from zerofleet.errors import IncompatibleModelError
from zerofleet.games import State
from zerofleet.rpc import InferenceClient
from zerofleet.waiting import PatientPredictor, Waits

_log = structlog.get_logger()


class Referee:
    """Opens, plays and closes the matches of one run.

    Args:
        run: the run.
        database: where matches and their games are rows.
        client: of the inference service.
        waits: told what is waited for.
        worker: name of this process.
        epoch: of the evaluator's fence.
    """

    def __init__(
        self,
        run: RunConfig,
        database: Database,
        client: InferenceClient,
        waits: Waits,
        worker: str,
        epoch: int,
    ) -> None:
        self._run = run
        self._database = database
        self._client = client
        self._waits = waits
        self._worker = worker
        self._epoch = epoch
        self.games_played = 0
        self.figures: dict[str, float] = {}

    async def predictor(self, streams: AsyncExitStack, version: int) -> PatientPredictor:
        """One exact version, over a stream that ends with ``streams``."""
        stream = self._client.stream(self._run.name, str(version))
        return PatientPredictor(
            await streams.enter_async_context(stream),
            self._waits,
            f"version {version}",
            f"inference to load version {version}",
        )

    async def can_play(self, version: int) -> bool:
        """Whether a model answers at all; waits until the inference service has tried it."""
        async with AsyncExitStack() as streams:
            predictor = await self.predictor(streams, version)
            start = State(self._run.game.name).observation()[np.newaxis]
            try:
                await predictor.predict(start)
            except IncompatibleModelError as error:
                _log.error("model_unusable", version=version, reason=str(error))
                return False
            finally:
                self._waits.end(f"version {version}")  # also when the asking is given up
        return True

    async def open(self, candidate: int, best: int) -> MatchRow:
        """Begin a match, or go on with the undecided one of these two models."""
        section = self._run.evaluator
        seed = match_seed(self._run.seed, candidate, best)
        openings = self._openings(section.games // 2, seed)
        return await self._waits.ask_store(
            self._database.create_match,
            self._run.name,
            candidate,
            best,
            games=2 * len(openings),
            threshold=section.threshold,
            num_simulations=section.num_simulations,
            seed=seed,
            epoch=self._epoch,
            test=MatchTest(
                sprt_elo=section.sprt_elo if section.test == "sprt" else None,
                sprt_error=section.sprt_error if section.test == "sprt" else None,
                draws_only=section.draws_only,
            ),
        )

    async def play(self, match: MatchRow) -> Standing:
        """Play what the match lacks until it is decided; each game is a row as soon as it is over.

        A sequential test plays some pairs, looks at what is stored, and goes on with the next.

        Returns:
            The standing, judged from the rows; without a verdict when the game offers fewer
            openings than the match has.

        Raises:
            IncompatibleModelError: one of the two models cannot be used.
        """
        openings = self._openings(match.games // 2, match.seed)
        while True:
            pairs = await self._waits.ask_store(self._database.match_pairs, match.match_id)
            stored = await self._waits.ask_store(self._database.match_places, match.match_id)
            standing = judge(match, pairs)
            self._show(match, standing.grounds, len(stored))
            missing = self._next(match, len(openings), stored)
            if standing.verdict is not None or not missing:
                return standing
            await self._play(match, openings, missing)

    def _next(self, match: MatchRow, openings: int, stored: set[Place]) -> set[Place]:
        """The places to play together: all that are missing, or the first pairs of them."""
        missing = [
            (index, color)
            for index in range(openings)
            for color in (0, 1)
            if (index, color) not in stored
        ]
        if match.test == "sprt":
            pairs = sorted({index for index, _ in missing})[: self._run.evaluator.pairs_at_once]
            missing = [place for place in missing if place[0] in pairs]
        return set(missing)

    def _show(self, match: MatchRow, grounds: Grounds, stored: int) -> None:
        """For the heartbeat and the metrics: how far a match is, and how it stands."""
        figures = {
            "candidate": match.candidate,
            "match_games": stored,
            "match_most_games": match.games,
            "match_pairs_counted": (grounds.games_counted or 0) / 2,
            "match_score": grounds.score,
            "match_llr": grounds.llr,
        }
        self.figures = {name: float(value) for name, value in figures.items() if value is not None}

    async def _play(self, match: MatchRow, openings: list[list[int]], missing: set[Place]) -> None:
        _log.info("match", candidate=match.candidate, best=match.best, games_to_play=len(missing))
        started_at = datetime.now(UTC)

        async def keep(played: list[Played]) -> None:
            await self._store(match, played, started_at)

        async with AsyncExitStack() as streams:
            sides = (
                await self.predictor(streams, match.candidate),
                await self.predictor(streams, match.best),
            )
            search = match_search(self._run.search, match.num_simulations)
            rows = self._run.inference.max_batch_rows
            name = self._run.game.name
            try:
                await play(name, openings, missing, search, sides, keep, most_rows=rows)
            finally:
                for version in (match.candidate, match.best):
                    self._waits.end(f"version {version}")

    async def close(
        self, match: MatchRow, verdict: Literal["rejected", "skipped"], grounds: Grounds
    ) -> None:
        """Write down a verdict that promotes nobody, and why."""
        _log.info(
            verdict, candidate=match.candidate, best=match.best, decided_by=grounds.decided_by
        )
        await self._waits.ask_store(
            self._database.decide_match,
            match.match_id,
            verdict,
            epoch=self._epoch,
            grounds=grounds,
        )

    def _openings(self, count: int, seed: int) -> list[list[int]]:
        plies = self._run.evaluator.opening_plies
        return draw_openings(self._run.game.name, plies, count, seed)

    async def _store(self, match: MatchRow, played: list[Played], started_at: datetime) -> None:
        now = datetime.now(UTC)
        games: list[MatchGame] = []
        for each in played:
            opening, player = each.place
            first, second = match.candidate, match.best
            versions = (first, second) if player == 0 else (second, first)
            record = match_record(self._run.game.name, each.game, versions, started_at, now)
            games.append(MatchGame(opening, player, record))
        await self._waits.ask_store(
            self._database.record_match_games,
            self._run.name,
            self._worker,
            match.match_id,
            games,
        )
        self.games_played += len(games)
        self.figures["match_games"] += len(games)


def match_seed(run_seed: int, candidate: int, best: int) -> int:
    """Seed of a match's openings: other ones for each pair of models."""
    sequence = np.random.SeedSequence([run_seed, candidate, best])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))  # a bigint has a sign
