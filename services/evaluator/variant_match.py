"""One match of a model's variant against the same model in fp32: may inference use it?"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import structlog

from services.evaluator.exact import ExactPredictor
from services.evaluator.office import Office
from services.evaluator.openings import draw_openings
from services.evaluator.pausing import PausingPredictor
from services.evaluator.record import match_record
from services.evaluator.roster import Roster
from services.evaluator.table import Played, Table
from services.evaluator.variants import VariantStanding, variant_standing
from zerofleet.client import AsyncModel
from zerofleet.database import MatchGame
from zerofleet.searches import match_search
from zerofleet.waiting import PatientPredictor

_log = structlog.get_logger()


class VariantMatch:
    """Pairs of games as in the gate's matches, all of them, then a verdict.

    A game is a row as soon as it is over; what is missing follows from the rows.

    Args:
        office: of this evaluator.
        precision: of the variant.
        version: of the model that plays itself.
    """

    def __init__(self, office: Office, precision: str, version: int) -> None:
        self._office = office
        self._precision = precision
        self._version = version
        section = office.run.evaluator
        self._openings = draw_openings(
            office.run.game.name,
            section.opening_plies,
            office.run.precision.match_games // 2,
            match_seed(office.run.seed, precision, version),
        )
        self.games_played = 0
        self.figures: dict[str, float] = {
            "variant_version": float(version),
            f"variant_{precision}": 1.0,
            "variant_games": 0.0,
            "variant_most_games": 2.0 * len(self._openings),
        }

    async def play(self, model: AsyncModel, go: asyncio.Event) -> None:
        """Play what is missing and write the verdict down.

        Args:
            model: the run's, at the inference service.
            go: cleared while games in play have to wait.

        Raises:
            IncompatibleModelError: the variant, or fp32, cannot be used.
        """
        office, database = self._office, self._office.database
        stored = await office.ask(
            database.variant_places, office.run.name, self._version, self._precision
        )
        self.figures["variant_games"] = float(len(stored))
        places = {(i, color) for i in range(len(self._openings)) for color in (0, 1)}
        if places - stored:
            _log.info(
                "variant_match",
                precision=self._precision,
                version=self._version,
                games_to_play=len(places - stored),
            )
            roster = Roster(places - stored, office.run.inference.max_batch_rows // 2)
            async with AsyncExitStack() as streams:
                sides = (
                    await self._predictor(model, go, streams, self._precision),
                    await self._predictor(model, go, streams, "fp32"),
                )
                await self._play(roster, sides)
        await self._decide(await self._look())

    async def _predictor(
        self, model: AsyncModel, go: asyncio.Event, streams: AsyncExitStack, precision: str
    ) -> PausingPredictor:
        """This model in one precision and no other, over a stream that ends with ``streams``."""
        waits = self._office.waits
        stream = model.stream(version=self._version, precision=precision)
        exact = ExactPredictor(await streams.enter_async_context(stream), precision)
        who = f"version {self._version} in {precision}"
        streams.callback(waits.end, who)
        return PausingPredictor(PatientPredictor(exact, waits, who, f"inference to load {who}"), go)

    async def _play(self, roster: Roster, sides: tuple[PausingPredictor, PausingPredictor]) -> None:
        run, began = self._office.run, datetime.now(UTC)

        async def keep(played: list[Played]) -> None:
            await self._store(played, began)
            await self._look()

        search = match_search(run.search, run.evaluator.num_simulations)
        await Table(run.game.name, self._openings, search, sides, roster, keep).play()

    async def _look(self) -> VariantStanding | None:
        """How the match stands, by its rows; None before its first pair."""
        office = self._office
        pairs = await office.ask(
            office.database.variant_pairs, office.run.name, self._version, self._precision
        )
        if not pairs:
            return None
        standing = variant_standing(pairs)
        self.figures["variant_score"] = standing.score.score
        return standing

    async def _decide(self, standing: VariantStanding | None) -> None:
        assert standing is not None, "a match without games was played to its end"
        office = self._office
        await office.ask(
            office.database.decide_variant,
            office.run.name,
            self._version,
            self._precision,
            standing.score,
            (standing.low, standing.high),
            accepted=standing.accepted,
            epoch=office.epoch,
        )
        say = _log.info if standing.accepted else _log.warning
        say(
            "variant_judged",
            precision=self._precision,
            version=self._version,
            accepted=standing.accepted,
            result=standing.sentence(self._precision, self._version),
        )

    async def _store(self, played: list[Played], began: datetime) -> None:
        office, now = self._office, datetime.now(UTC)
        both = self._version, self._version
        games = [
            MatchGame(*each.place, match_record(office.run.game.name, each.game, both, began, now))
            for each in played
        ]
        await office.ask(
            office.database.record_variant_games,
            office.run.name,
            office.worker,
            self._version,
            self._precision,
            games,
            epoch=office.epoch,
        )
        self.games_played += len(games)
        self.figures["variant_games"] += len(games)


def match_seed(run_seed: int, precision: str, version: int) -> int:
    """Of a match's openings: 63 bits, other ones for each variant."""
    name = f"variant {run_seed} {precision} {version}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1
