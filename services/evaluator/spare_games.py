"""Spare games: what the evaluator plays while no candidate waits.

Trials, which a person requests with ``zerofleet match``, come first. Then the rating pool plays
promoted models against earlier ones and fixed anchors. These games pause during a match of the
gate. What is missing follows from the stored rows, so another evaluator, or this one after a
restart, resumes them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Protocol

import structlog

from zerofleet.config import RunConfig
from zerofleet.database import MatchGame, MatchRow, RatingPlace, match_seed
from zerofleet.engine_process import EngineError
from zerofleet.errors import ConfigError, IncompatibleModelError, RecordRejectedError
from zerofleet.gtp.protocol import GtpError
from zerofleet.match.anchors import why_absent
from zerofleet.match.opening_book import checked_openings
from zerofleet.match.play_match import (
    MatchPlayer,
    PairQueue,
    Place,
    all_places,
    play_match,
    random_openings,
    together,
)
from zerofleet.search_configs import match_search
from zerofleet.services.evaluator.context import EvaluatorContext, Players
from zerofleet.services.evaluator.rating import Result, rate

_log = structlog.get_logger()

_IDLE_SECONDS = 1.0
# Games of a pairing or of a test match that are played before the most urgent ones are looked up
# again. With an anchor, each game may need its own program.
_PLACES_AT_ONCE = 24
# opponents; more models than inference keeps in memory would evict each other
_NETWORKS_AT_ONCE = 3
_NEVER = datetime.max.replace(tzinfo=UTC)

CANNOT_PLAY = (IncompatibleModelError, RecordRejectedError, EngineError, GtpError)
"""Errors of a player that cannot play, here or at all."""


class SpareGames(Protocol):
    """Games that are played while no candidate waits."""

    @property
    def in_play(self) -> bool:
        """Whether games are in play, also while they wait for a candidate's match."""
        ...

    async def play_some(self) -> bool:
        """Play the most urgent games; return False if there are none."""
        ...


class SpareTime:
    """Plays games of several kinds in turns: each time the most urgent kind that has any to play.

    Args:
        kinds: sources of games, the most urgent first.
        go: cleared while a candidate is judged; games in play then pause.
    """

    def __init__(self, kinds: Sequence[SpareGames], go: asyncio.Event) -> None:
        self._kinds = kinds
        self._go = go
        self._nothing_due = asyncio.Event()
        self._look_again = asyncio.Event()

    @property
    def in_play(self) -> bool:
        """Whether games of any kind are in play."""
        return any(games.in_play for games in self._kinds)

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Pause the games in play during this block, because a candidate is judged."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()

    async def play_on(self, seconds: float) -> None:
        """Let games be played for this long, or until none are left, even if a candidate waits."""
        if seconds <= 0:
            return
        self._nothing_due.clear()
        self._look_again.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nothing_due.wait()

    async def run(self) -> None:
        """Play until cancelled.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        while True:
            await self._go.wait()
            if await self._play_some():
                continue
            self._nothing_due.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._look_again.wait()
            self._look_again.clear()

    async def _play_some(self) -> bool:
        for games in self._kinds:
            if await games.play_some():
                return True
        return False


@dataclass(frozen=True, slots=True)
class Pairing:
    """A promoted model and an opponent of it, both by name."""

    player: str
    opponent: str


def pairings(
    promoted: Iterable[int], back: Iterable[int], anchors: Sequence[str], every: int = 1
) -> list[Pairing]:
    """Return all pairings of a run, the newest model's first.

    Opponents further back and fixed anchors keep the scale from drifting: with only the previous
    model, errors add up along the chain.

    Args:
        promoted: versions in the order of their promotions; a rollback adds nothing.
        back: distances to the opponents, in places among the rated models.
        anchors: fixed opponents.
        every: the first model and every N-th after it are rated.
    """
    chain = list(dict.fromkeys(promoted))[::every]
    found: list[Pairing] = []
    for place in reversed(range(len(chain))):
        earlier = [chain[place - step] for step in sorted(set(back)) if 0 < step <= place]
        opponents = [*map(str, earlier), *dict.fromkeys(anchors)]
        found += [Pairing(str(chain[place]), opponent) for opponent in opponents]
    return found


def openings_of(
    run: RunConfig, book: Sequence[str], count: int, seed: int
) -> tuple[list[list[int]], list[str]]:
    """Return the actions and the start position of each opening.

    Args:
        run: run with the game and ``evaluator.opening_plies``.
        book: start positions, which no action follows; empty: both are drawn.
    """
    if book:
        return [[] for _ in book], list(book)
    return random_openings(run.game.name, run.evaluator.opening_plies, count, seed)


@dataclass(frozen=True, slots=True)
class MissingGames:
    """Games that one pairing lacks, or the first part of them."""

    pairing: Pairing
    seed: int
    openings: list[list[int]]
    starts: list[str]  # start position of each opening; empty: all begin at the usual start
    places: list[Place]

    def first_part(self) -> MissingGames:
        """Return the games to play before the most urgent ones are looked up again."""
        return replace(self, places=self.places[:_PLACES_AT_ONCE])


@dataclass(frozen=True, slots=True)
class DueGames:
    """Games that one model lacks."""

    player: str
    pairings: list[MissingGames]
    stored: int  # games against all its opponents
    games: int  # when it lacks none


class PairingQueue:
    """Finds the newest model that lacks games."""

    def __init__(self, run: RunConfig) -> None:
        self._run = run
        self._book = checked_openings(run.game.name, run.rating.openings, "rating.openings")
        self._left_out: set[Pairing] = set()
        self._complete: dict[Pairing, int] = {}  # with their games
        self._all_complete: tuple[Sequence[int], Sequence[str]] | None = None

    def leave_out(self, pairing: Pairing) -> None:
        """Never return this pairing's games again."""
        self._left_out.add(pairing)

    def may_lack(self, promoted: Sequence[int], anchors: Sequence[str]) -> bool:
        """Return False if ``next`` last found that all games of these players are stored."""
        return self._all_complete != (promoted, anchors)

    def next(
        self, promoted: Sequence[int], anchors: Sequence[str], stored: Collection[RatingPlace]
    ) -> DueGames | None:
        """Return the games that the newest incomplete model lacks, or the first part of them.

        Args:
            promoted: versions in the order of their promotions.
            anchors: anchors that can play here.
            stored: places that hold a game.
        """
        rating = self._run.rating
        wanted = pairings(promoted, rating.opponents, anchors, rating.every)
        for player, group in groupby(wanted, key=lambda pairing: pairing.player):
            present = [pairing for pairing in group if pairing not in self._left_out]
            found = [
                self._missing(pairing, stored)
                for pairing in present
                if pairing not in self._complete
            ]
            for each in found:
                if not each.places:
                    self._complete[each.pairing] = 2 * len(each.openings)
            lacking = [each for each in found if each.places]
            if lacking:
                held = sum(self._complete.get(pairing, 0) for pairing in present)
                games = held + sum(2 * len(each.openings) for each in lacking)
                held = games - sum(len(each.places) for each in lacking)
                return DueGames(player, [each.first_part() for each in lacking], held, games)
        self._all_complete = (promoted, anchors)
        return None

    def _missing(self, pairing: Pairing, stored: Collection[RatingPlace]) -> MissingGames:
        """Return all games that a pairing lacks."""
        seed = match_seed(self._run.seed, "rating", pairing.player, pairing.opponent)
        pairs = (self._run.rating.games + 1) // 2
        openings, starts = openings_of(self._run, self._book[:pairs], pairs, seed)
        places = [
            place
            for place in all_places(len(openings))
            if (pairing.player, pairing.opponent, *place) not in stored
        ]
        return MissingGames(pairing, seed, openings, starts, places)


class RatingPool:
    """Plays the rating games that a run lacks, and rates all players from all stored games.

    Args:
        players: finds players by name.
        go: cleared while games in play have to wait.
    """

    def __init__(self, context: EvaluatorContext, players: Players, go: asyncio.Event) -> None:
        self.context = context
        self._players = players
        self._go = go
        self._queue = PairingQueue(context.run)
        self._search = match_search(context.run.search, context.run.rating.num_simulations)
        self._networks = asyncio.Semaphore(_NETWORKS_AT_ONCE)
        self._rating = asyncio.Lock()
        self._rated: list[Result] | None = None  # results behind the stored ratings
        self._absent: set[str] = set()
        self._figures = context.figures

    @property
    def in_play(self) -> bool:
        """See ``SpareGames``."""
        return self._figures.rating_in_play

    async def play_some(self) -> bool:
        """Play the games that one model lacks, against all its opponents at once."""
        context = self.context
        if context.run.rating.games == 0:
            return False
        chain = await context.ask(context.database.promotions, context.run.name)
        versions = [promotion.version for promotion in reversed(chain)]
        anchors = self._present(context.run.rating.anchors)
        if not self._queue.may_lack(versions, anchors):
            return False
        stored = await context.ask(context.database.rating_places, context.run.name)
        self._figures.rating_games = len(stored)
        due = self._queue.next(versions, anchors, stored)
        if due is None:
            return False
        self._figures.rating_player = int(due.player)
        self._figures.rating_player_games = due.stored
        self._figures.rating_player_most_games = due.games
        self._figures.rating_in_play = True
        try:
            await self._play(due)
        finally:
            self._figures.rating_in_play = False
        return True

    async def rate(self) -> None:
        """Rate all players from all stored games, if there are new ones."""
        async with self._rating:  # a rating from fewer games never replaces one from more
            ask, database, name = self.context.ask, self.context.database, self.context.run.name
            results = [
                Result(each.player, each.opponent, each.wins, each.draws, each.losses)
                for each in await ask(database.player_results, name)
            ]
            if results == self._rated:
                return
            # In a thread: for a thousand players this takes seconds.
            ratings = await asyncio.to_thread(rate, results)
            await ask(database.upsert_ratings, name, [(r.player, r.elo, r.error) for r in ratings])
            self._rated = results

    def _present(self, anchors: Sequence[str]) -> list[str]:
        game, engines = self.context.run.game.name, self.context.engines
        reasons = {name: why_absent(name, game, engines) for name in anchors}
        for name, reason in reasons.items():
            if reason is not None and name not in self._absent:
                self._absent.add(name)
                _log.warning("anchor_left_out", anchor=name, reason=reason)
        return [name for name, reason in reasons.items() if reason is None]

    async def _play(self, due: DueGames) -> None:
        """Play a model's pairings together, over one stream to each model."""
        _log.info(
            "rating",
            player=due.player,
            opponents=[each.pairing.opponent for each in due.pairings],
            games=sum(len(each.places) for each in due.pairings),
        )
        async with AsyncExitStack() as streams:
            player = await self._players.player(streams, due.player, self._search, 0)
            await together(*(self._play_pairing(each, player) for each in due.pairings))

    async def _play_pairing(self, missing: MissingGames, player: MatchPlayer) -> None:
        """Play some of a pairing's games; leave the pairing out from now on if it cannot play."""
        pairing, run = missing.pairing, self.context.run
        async with AsyncExitStack() as streams:
            if pairing.opponent.isdecimal():
                await streams.enter_async_context(self._networks)
            try:
                opponent = await self._players.player(
                    streams, pairing.opponent, self._search, missing.seed
                )
                match_id = await self._open(missing)

                async def keep(games: Sequence[MatchGame]) -> None:
                    await self._store(match_id, games)

                queue = PairQueue(missing.places, run.inference.max_batch_rows // 2)
                players = (player, opponent)
                await play_match(
                    run.game.name,
                    missing.openings,
                    players,
                    queue,
                    keep,
                    self._go,
                    self.context.clock_ahead,
                    self.context.in_play,
                    missing.starts,
                )
            except (ConfigError, *CANNOT_PLAY) as error:
                self._queue.leave_out(pairing)
                _log.error(
                    "pairing_left_out",
                    player=pairing.player,
                    opponent=pairing.opponent,
                    reason=str(error),
                )
        await self.rate()

    async def _open(self, missing: MissingGames) -> int:
        """Open the match of a pairing, and return the id of its row."""
        context = self.context
        match = await context.ask(
            context.database.open_match,
            context.run.name,
            "rating",
            missing.pairing.player,
            missing.pairing.opponent,
            games=2 * len(missing.openings),
            num_simulations=context.run.rating.num_simulations,
            seed=missing.seed,
            epoch=context.epoch,
        )
        return match.match_id

    async def _store(self, match_id: int, games: Sequence[MatchGame]) -> None:
        await self.context.record(match_id, games)
        self._figures.rating_games += len(games)
        self._figures.rating_player_games += len(games)


class Trials:
    """Plays the trials that lack games, one after the other.

    A trial is a row before it begins, and it decides nothing.

    Args:
        players: finds players by name.
        go: cleared while games in play have to wait.
        rate: recomputes all ratings.
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
        """Play some games of the unfinished trial with the fewest simulations left."""
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
                raise IncompatibleModelError(f"the files of model {version} have been deleted")

    async def _play(self, trial: MatchRow) -> None:
        context, run = self._context, self._context.run
        book = trial.openings[: trial.games // 2]
        # In a thread: drawing thousands of openings takes seconds.
        openings, starts = await asyncio.to_thread(
            openings_of, run, book, trial.games // 2, trial.seed
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
        missing = set(all_places(len(openings))) - stored
        names = {"player": trial.player, "opponent": trial.opponent}
        simulations = trial.num_simulations
        _log.info("trial", **names, simulations=simulations, games_to_play=len(missing))

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
                starts,
            )

    async def _leave_out(self, trial: MatchRow, reason: str) -> None:
        """Record why a trial cannot be played; a person may request it again."""
        _log.error("trial_left_out", player=trial.player, opponent=trial.opponent, reason=reason)
        context = self._context
        await context.ask(
            context.database.leave_out_trial, trial.match_id, reason, epoch=context.epoch
        )
