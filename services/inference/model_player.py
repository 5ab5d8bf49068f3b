"""Searches for clients, over this service's own models and batcher."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import Search, SearchResult

from zerofleet import games
from zerofleet.config import SearchSection
from zerofleet.errors import ConfigError, InvalidRequestError, OverloadedError
from zerofleet.games import sgf
from zerofleet.games.notation import player_names
from zerofleet.rpc.codec import BEST, parse_version
from zerofleet.rpc.player_service import (
    Actions,
    PlayedAction,
    PlayerDescription,
    PositionPrediction,
    SearchChild,
    SearchOptions,
    SearchTable,
    Sgf,
)
from zerofleet.search_configs import client_search
from zerofleet.services.inference.backend import PinnedPredictor
from zerofleet.services.inference.batcher import Batcher
from zerofleet.services.inference.loaded_models import LoadedModel
from zerofleet.services.inference.served_models import ServedModels

# Simulations run on the event loop between two predictions; where all of them end in finished
# games, one call may run to the end. This many take some 10 ms there. An analysis makes more of
# them, in steps.
MAX_SIMULATIONS = 20_000
MAX_ANALYSIS_SIMULATIONS = 1_000_000
MAX_LEAVES = 256
_PARSING_THREADS = 2
_MOST_SEARCHES = 64
# A tree has 20 bytes for each edge and an eighth of room at most, so these are 0.9 GB at worst.
_MOST_EDGES = 40_000_000
_STEP_EDGES = 5_000_000  # most edges that one step of an analysis adds


@dataclass(frozen=True, slots=True)
class RequestedPosition:
    """A position that is not terminal, and how it came about."""

    state: games.State
    actions: tuple[int, ...]  # from its start position


def replay(game: str, actions: Actions, start: str = "") -> RequestedPosition:
    """The position after those actions.

    Args:
        game: name of the game.
        actions: an SGF has a start position of its own.
        start: position that the actions begin at; empty: the usual start.

    Raises:
        InvalidRequestError: a wrong start position, an action that the rules forbid (named with its
            place in the list), a game that is over, or an SGF that is not of this game.
    """
    if isinstance(actions, Sgf):
        read = _read_sgf(game, actions.text)
        actions, start = read.actions, read.start
    try:
        state = games.State(game, [], start)
    except ValueError as error:
        raise InvalidRequestError(f"start: {error}") from error
    played: list[int] = []
    for ply, action in enumerate(actions):
        if state.is_terminal:
            raise InvalidRequestError(
                f"ply {ply}: action {action!r} comes after the end: {_outcome(state)}"
            )
        try:
            number = state.string_to_action(action) if isinstance(action, str) else action
            state.apply(number)
        except ValueError as error:
            raise InvalidRequestError(f"ply {ply}: illegal action {action!r}: {error}") from error
        except TypeError as error:
            raise InvalidRequestError(f"ply {ply}: {action!r} is not an action") from error
        played.append(number)
    if state.is_terminal:
        raise InvalidRequestError(
            f"the game is over after {state.ply} plies, {_outcome(state)}: nothing is left to play"
        )
    return RequestedPosition(state, tuple(played))


def _read_sgf(game: str, file: str | bytes) -> sgf.ReadGame:
    try:
        return sgf.read(file, game)
    except ConfigError as error:
        raise InvalidRequestError(str(error)) from error


def _outcome(state: games.State) -> str:
    if state.result == 0:
        return "a draw"
    return f"{player_names(state.game)[0 if state.result > 0 else 1]} won"


@dataclass(slots=True)
class Reserved:
    """Edges that the tree of a running search may grow to."""

    edges: int


class Admission:
    """Which searches may run together: as many as memory holds.

    It counts the searches that run and the edges that their trees may grow to.

    Args:
        most_searches: that may run together.
        most_edges: of all their trees together; one search alone may have more.
    """

    def __init__(self, most_searches: int = _MOST_SEARCHES, most_edges: int = _MOST_EDGES) -> None:
        self._most_searches = most_searches
        self._most_edges = most_edges
        self._edges = 0
        self.searches = 0

    @contextlib.contextmanager
    def admitted(self, simulations: int, num_actions: int) -> Generator[Reserved]:
        """A search of this size runs inside; each of its simulations adds at most one node.

        Yields:
            The edges of its tree; ``resize`` changes them.

        Raises:
            OverloadedError: the searches that run leave no room for it.
        """
        edges = simulations * num_actions
        if self.searches >= self._most_searches:
            raise OverloadedError(
                f"{self.searches} searches are running, which is the limit: send again later"
            )
        if self.searches and self._edges + edges > self._most_edges:
            raise OverloadedError(
                f"no memory for a search of {simulations} simulations: its tree may have {edges:,} "
                f"edges, and running searches have {self._edges:,} of at most "
                f"{self._most_edges:,}. "
                "Send again later, or ask for fewer simulations"
            )
        reserved = Reserved(edges)
        self.searches += 1
        self._edges += edges
        try:
            yield reserved
        finally:
            self.searches -= 1
            self._edges -= reserved.edges

    def resize(self, reserved: Reserved, edges: int) -> bool:
        """Reserve another number of edges for a running search.

        Growing searches leave half of the memory to new searches.

        Returns:
            False, with nothing changed, if all trees together would exceed half of the limit.
        """
        total = self._edges - reserved.edges + edges
        if total > self._most_edges // 2:
            return False
        self._edges, reserved.edges = total, edges
        return True


@dataclass(frozen=True, slots=True)
class Every:
    """When a running search shows its table; with neither, not before the end."""

    simulations: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class SearchSize:
    """Number of simulations of a search, and of each step of it."""

    simulations: int
    step: int = MAX_SIMULATIONS

    @property
    def first(self) -> int:
        """Simulations of the first step, which is the largest."""
        return min(self.simulations, self.step)

    def steps(self) -> Iterator[int]:
        """Yield the total number of simulations at the end of each step."""
        yield from range(self.step, self.simulations, self.step)
        yield self.simulations


class Due:
    """Counts from one table to the next."""

    def __init__(self, every: Every) -> None:
        self._every = every
        self._simulations = every.simulations or 0
        self._time = time.monotonic() + (every.seconds or 0.0)

    def time_passed(self) -> bool:
        """Whether it is worth looking at the simulations."""
        every = self._every
        if every.simulations is None and every.seconds is None:
            return False
        return every.seconds is None or time.monotonic() >= self._time

    def now(self, simulations: int) -> bool:
        """Whether a table is due; if so, the next one is counted from here."""
        if simulations < self._simulations:
            return False
        self._simulations = simulations + (self._every.simulations or 0)
        self._time = time.monotonic() + (self._every.seconds or 0.0)
        return True


class ModelPlayer:
    """A ``PlayerBackend`` of one run.

    Args:
        game: name of the run's game.
        search: the run file's section; requests may choose another number of simulations.
    """

    def __init__(
        self, game: str, search: SearchSection, models: ServedModels, batcher: Batcher
    ) -> None:
        self._game = game
        self._search = search
        self._models = models
        self._batcher = batcher
        self._num_actions = games.spec(game).num_actions
        self._admission = Admission()
        self._parsers = ThreadPoolExecutor(_PARSING_THREADS, thread_name_prefix="sgf")

    @property
    def searches(self) -> int:
        """Searches that are running."""
        return self._admission.searches

    async def describe(self) -> PlayerDescription:
        """See ``PlayerBackend``."""
        spec = games.spec(self._game)
        best = self._models.peek(None)
        return PlayerDescription(
            game=self._game,
            num_actions=spec.num_actions,
            observation_shape=spec.observation_shape,
            run=self._models.run,
            best=None if best is None else best.version,
            versions=tuple(state.version for state in await self._models.index()),
            num_simulations=self._simulations(SearchOptions(), MAX_SIMULATIONS),
            max_simulations=MAX_SIMULATIONS,
            max_analysis_simulations=MAX_ANALYSIS_SIMULATIONS,
            sets_up_positions=spec.sets_up_positions,
        )

    async def predict(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
    ) -> PositionPrediction:
        """See ``PlayerBackend``."""
        state = (await self._position(game, actions, start)).state
        model = await self._model(run, version)
        prediction = await PinnedPredictor(self._batcher, model).predict(
            state.observation()[np.newaxis]
        )
        legal = state.legal_actions()
        return PositionPrediction(
            run=self._models.run,
            version=model.version,
            to_play=state.to_play,
            value=float(prediction.value[0]),
            actions=tuple(legal),
            action_strings=tuple(state.action_to_string(action) for action in legal),
            priors=tuple(_softmax(prediction.policy_logits[0].astype(np.float64)[legal]).tolist()),
        )

    async def search(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
        options: SearchOptions,
    ) -> SearchTable:
        """See ``PlayerBackend``."""
        never, size = Every(None, None), SearchSize(self._simulations(options, MAX_SIMULATIONS))
        tables = self._tables(game, actions, start, run, version, options, never, size)
        *_, last = [table async for table in tables]
        return last

    async def analyze(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
        options: SearchOptions,
        every_simulations: int = 0,
        every_seconds: float = 0.0,
    ) -> AsyncGenerator[SearchTable]:
        """See ``PlayerBackend``."""
        if every_simulations < 0:
            raise InvalidRequestError(f"every_simulations is {every_simulations}: give 0 or more")
        if not 0 <= every_seconds < np.inf:
            raise InvalidRequestError(f"every_seconds is {every_seconds}: give 0 or more")
        simulations = self._simulations(options, MAX_ANALYSIS_SIMULATIONS)
        if not every_simulations and not every_seconds:
            every_simulations = max(1, simulations // 10)
        every = Every(every_simulations or None, every_seconds or None)
        step = max(1, min(MAX_SIMULATIONS, _STEP_EDGES // self._num_actions))
        size = SearchSize(simulations, step)
        tables = self._tables(game, actions, start, run, version, options, every, size)
        async with contextlib.aclosing(tables):
            async for table in tables:
                yield table

    async def play(
        self,
        game: str,
        actions: Actions,
        *,
        start: str = "",
        run: str = "",
        version: str = BEST,
        options: SearchOptions,
        temperature: float = 0.0,
    ) -> PlayedAction:
        """See ``PlayerBackend``."""
        if not 0 <= temperature < np.inf:
            raise InvalidRequestError(f"temperature is {temperature}: give 0 or more")
        table = await self.search(
            game, actions, start=start, run=run, version=version, options=options
        )
        action = _choose(table, temperature, options.get("seed"))
        return PlayedAction(
            run=table.run,
            version=table.version,
            action=action.action,
            action_string=action.action_string,
            root_value=table.root_value,
            simulations=table.simulations,
        )

    async def _tables(
        self,
        game: str,
        actions: Actions,
        start: str,
        run: str,
        version: str,
        options: SearchOptions,
        every: Every,
        size: SearchSize,
    ) -> AsyncGenerator[SearchTable]:
        """The search's table each time that one is due, and at the end."""
        position = await self._position(game, actions, start)
        with self._admission.admitted(size.first, self._num_actions) as reserved:
            search = self._new_search(position, options, size)
            model = await self._model(run, version)
            predictor = PinnedPredictor(self._batcher, model)
            due = Due(every)
            for total in size.steps():
                search.set_simulations(total)
                while len(observations := search.select()):
                    # Copied: a search that is given up goes before the batcher is done with its
                    # rows.
                    prediction = await predictor.predict(observations.copy())
                    search.backup(prediction.policy_logits, prediction.value, model.version)
                    if due.time_passed() and not search.done:  # the last table comes once, below
                        result = search.results()[0]
                        if due.now(result.simulations):
                            yield self._table(result, position.state, model.version, done=False)
                if total < size.simulations and not self._can_grow(search, total, size, reserved):
                    break
                await asyncio.sleep(0)  # a step may need no prediction
            yield self._table(search.results()[0], position.state, model.version, done=True)

    def _can_grow(
        self, search: Search, simulations: int, size: SearchSize, reserved: Reserved
    ) -> bool:
        """Return whether a search can make another step after this number of simulations."""
        if search.results()[0].simulations < simulations:
            return False  # its result is proven
        edges = search.statistics.edges + size.first * self._num_actions
        return self._admission.resize(reserved, edges)

    async def _position(self, game: str, actions: Actions, start: str) -> RequestedPosition:
        if game not in ("", self._game):
            raise InvalidRequestError(f"this server plays '{self._game}', not '{game}'")
        if isinstance(actions, Sgf):
            # Parsing a long one would hold up all other requests, and many of them the loop's own
            # threads.
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._parsers, replay, self._game, actions)
        return replay(self._game, actions, start)

    async def _model(self, run: str, version: str) -> LoadedModel:
        if run:
            self._models.require(run)
        return await self._models.get(parse_version(self._models.run, version))

    def _simulations(self, options: SearchOptions, most: int) -> int:
        simulations = options.get("simulations")
        if simulations is None:
            return min(self._search.num_simulations, MAX_SIMULATIONS)
        if not 1 <= simulations <= most:
            raise InvalidRequestError(f"num_simulations is {simulations}: give 1 to {most}")
        return simulations

    def _new_search(
        self, position: RequestedPosition, options: SearchOptions, size: SearchSize
    ) -> Search:
        simulations = min(size.simulations, MAX_SIMULATIONS)  # also bounds the cache
        leaves, seed = options.get("leaves", 1), options.get("seed")
        if not 1 <= leaves <= MAX_LEAVES:
            raise InvalidRequestError(f"leaves is {leaves}: give 1 to {MAX_LEAVES}")
        if seed is None:
            seed = secrets.randbits(63)
        if not 0 <= seed < 1 << 64:
            raise InvalidRequestError(f"seed is {seed}: give 0 to 2^64 - 1")
        try:
            return Search(
                self._game,
                [position.actions],
                client_search(self._search, simulations),
                seed,
                leaves_per_position=leaves,
                noise=options.get("noise", False),
                starts=[position.state.start],
                root_actions=[options.get("actions", ())],
            )
        except ValueError as error:  # the position has been checked, and these actions have not
            raise InvalidRequestError(str(error)) from error

    def _table(
        self, result: SearchResult, state: games.State, version: int, *, done: bool
    ) -> SearchTable:
        children = tuple(
            SearchChild(
                action=int(result.actions[child]),
                action_string=state.action_to_string(int(result.actions[child])),
                visit_count=int(result.visit_counts[child]),
                prior=float(result.priors[child]),
                q_value=None if np.isnan(q_value) else float(q_value),
                principal_variation=tuple(result.principal_variations[child]),
            )
            for child, q_value in enumerate(result.q_values)
        )
        return SearchTable(
            run=self._models.run,
            version=version,
            to_play=state.to_play,
            simulations=result.simulations,
            root_value=result.root_value,
            network_value=result.network_value,
            best_action=result.best_action,
            best_action_string=state.action_to_string(result.best_action),
            children=children,
            done=done,
        )


def _choose(table: SearchTable, temperature: float, seed: int | None) -> SearchChild:
    """The best action, or a sample with probability ~ visits^(1 / temperature) (AlphaGo Zero)."""
    visits = np.array([child.visit_count for child in table.children], np.float64)
    if temperature == 0 or not visits.any():
        return next(child for child in table.children if child.action == table.best_action)
    with np.errstate(divide="ignore", over="ignore"):
        # Shares of the most, so that the least temperature leaves exactly those.
        weights = _softmax(np.log(visits / visits.max()) / temperature)
    return table.children[int(np.random.default_rng(seed).choice(len(visits), p=weights))]


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
