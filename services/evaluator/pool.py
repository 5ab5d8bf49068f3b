"""The rating pool: promoted models against earlier ones and fixed anchors, while nothing waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Generator, Sequence

import structlog

from services.evaluator.anchors import why_absent
from services.evaluator.bout import Bout, Finished, MakePredictor
from services.evaluator.match import Place
from services.evaluator.openings import draw_openings
from services.evaluator.pairings import Pairing, pairings
from services.evaluator.rating import Result, rate
from zerofleet.config import RunConfig
from zerofleet.database import Database, RatingGame
from zerofleet.errors import IncompatibleModelError, RecordRejectedError
from zerofleet.gtp.client import EngineGoneError
from zerofleet.gtp.protocol import GtpError
from zerofleet.waiting import Waits

_log = structlog.get_logger()

_IDLE_SECONDS = 1.0
_PLACES_AT_ONCE = 16  # of one pairing: after these the newest model's games are looked for again


class RatingPool:
    """Plays the rating games that a run lacks, and rates everybody from all games stored.

    A game is a row as soon as it is over, and what to play follows from the rows, so another
    evaluator, or the next life of this one, goes on.

    Args:
        run: the run.
        database: the record.
        predictor: gives one version's predictor, over a stream that ends with the stack.
        waits: told what is waited for.
        worker: name of this process.
        epoch: of the evaluator's fence.
    """

    def __init__(
        self,
        run: RunConfig,
        database: Database,
        predictor: MakePredictor,
        waits: Waits,
        worker: str,
        epoch: int,
    ) -> None:
        self._run = run
        self._database = database
        self._predictor = predictor
        self._waits = waits
        self._worker = worker
        self._epoch = epoch
        self._go = asyncio.Event()
        self._go.set()
        self._rating = asyncio.Lock()
        self._rated: list[Result] | None = None  # what the stored ratings are of
        self._settled: set[Pairing] = set()  # complete, or left out
        self._absent: set[str] = set()
        self.games_played = 0
        self.figures: dict[str, float] = {}

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Games in play wait where they are: a candidate goes first."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    async def run(self) -> None:
        """Play what is missing until cancelled.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        if self._run.rating.games == 0:
            await asyncio.Event().wait()
        while True:
            found = await self._next()
            if found is None:
                await asyncio.sleep(_IDLE_SECONDS)
                continue
            await self._play(*found)
            await self.rate()

    async def rate(self) -> None:
        """Rate everybody who played, from all games stored; nothing to do without new ones."""
        async with self._rating:  # a rating from fewer games never replaces one from more
            ask, name = self._waits.ask_store, self._run.name
            results = [
                Result(each.player, each.opponent, each.wins, each.draws, each.losses)
                for each in await ask(self._database.player_results, name)
            ]
            if results == self._rated:
                return
            # In a thread: of a thousand players this takes seconds.
            ratings = await asyncio.to_thread(rate, results)
            models = [(int(r.player), r.elo, r.error) for r in ratings if r.player.isdecimal()]
            anchors = [(r.player, r.elo, r.error) for r in ratings if not r.player.isdecimal()]
            await ask(self._database.upsert_ratings, name, models)
            await ask(self._database.upsert_anchor_ratings, name, anchors)
            self._rated = results

    async def _next(self) -> tuple[Pairing, list[list[int]], list[Place]] | None:
        """A pairing that lacks games, its openings, and the first of its places that lack one."""
        chain = await self._waits.ask_store(self._database.promotions, self._run.name)
        stored = await self._waits.ask_store(self._database.rating_places, self._run.name)
        section = self._run.rating
        versions = [promotion.version for promotion in reversed(chain)]
        wanted = pairings(versions, section.opponents, self._present(section.anchors))
        self.figures["rating_games"] = float(len(stored))
        for pairing in wanted:
            if pairing in self._settled:
                continue
            openings = self._openings(pairing)
            missing = [
                (opening, color)
                for opening in range(len(openings))
                for color in (0, 1)
                if (*pairing.sides(color), opening) not in stored
            ]
            if missing:
                return pairing, openings, missing[:_PLACES_AT_ONCE]
            self._settled.add(pairing)
        return None

    def _present(self, anchors: Sequence[str]) -> list[str]:
        reasons = {name: why_absent(name, self._run.game.name) for name in anchors}
        for name, reason in reasons.items():
            if reason is not None and name not in self._absent:
                self._absent.add(name)
                _log.warning("anchor_left_out", anchor=name, reason=reason)
        return [name for name, reason in reasons.items() if reason is None]

    def _openings(self, pairing: Pairing) -> list[list[int]]:
        plies, games = self._run.evaluator.opening_plies, self._run.rating.games
        seed = pairing.seed(self._run.seed)
        return draw_openings(self._run.game.name, plies, (games + 1) // 2, seed)

    async def _play(
        self, pairing: Pairing, openings: list[list[int]], places: Collection[Place]
    ) -> None:
        """Play some of a pairing's games; one that cannot play is left out from now on."""
        _log.info("rating", player=pairing.player, opponent=pairing.opponent, games=len(places))

        async def keep(games: Sequence[Finished]) -> None:
            await self._store(pairing, games)

        try:
            await Bout(self._run, pairing, openings, self._predictor, self._go).play(places, keep)
        except (IncompatibleModelError, RecordRejectedError, EngineGoneError, GtpError) as error:
            self._settled.add(pairing)
            _log.error(
                "pairing_left_out",
                player=pairing.player,
                opponent=pairing.opponent,
                reason=str(error),
            )
        finally:
            for name in (pairing.player, pairing.opponent):
                self._waits.end(f"version {name}")

    async def _store(self, pairing: Pairing, games: Sequence[Finished]) -> None:
        rows: list[RatingGame] = []
        for game in games:
            opening, color = game.place
            first, second = pairing.sides(color)
            rows.append(RatingGame((first, second, opening), game.record, game.remark))
            if game.remark is not None:
                _log.warning("forfeit", first=first, second=second, reason=game.remark)
        await self._waits.ask_store(
            self._database.record_rating_games,
            self._run.name,
            self._worker,
            rows,
            epoch=self._epoch,
        )
        self.games_played += len(rows)
